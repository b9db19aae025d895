"""A pasted command of curl is the request that curl sends, or is refused."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.console.curl_command import CommandError, read_curl, split_words

Sent = tuple[str, str, dict[str, str], bytes]
HEADERS = ("content-type", "authorization", "cookie", "range", "referer", "host")

URL = "http://h/a"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"curl -F a=b {URL}", "option -F of curl is not known"),
        (f"curl --form-string a=b {URL}", "--form-string of curl is not known"),
        (f"curl -T file {URL}", "-T of curl is not known"),
        (f"curl -K file {URL}", "-K of curl is not known"),
        (f"curl -n {URL}", "-n of curl is not known"),
        (f"curl --digest -u a:b {URL}", "--digest of curl is not known"),
        (f"curl --request-target /b {URL}", "--request-target of curl is not known"),
        (f"curl {URL} --next {URL}", "--next of curl is not known"),
        (f"curl -sF a=b {URL}", "-F of curl is not known"),
        (f"curl --silent=yes {URL}", "--silent of curl is not known"),
        (f"curl {URL} {URL}", "several URLs"),
        (f"curl -X POST {URL} data", "several URLs"),
        (f"curl --data-urlencode @file {URL}", "body must be in the command"),
        (f"curl --data-urlencode a@file {URL}", "body must be in the command"),
        (f"curl --json @file {URL}", "body must be in the command"),
        (f"curl -H @file {URL}", "headers must be in the command"),
        (f"curl -u ann {URL}", "needs user:password"),
        (f"curl -I -d a {URL}", "no data with -I"),
        (f"curl -r x {URL}", "range of the curl command is invalid"),
        (f"curl -X 'A B' {URL}", "method of the curl command is invalid"),
        (f"curl -H $'a: b\\nc: d' {URL}", "control character"),
        (f"curl {URL} | jq .", "`|` as the end"),
        (f"curl {URL}?a=1&b=2", "`&` as the end"),
        (f"curl {URL} > out", "`>` as the end"),
        (f"curl {URL}\nrm x", "a line break as the end"),
        (f"curl {URL} # x", "comment"),
        (f"curl $HOST{URL}", "variables"),
        (f'curl -H "a: $TOKEN" {URL}', "variables"),
        (f'curl -d "$(cat x)" {URL}', "variables"),
        (f'curl -d "`cat x`" {URL}', "command by its output"),
        ("curl http://h/{a,b}", "replace braces"),
        ("curl 'http://h/{a,b}'", "as a pattern"),
        ("curl http://h/a[1-3]", "as a pattern"),
        ("curl ftp://h/a", "http:// or https://"),
        ("curl file:///etc/passwd", "http:// or https://"),
        ("curl 'http://h/a b'", "contains blanks"),
        ("curl 'a=b;c'", "curl refuses the host"),
        ("curl http://h:99999/", "invalid"),
        ("curl http:///a", "no host"),
        ("curl -", "no URL from"),
        (f'curl ^"{URL}^"', "cmd of Windows"),
        (f"curl {URL} -H $'a", "no closing quotation"),
        (f'curl {URL} -H "a', "no closing quotation"),
        (f"curl {URL} -H $'\\xff: a'", "not UTF-8"),
        ("curlie http://h", "is not curl"),
    ],
)
def test_a_command_that_depends_on_more_than_its_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(CommandError, match=re.escape(problem)):
        read_curl(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a \'b c\' "d\\"e" f\\ g', ["a", "b c", 'd"e', "f g"]),
        ("a \\\n  b", ["a", "b"]),
        ("$'a\\'b\\n\\x41\\101\\u00e9\\xc3\\xa9\\q'", ["a'b\nAAéé\\q"]),
        ("a''b \"\"", ["ab", ""]),
        ('\'$x\' "\\$x" $ "$ "', ["$x", "$x", "$", "$ "]),
    ],
)
def test_words_are_those_of_bash(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_headers_of_options_give_way_to_those_that_are_given() -> None:
    request = read_curl(f"curl --json '{{}}' -H 'content-type: a/b' -H 'Accept:' -H 'X;' {URL}")
    assert request.headers == {"content-type": "a/b", "x": ""}


def test_data_goes_into_the_query_with_get() -> None:
    request = read_curl(f"curl -G {URL}?x=1 -d y=2 --data-urlencode 'z=a b&c'")
    assert (request.method, request.target) == ("GET", "/a?x=1&y=2&z=a+b%26c")
    assert (request.body, request.headers) == (b"", {})


def test_a_user_in_the_url_is_authorization_and_no_host() -> None:
    request = read_curl("curl http://ann:p%40w@h:80/")
    assert (request.host, request.headers) == ("h", {"authorization": "Basic YW5uOnBAdw=="})


class Server:
    """Records the requests that curl sends."""

    def __init__(self) -> None:
        self.requests: list[Sent] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def __getattr__(self, name: str) -> Any:
                if not name.startswith("do_"):
                    raise AttributeError(name)
                return self.record

            def record(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers: dict[str, str] = {}
                for name, value in self.headers.items():
                    value = value.encode("latin-1").decode()
                    before = headers.get(name.lower())
                    headers[name.lower()] = value if before is None else f"{before},{value}"
                target = self.requestline.split(" ")[1].encode("latin-1").decode()
                requests.append((self.command, target, headers, body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)


@pytest.fixture(scope="module")
def send(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[Sent]]]:
    """Runs a command in bash, and returns the requests; `HOST` in it is the server's."""
    curl = shutil.which("curl")
    if curl is None or shutil.which("bash") is None:
        pytest.skip("curl and bash are missing")
    server, folder = Server(), tmp_path_factory.mktemp("curl")

    def run(text: str) -> list[Sent]:
        server.requests.clear()
        command = text.replace("curl ", f"{curl} -q --noproxy '*' -m 10 ", 1)
        subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={"HOME": str(folder), "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
            check=False,
        )
        return list(server.requests)

    run.address = server.address  # type: ignore[attr-defined]
    yield run
    server.close()


