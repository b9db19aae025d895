"""A log at a URL is replayed as a file is, and a server cannot do more than send it."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from doorward.cli.main import run
from doorward.replay import ReplayError, fetching
from doorward.replay.fetching import with_files

pytestmark = pytest.mark.system

EVENTS = [
    {"decision_id": f"d{n}", "path": "app/allow", "input": {"n": n}, "result": n < 3}
    for n in range(5)
]
LINES = "".join(json.dumps(each) + "\n" for each in EVENTS).encode()
POLICY = "package app\n\ndefault allow := false\n\nallow if input.n < 2\n"


class Server(http.server.BaseHTTPRequestHandler):
    requests: list[tuple[str, str | None]] = []  # noqa: RUF012 # of all instances

    def do_GET(self) -> None:
        Server.requests.append((self.path, self.headers["authorization"]))
        body = gzip.compress(LINES) if self.path.endswith(".gz") else LINES
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def url() -> Iterator[str]:
    Server.requests.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["day.jsonl", "day.jsonl.gz"])
def test_a_log_at_a_url_is_replayed(
    name: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text(POLICY)
    words = ["--log", f"{url}/{name}", "--header", "authorization: Bearer x", "--parallel", "1"]
    policy = ["--policy", str(tmp_path / "p.rego"), "--format", "json"]
    assert run(["replay", *words, *policy, "--fail-on", "new-deny"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["kinds"]["new-deny"] == 1
    assert Server.requests == [(f"/{name}", "Bearer x")]


def test_a_header_has_a_name_and_a_value(tmp_path: Path, url: str) -> None:
    (tmp_path / "p.rego").write_text(POLICY)
    policy = ["--policy", str(tmp_path / "p.rego")]
    assert run(["replay", "--log", url, "--header", "x", *policy]) == 1
    assert Server.requests == []


def fetched(answer: httpx.Response | Exception, folder: Path) -> list[str]:
    def respond(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        # As from a network: not read yet.
        stream = httpx.ByteStream(answer.content)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)

    transport = httpx.MockTransport(respond)
    logs = ["a.log", "https://ann:secret@logs.example:8/day?token=t"]
    return with_files(logs, folder, {}, transport=transport)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(302, headers={"location": "http://169.254.169.254/"}), "with status 302"),
        (httpx.Response(404), "with status 404"),
        (httpx.ConnectError("refused"), "ConnectError"),
        (httpx.Response(200, content=b"x" * 101), "larger than 100 bytes"),
    ],
)
def test_what_cannot_be_fetched_is_an_error_without_credentials(
    answer: httpx.Response | Exception,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", 100)
    with pytest.raises(ReplayError, match=said) as raised:
        fetched(answer, tmp_path)
    assert "https://logs.example:8/day" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "token" not in str(raised.value)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    with pytest.raises(ReplayError, match=f"cannot store the download in {folder}: no such file"):
        fetched(httpx.Response(200, content=b"x"), folder)


def test_a_download_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "WITHIN", -1.0)
    with pytest.raises(ReplayError, match="takes longer"):
        fetched(httpx.Response(200, content=b"x"), tmp_path)


def test_files_stay_as_they_are(tmp_path: Path) -> None:
    files = fetched(httpx.Response(200, content=LINES), tmp_path)
    assert files[0] == "a.log"
    assert Path(files[1]).read_bytes() == LINES


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="no such file"):
        fetched(httpx.Response(200, content=b"x"), tmp_path / "missing")
