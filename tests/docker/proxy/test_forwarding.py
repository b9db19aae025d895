"""Nothing reaches the daemon that was not decided, and what does is written in one spelling."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.guarded import write_policies
from tests.docker.proxied import proxied
from tests.docker.proxy.fake_daemon import OK, FakeDaemon, fake_daemon, talk
from tests.ports import free_port
from tests.waiting import PATIENCE

from doorward.docker.plugin import Judged
from doorward.docker.proxy.exchange import MOST_JSON, Budget, RefusedError
from doorward.docker.proxy.service import Consumer, ProxyOptions, ProxyService
from doorward.docker.proxy.wire import MOST_HEAD, chunk
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import WaitError
from doorward.docker.unix_http import UnixConnection
from doorward.transport.loop import SWEEP

HEAD = b"GET /v1.41/containers/json HTTP/1.1\r\nHost: h\r\n"
CLOSE = "Host: h\r\nConnection: close\r\n"


class Behind:
    """A proxy in front of a daemon that only remembers."""

    def __init__(
        self,
        folder: Path,
        daemon: FakeDaemon,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.daemon = daemon
        self.path = str(folder / "s.sock")
        self.viewer = str(folder / "v.sock")
        users = {"root": ["operator", "buildkit"], "socket:v": ["viewer"]}
        policies = write_policies(folder / "policies", **{"users": users, **settings})
        self.audit = folder / "audit.log"
        self.service = ProxyService(
            ProxyOptions(
                daemon=daemon.path,
                socket=self.path,
                consumers=[Consumer("v", self.viewer)],
                policies=[str(policies)],
                audit_log=str(self.audit),
                deadline=60.0,
                grace=0.1,
                **(options or {}),
            )
        )
        self.service.start()

    def ask(self, request: str, body: bytes = b"", *, viewer: bool = False) -> tuple[int, bytes]:
        """Status and body of the answer to a request that is the last of its connection."""
        line, _, rest = request.partition("\r\n")
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        content = f"{line} HTTP/1.1\r\n{CLOSE}{rest}{length}\r\n".encode() + body
        answer = talk(self.viewer if viewer else self.path, content)
        head, _, content = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), content


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("p")
    with fake_daemon(folder / "d.sock") as daemon:
        proxy = Behind(folder, daemon)
        yield proxy
        proxy.service.close()


@pytest.fixture
def behind(served: Behind) -> Behind:
    """The proxy, and the daemon as if nothing had come yet."""
    served.daemon.received.clear()
    served.daemon.answer, served.daemon.closes = OK, False
    served.daemon.answers_after = b""
    served.audit.write_text("")
    return served


def test_request_is_written_in_one_spelling(behind: Behind) -> None:
    request = (
        "POST /v1.41/containers/%63reate?%6eame=a+b&platform=\r\nX-Evil: 1\r\n"
        "User-Agent: u\r\nContent-Type: text/plain\r\nTE: trailers\r\nContent-Encoding: x\r\n"
    )
    body = b'{ "image": "img:1", "HostCONFIG": {"Memory": 1000}, "tty" : null }'
    assert behind.ask(request.replace("a+b", "ab"), body) == (200, b"{}")
    head, _, content = behind.daemon.content.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /v1.41/containers/create?name=ab&platform= HTTP/1.1",
        b"Host: docker",
        b"user-agent: u",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(content),
    ]
    assert json.loads(content) == {"Image": "img:1", "HostConfig": {"Memory": 1000}}
    assert content.startswith(b'{"')


REFUSED = [
    ("GET /v1.41./containers/json", b""),
    ("POST /v1.41./containers/create", b'{"Image": "x"}'),
    ("POST /v1.41/containers/create", b'{"Image": "x", "Binds": ["/:/h"]}'),
    ("POST /v1.41/containers/create", b'{"Image": "x", "HostConfig": {"Binds": ["/:/h"]}}'),
    ("POST /v1.41/containers/create", b'{"Image": "x", "hostconfig": {"PRIVILEGED": true}}'),
    ("POST /v1.41/containers/create", b'{"Image":"x"}{"HostConfig":{"Privileged":true}}'),
    ("POST /v1.41/containers/create", b'{"Image":"x","Image":"y"}'),
    ("POST /v1.41/containers/create", b'"x"'),
    ("POST /v1.41/containers/create", b""),
    ("POST /containers/create\r\nContent-Type: a/b\r\n", b"Image=x"),
    ("GET /containers/json?filters=x;y", b""),
    ("GET //containers/json", b""),
    ("GET /v1.41/../containers/json", b""),
    ("GET /containers/%2e%2e/json", b""),
    ("GET /x", b""),
    ("POST /images/create?fromImage=good", b"fromImage=evil"),
    ("POST /containers/c/kill", b"signal=9"),
    ("PATCH /containers/c", b""),
    ("TRACE /_ping", b""),
    ("GET /swarm", b""),
    ("POST /plugins/x/disable", b""),
]


@pytest.mark.parametrize(("request_line", "body"), REFUSED)
def test_what_is_refused_reaches_nobody(behind: Behind, request_line: str, body: bytes) -> None:
    line = request_line if "\r\n" in request_line else request_line + "\r\n"
    status, answer = behind.ask(line, body)
    assert status >= 400, answer
    assert b"message" in answer
    assert behind.daemon.content == b""


OF_RIVALS = [
    ("GET /containers/c/%61rchive?path=/", b""),
    ("GET /containers/c/%65xport", b""),
    ("GET /containers/c/archive?path=/", b""),
    ("GET /containers/c/attach/ws?stdin=1&stream=1", b""),
    ("POST /containers/c/exec", b'{"Cmd": ["sh"]}'),
    ("POST /containers/c/update", b"{}"),
    ("DELETE /containers/c", b""),
    ("GET /v1.41/secrets/x", b""),
    ("GET /images/x/get", b""),
    ("POST /build", b""),
    ("POST /grpc", b""),
    ("POST /session", b""),
]


@pytest.mark.parametrize(("request_line", "body"), OF_RIVALS)
def test_viewer_only_looks(behind: Behind, request_line: str, body: bytes) -> None:
    status, answer = behind.ask(request_line + "\r\n", body, viewer=True)
    assert status == 403, answer
    assert b"socket:v may not" in answer
    assert behind.daemon.content == b""


@pytest.mark.parametrize(
    "content",
    [
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /_ping HTTP/1.0\r\n\r\n",
        b"GET /_ping HTTP/1.1\nHost: h\n\n\r\n\r\n",
        HEAD + b"Content-Length: 4\r\nContent-Length: 0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"POST /build HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n",
        b"GET /_ping HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 300 + b"\r\n",
        b"GET /_ping?" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
def test_bytes_that_are_not_strict_http_end_the_connection(behind: Behind, content: bytes) -> None:
    answer = talk(behind.path, content)
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")), answer
    assert behind.daemon.content == b""


def test_second_request_in_a_body_is_a_part_of_that_body(behind: Behind) -> None:
    inner = b"POST /plugins/x/disable HTTP/1.1\r\nHost: h\r\n\r\n"
    status, _ = behind.ask("POST /containers/c/wait\r\n", inner)
    assert status == 400
    assert behind.daemon.content == b""


def test_pipelined_requests_are_each_decided(behind: Behind) -> None:
    good = b"GET /v1.41/containers/json HTTP/1.1\r\nHost: h\r\n\r\n"
    evil = b"POST /v1.41/plugins/x/disable HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    answer = talk(behind.path, good + evil)
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 403 " in answer
    assert b"plugins" not in behind.daemon.content
    lines = [json.loads(line) for line in behind.audit.read_text().splitlines()]
    assert [line["decision"] for line in lines] == ["allow", "deny"]


def test_login_is_read_and_its_registry_judged(behind: Behind) -> None:
    body = b'{"username": "u", "password": "p", "serveraddress": "169.254.169.254"}'
    status, answer = behind.ask("POST /v1.41/auth\r\n", body)
    assert status == 403
    assert b"registry" in answer
    assert behind.daemon.content == b""
    assert b"password" not in behind.audit.read_bytes()
    assert (
        behind.ask("POST /v1.41/auth\r\n", body.replace(b"169.254.169.254", b"ghcr.io"))[0] == 200
    )


def test_daemon_that_is_gone_is_said(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon:
        proxy = Behind(tmp_path, daemon)
        daemon.close()
        status, answer = proxy.ask("GET /_ping\r\n")
        assert status == 502
        assert b"cannot be reached" in answer
        proxy.service.close()


def test_request_that_the_daemon_may_have_acted_on_is_not_repeated(behind: Behind) -> None:
    behind.ask("GET /_ping\r\n")
    behind.daemon.answer = b""
    behind.daemon.closes = True
    status, _ = behind.ask("POST /v1.41/containers/c/stop\r\n")
    assert status == 502
    assert behind.daemon.content.count(b"/stop") == 1


def test_answer_that_is_cut_is_not_completed(behind: Behind) -> None:
    behind.daemon.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"
    behind.daemon.closes = True
    content = f"GET /v1.41/events HTTP/1.1\r\n{CLOSE}\r\n".encode()
    answer = talk(behind.path, content)
    assert b"abcde" in answer
    assert not answer.endswith(b"0\r\n\r\n")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = [
    (OK, b"{}"),
    (CHUNKED + b"5\r\nabcde\r\n0\r\n\r\n", b"abcde"),
    (CHUNKED + b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n", b"abcde"),
    (CHUNKED + b"0\r\n\r\n", b""),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    (b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", b""),
]


@pytest.mark.parametrize(("answer", "body"), WHOLE)
def test_every_answer_ends_where_the_next_one_begins(
    behind: Behind, answer: bytes, body: bytes
) -> None:
    behind.daemon.answer = answer
    with closing(UnixConnection(behind.path, PATIENCE)) as client:
        for _ in range(3):
            client.request("GET", "/v1.41/version")
            assert client.getresponse().read() == body


def test_a_refusal_of_head_has_no_body(behind: Behind) -> None:
    answer = talk(behind.viewer, f"HEAD /v1.41/x HTTP/1.1\r\n{CLOSE}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"\r\n\r\n")


def test_connection_to_the_daemon_is_kept_but_not_for_what_takes_it_over(behind: Behind) -> None:
    behind.ask("GET /v1.41/version\r\n")
    before = behind.daemon.connections
    for _ in range(3):
        behind.ask("GET /v1.41/version\r\n")
    assert behind.daemon.connections == before
    behind.daemon.answer, behind.daemon.closes = UPGRADED, True
    talk(behind.path, SESSION.encode())
    assert behind.daemon.connections == before + 1


def test_daemon_that_ends_before_it_answers_is_said(behind: Behind) -> None:
    behind.daemon.answer, behind.daemon.closes = b"", True
    for request in ("GET /v1.41/version\r\n", "POST /v1.41/containers/c/stop\r\n"):
        status, answer = behind.ask(request)
        assert status == 502
        assert b"closed the connection without an answer" in answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * MOST_HEAD + b"\r\n\r\n", b"start line and headers"),
        (b"HTTP/1.0 200 OK\r\n\r\n", b"status line"),
    ],
)
def test_a_malformed_head_of_the_daemon_is_reported_as_the_daemons(
    behind: Behind, answer: bytes, message: bytes
) -> None:
    behind.daemon.answer, behind.daemon.closes = answer, True
    status, content = behind.ask("GET /v1.41/version\r\n")
    assert status == 502
    assert b"the Docker daemon's response is invalid: " + message in content


@pytest.mark.parametrize("path", ["/v1.41/images/load", "/v1.41/build"])
def test_an_upload_in_chunks_comes_whole(behind: Behind, path: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        info = tarfile.TarInfo("Dockerfile")
        info.size = 10
        file.addfile(info, io.BytesIO(b"FROM img:1"))
    content = archive.getvalue()
    # The daemon answers when it has the end, as it does.
    behind.daemon.answers_after = b"0\r\n\r\n"
    with closing(UnixConnection(behind.path, PATIENCE)) as client:
        pieces = [content[at : at + 1000] for at in range(0, len(content), 1000)]
        client.request("POST", path, iter(pieces), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})  # fmt: skip
        assert client.getresponse().read() == b"{}"
    _, _, body = behind.daemon.content.partition(b"\r\n\r\n")
    assert unchunk(body) == content


@pytest.mark.parametrize(
    ("chunks", "status", "message"),
    [
        (chunk(b" " * (MOST_JSON + 1)), 413, b"request body is larger than"),
        (b"x\r\n", 400, b"request body is malformed"),
    ],
)
def test_a_body_in_chunks_is_refused_if_too_large_or_malformed(
    behind: Behind, chunks: bytes, status: int, message: bytes
) -> None:
    head = f"POST /v1.41/containers/create HTTP/1.1\r\n{CLOSE}Transfer-Encoding: chunked\r\n\r\n"
    answer = talk(behind.path, head.encode() + chunks)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert message in answer
    assert behind.daemon.content == b""


def unchunk(body: bytes) -> bytes:
    content = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        content, body = content + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return content


def test_protocol_changes_only_where_it_was_asked_for(behind: Behind) -> None:
    behind.daemon.answer = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
    content = f"GET /v1.41/containers/json HTTP/1.1\r\n{CLOSE}Upgrade: tcp\r\n\r\n".encode()
    assert talk(behind.path, content).startswith(b"HTTP/1.1 502 ")


SESSION = (
    "POST /v1.41/session HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    "X-Docker-Expose-Session-Grpc-Method: /a\r\nX-Docker-Expose-Session-Grpc-Method: /b\r\n\r\n"
)
UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"


def test_bytes_after_the_heads_are_handed_on(behind: Behind) -> None:
    behind.daemon.answer, behind.daemon.closes = UPGRADED + b"early", True
    answer = talk(behind.path, f"{SESSION}more".encode())
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert answer.endswith(b"\r\n\r\nearly")


def test_session_names_its_methods_each(behind: Behind) -> None:
    behind.daemon.answer, behind.daemon.closes = UPGRADED, True
    talk(behind.path, SESSION.encode())
    assert behind.daemon.content.count(b"session-grpc-method: /") == 2
    assert b"Upgrade: h2c" in behind.daemon.content


def test_expectation_is_answered_after_the_decision(behind: Behind) -> None:
    expects = f"POST /v1.41/images/load HTTP/1.1\r\n{CLOSE}Expect: 100-continue\r\n"
    content = (expects + "Content-Length: 3\r\n\r\ntar").encode()
    assert talk(behind.path, content).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")
    refused = talk(behind.viewer, content)
    assert refused.startswith(b"HTTP/1.1 403 ")


def test_answers_without_a_body_say_so(behind: Behind) -> None:
    behind.daemon.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert behind.ask("POST /v1.41/containers/c/stop\r\n") == (204, b"")
    behind.daemon.answer = OK
    assert behind.ask("HEAD /_ping\r\n") == (200, b"")


def test_bytes_that_are_held_have_a_limit() -> None:
    budget = Budget(10)
    with budget.reservation() as reserve, budget.reservation() as other:
        reserve(6)
        with pytest.raises(RefusedError):
            other(5)
        other(4)
    with budget.reservation() as reserve:
        reserve(10)


def test_client_with_a_certificate_is_known_by_its_name(
    daemon_started: PrivateDaemon, tmp_path: Path
) -> None:
    certificates = daemon_started.folder / "certs"
    port = free_port()
    options = {
        "listen": f"127.0.0.1:{port}",
        "certificate": str(certificates / "server-cert.pem"),
        "key": str(certificates / "server-key.pem"),
        "authority": str(certificates / "ca.pem"),
    }
    users = {"alice": ["developer"], "bob": ["viewer"]}
    with proxied(daemon_started, tmp_path, users=users, options=options) as behind:
        over_tls = PrivateDaemon(behind.folder, port)
        run = ("run", "--rm", "-i", "--network", "none", "img:1", "cat")
        done = over_tls.docker(*run, user="alice", input=b"x" * 100_000)
        assert done.stdout == "x" * 100_000, done.stderr
        assert "user bob may not container.create" in over_tls.docker(*run, user="bob").stderr
        assert "user carol may not" in over_tls.docker("ps", user="carol").stderr
        assert {line["user"] for line in behind.decided()} == {"alice", "bob", "carol"}


def test_request_that_is_decided_slowly_is_answered(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has arrived: how long a client may take to send it says nothing about its decision."""
    plugin = behind.service._plugin
    judge = plugin.judge

    def judge_slowly(request: AuthzRequest, *, may_wait: bool, **options: Any) -> Judged:
        if not may_wait:
            raise WaitError
        threading.Event().wait(3 * SWEEP)
        return judge(request, may_wait=may_wait, **options)

    monkeypatch.setattr("doorward.docker.proxy.connection.ARRIVING", SWEEP / 10)
    monkeypatch.setattr(plugin, "judge", judge_slowly)
    behind.daemon.answer = OK
    assert behind.ask("GET /v1.41/containers/json")[0] == 200
    assert behind.ask("POST /v1.41/containers/x/unknown")[0] == 403
