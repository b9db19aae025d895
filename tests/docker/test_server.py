"""The socket: safe to bind, concurrent, bounded, drained, and as the daemon's client expects it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from examples.docker.private_daemon import received
from tests.waiting import PATIENCE, wait_until

from doorward.docker import server as server_module
from doorward.docker.install.certificates import issue_client, issue_server, make_authority
from doorward.docker.plugin import Response, Waiting
from doorward.docker.server import (
    LISTEN_FD,
    BindError,
    PluginServer,
    bind_tcp,
    bind_unix,
    take_inherited,
    tls_context,
)
from doorward.transport.slow_calls import History

# As dockerd 20.10 sends it: an empty Host, and no Content-Type.
CALL = (
    b"POST /AuthZPlugin.AuthZReq HTTP/1.1\r\nHost: \r\nUser-Agent: Go-http-client/1.1\r\n"
    b"Content-Length: 2\r\nAccept: application/vnd.docker.plugins.v1.2+json\r\n"
    b"Accept-Encoding: gzip\r\n\r\n{}"
)


def echo(path: str, body: bytes) -> Response:
    return Response(200, path.encode() + body)


class Held:
    """An answer that waits until `expected` calls are under way, or it is let go."""

    def __init__(self, expected: int) -> None:
        self.barrier = threading.Barrier(expected)

    def __call__(self, path: str, body: bytes) -> Response | Waiting:
        response = Response(200, path.encode() + body)
        if body != b"zz":
            return response

        def finish() -> Response:
            self.barrier.wait(PATIENCE)
            return response

        return Waiting(finish, History())


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "p.sock")


@pytest.fixture
def server(path: str) -> Iterator[PluginServer]:
    running = PluginServer(bind_unix(path), echo, threads=8)
    running.start()
    yield running
    running.close(grace=2.0)


def ask(path: str, content: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(content.replace(b"Host: ", b"Connection: close\r\nHost: ", 1))
        return received(connection)


@pytest.mark.usefixtures("server")
def test_calls_share_a_connection(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        for body in (b"{}", b"[]", b"zz"):
            connection.sendall(CALL.replace(b"{}", body))
            answer = b""
            while not answer.endswith(body):
                answer += connection.recv(65536)
            head, _, shown = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"connection: close" not in head
            assert shown == b"/AuthZPlugin.AuthZReq" + body


class Daemon:
    """Calls as dockerd does: on one connection, and again what it could not write."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.answered = 0
        self.connection: socket.socket | None = None

    def call(self) -> None:
        is_kept = self.connection is not None
        connection = self.connection or socket.socket(socket.AF_UNIX)
        answer = b""
        try:
            if not is_kept:
                connection.settimeout(PATIENCE)
                connection.connect(self.path)
            connection.sendall(CALL)
            answer = connection.recv(65536)
        except BrokenPipeError:
            pass  # nothing was written: the call is made again
        else:
            assert answer.endswith(b"{}"), f"lost after {self.answered} calls: {answer!r}"
            self.answered += 1
        finally:
            ends = b"connection: close" in answer or not answer
            self.connection = None if ends else connection
            if ends:
                connection.close()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


def test_no_call_is_lost_before_the_name_of_the_socket_goes(path: str) -> None:
    server = PluginServer(bind_unix(path), echo, threads=2)
    server.start()
    daemon = Daemon(path)
    daemon.call()
    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(server.close, grace=PATIENCE)
        while not closing.done():
            with contextlib.suppress(FileNotFoundError):  # until then it has a name
                daemon.call()
        closing.result()
    assert daemon.answered > 1


def test_connection_that_is_kept_for_too_long_is_closed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "LIMITS", replace(server_module.LIMITS, keep_alive=0.0))
    server = PluginServer(bind_unix(path), echo, threads=2)
    server.start()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(CALL)
        assert received(connection).endswith(b"{}")
    server.close(grace=2.0)


def test_no_call_on_a_kept_connection_is_lost_when_servers_end(path: str) -> None:
    listener = bind_unix(path)
    daemon = Daemon(path)

    def has_answered(calls: int) -> bool:
        return daemon.answered >= calls

    def replace_servers() -> None:
        for calls in range(50, 550, 50):
            server = PluginServer(listener, echo, threads=2, unlink=False)
            server.start()
            wait_until(partial(has_answered, calls), "calls are not answered")
            server.drain()

    with ThreadPoolExecutor(1) as threads, contextlib.closing(listener):
        replacing = threads.submit(replace_servers)
        while not replacing.done() and daemon.answered < 500:
            daemon.call()
        daemon.close()
        replacing.result()


@pytest.mark.usefixtures("server")
def test_chunked_body_is_read(path: str) -> None:
    call = b"POST /x HTTP/1.1\r\nHost: \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    assert ask(path, call).endswith(b"/xab")


BROKEN = [
    (b"GET /x HTTP/1.1\r\nHost: \r\n\r\n", b"405"),
    (b"\x16\x03\x01 rubbish\r\n\r\n", b"400"),
    (b"POST /x HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", b"400"),
    (b"POST /x HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", b"431"),
    (b"POST /x HTTP/1.1\r\nHost: \r\nContent-Length: 9000000\r\n\r\n" + b"y" * 9_000_000, b"413"),
    (
        b"POST /x HTTP/1.1\r\nHost: \r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
        b"417",
    ),
]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(("call", "status"), BROKEN)
def test_call_that_cannot_be_read_is_an_error(path: str, call: bytes, status: bytes) -> None:
    assert ask(path, call).split(b" ")[1] == status


class UnknownError(Exception):
    """What a library raises that nobody thought of."""