VALUES = (
    *("a=1", "'a b'", '"x y"', "$'a\\nb'", "$'caf\\u00e9'", "'{\"a\":1}'", "a\\ b", "'=x&y'"),
    *("n=@x", "@x", "'a@b=c d'", "é", "''", "'A: b'", "'A;'", "'A:'", "'Content-Type: t/x'"),
    *("'Cookie: z=1'", "'Authorization: Q'", "s=1", "ann:pw", "0-5", "POST", "put", "$'it\\'s'"),
)
SWITCHES = ("-G", "-I", "-s", "-sS", "-k", "-L", "--get", "--head", "-g", "--compressed")
TAKERS = (
    *("-d", "--data-raw", "--data-binary", "--data-urlencode", "--json", "-H", "-b", "-u", "-e"),
    *("-A", "-X", "-sXPUT -d", "-r", "-F", "-T", "-o/dev/null -d", "--oauth2-bearer", "-kd"),
)
PATHS = (
    *("/", "", "/a/../b", "/./a/..", "/a?x=1", "?x=1", "/a%2e%2e/b", "/{a,b}", "/a[1-2]"),
    *("'/a?x=1&y=2'", "/a#f", "/a?b#f", "/a//b/../c", "/é", "/..", "/a/.", "/a\\b"),
)


def write_command(chooser: random.Random, address: str) -> str:
    words: list[str] = []
    for _ in range(chooser.randint(0, 3)):
        if chooser.random() < 0.25:
            words.append(chooser.choice(SWITCHES))
        else:
            words.append(f"{chooser.choice(TAKERS)} {chooser.choice(VALUES)}")
    scheme = chooser.choice(["http://", "", "HTTP://", "http://u:p@", "http://u@"])
    words.insert(chooser.randint(0, len(words)), f"{scheme}{address}{chooser.choice(PATHS)}")
    return f"curl {' '.join(words)}"


def lower_escapes(text: str) -> str:
    return re.sub("%[0-9A-Fa-f]{2}", lambda match: match[0].lower(), text)


@pytest.mark.parametrize("seed", range(8))
def test_the_request_is_what_curl_sends(seed: int, send: Callable[[str], list[Sent]]) -> None:
    chooser = random.Random(seed)
    compared = 0
    while compared < 10:
        text = write_command(chooser, send.address)  # type: ignore[attr-defined]
        try:
            request = read_curl(text)
        except CommandError:
            continue
        compared += 1
        sent = send(text)
        assert len(sent) == 1, text
        method, target, headers, body = sent[0]
        known = {name for name in headers if name in HEADERS} | request.headers.keys()
        ours = {**request.headers, "host": request.host}
        assert (method, lower_escapes(target)) == (request.method, lower_escapes(request.target))
        assert {name: headers.get(name) for name in known} == ours, text
        assert body == request.body, text