UPGRADE = (
    b"POST /x HTTP/1.1\r\nHost: \r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)


@pytest.mark.parametrize(
    "error", [UnknownError("secret"), ValueError(), MemoryError(), RecursionError(), SystemExit()]
)
def test_a_call_that_fails_ends_no_worker(path: str, error: BaseException) -> None:
    def answer(_path: str, body: bytes) -> Response:
        if body == b"{}":
            raise error
        return Response(200, body)

    server = PluginServer(bind_unix(path), answer, threads=1)
    server.start()
    for _ in range(3):
        failed = ask(path, CALL)
        assert failed.startswith(b"HTTP/1.1 500 ")
        assert b'"Allow":true' not in failed
        assert b"secret" not in failed
    assert ask(path, UPGRADE).startswith(b"HTTP/1.1 500 ")  # what a call asks for besides
    assert ask(path, CALL.replace(b"{}", b"ok")).endswith(b"\r\n\r\nok")
    server.close(grace=2.0)


def test_calls_are_answered_at_the_same_time(path: str) -> None:
    server = PluginServer(bind_unix(path), Held(8), threads=8)
    server.start()
    slow = CALL.replace(b"{}", b"zz")
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: ask(path, slow), range(8)))
    server.close(grace=2.0)
    assert all(answer.endswith(b"zz") for answer in answers)


def test_call_under_way_is_answered_when_the_server_ends(path: str) -> None:
    before = Held(2)
    server = PluginServer(bind_unix(path), before, threads=4)
    server.start()
    with ThreadPoolExecutor(2) as clients:
        answer = clients.submit(ask, path, CALL.replace(b"{}", b"zz"))
        wait_until(lambda: before.barrier.n_waiting, "the call did not come")
        closing = clients.submit(server.close, grace=PATIENCE)
        wait_until(lambda: not Path(path).exists(), "the server does not end")
        before.barrier.wait(PATIENCE)
        closing.result()
        assert answer.result().endswith(b"zz")
    assert not Path(path).exists()


def test_socket_is_for_its_owner_only(path: str) -> None:
    listener = bind_unix(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(BindError, match="another server listens"):
        bind_unix(path)
    listener.close()
    bind_unix(path).close()  # the old one is stale


def test_file_that_is_no_socket_stays(path: str) -> None:
    Path(path).write_text("precious")
    with pytest.raises(BindError, match="not a socket"):
        bind_unix(path)
    assert Path(path).read_text() == "precious"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_plugin_listens_on_addresses_of_both_families(host: str) -> None:
    if host == "[::1]" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    listener = bind_tcp(f"{host}:0")
    assert listener.getsockname()[0] == host.strip("[]")
    listener.close()


@pytest.mark.parametrize("address", ["localhost", ":8443", "localhost:x", "localhost:65536", ""])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(BindError, match=f"listen {address}: expected HOST:PORT"):
        bind_tcp(address)


def test_remote_plugin_speaks_with_certified_daemons_only(tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue_server(tmp_path, ["127.0.0.1"])
    issue_client(tmp_path, "daemon")
    listener = bind_tcp("127.0.0.1:0")
    context = tls_context(
        certificate=str(tmp_path / "server-cert.pem"),
        key=str(tmp_path / "server-key.pem"),
        authority=str(tmp_path / "ca.pem"),
    )
    # Certificates that were issued before they named their issuer's key are in use.
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    server = PluginServer(listener, echo, context=context, threads=2, unlink=False)
    server.start()
    try:
        client = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        client.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python's are from 3.13 on
        with contextlib.suppress(OSError):  # an alert, or a connection that ends
            assert over_tls(client, listener.getsockname()) == b""
        client.load_cert_chain(tmp_path / "daemon-cert.pem", tmp_path / "daemon-key.pem")
        assert over_tls(client, listener.getsockname()).endswith(b"{}")
    finally:
        server.close(grace=2.0)


def test_the_file_of_tls_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    files = {name: str(tmp_path / name) for name in ("authority", "certificate", "key")}
    for name in files:
        with pytest.raises(BindError, match=f"{name}: no such file or directory$"):
            tls_context(**files)
        (tmp_path / name).write_text("nonsense")
    with pytest.raises(BindError, match=r"one of the files .* cannot be used for TLS: "):
        tls_context(**files)


def over_tls(context: ssl.SSLContext, address: tuple[str, int]) -> bytes:
    with (
        socket.create_connection(address, timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(CALL)
        content = b""
        while chunk := connection.recv(65536):
            content += chunk
        return content


def test_socket_of_the_service_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LISTEN_PID", raising=False)
    assert take_inherited() is None
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "2")
    with pytest.raises(BindError, match="one socket"):
        take_inherited()


@pytest.mark.parametrize("descriptor", ["x", "", "-1", "999999"])
def test_descriptor_that_is_not_a_socket_is_an_error(
    descriptor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LISTEN_FD, descriptor)
    with pytest.raises(BindError, match="is not a socket"):
        take_inherited()


FEW_DESCRIPTORS = """
import os, resource, sys
from doorward.docker.plugin import Response
from doorward.docker.server import PluginServer, bind_unix
from doorward.telemetry.log import configure

configure("info", "json")
server = PluginServer(bind_unix(sys.argv[1]), lambda path, body: Response(200, b"fine"))
server.start()
limit = len(os.listdir("/proc/self/fd")) + 10
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
"""


def test_server_without_descriptors_says_so_once_and_works_again(path: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FEW_DESCRIPTORS, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
            first = process.stderr.readline()
            time.sleep(1.0)  # a server that says it each time says it ten times meanwhile
        assert ask(path, CALL).endswith(b"fine")
        _, errors = process.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in [first, *errors.splitlines()]]
    assert {line["msg"] for line in lines} == {"accept failed"}
    assert len(lines) < 5
    assert lines[0]["error"] == "too many open files"
