"""Listeners: bound before anything is announced, bounded in what they read, gone at the end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.rest.server import BindError, HttpServer, Listener, bind
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics
from doorward.transport.http1.limits import Limits


def api(*, diagnostic: bool = False) -> Api:
    pdp = PDP(build(Loaded({"a.rego": "package a\n\nallow := input.x\n"})))
    return Api(pdp, Config(), Health(), Metrics("1"), diagnostic=diagnostic)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    listener = bind("127.0.0.1:0")
    server = HttpServer([Listener("127.0.0.1:0", listener, api())], grace=1.0)
    server.start()
    yield listener
    server.close()


def connect(listener: socket.socket) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=PATIENCE)


def test_a_decision_over_a_real_socket(server: socket.socket) -> None:
    connection = connect(server)
    for n in (1, 2):
        connection.request("POST", "/v1/data/a/allow", body=f'{{"input": {{"x": {n}}}}}')
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, f'{{"result":{n}}}\n'.encode())
    connection.close()


def test_headers_without_end_are_refused(server: socket.socket) -> None:
    with socket.create_connection(server.getsockname(), timeout=PATIENCE) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n")
        answer = b""
        with contextlib.suppress(OSError):
            for n in range(10_000):
                client.sendall(b"x-%d: %s\r\n" % (n, b"a" * 100))
        with contextlib.suppress(OSError):
            answer = client.recv(100)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


CHUNKED = b"POST /v1/data/a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"2\r\n{}\r\n0\r\n", b"x-name: " + b"a" * 100 + b"\r\n"),
        (b"2\r\n{}\r\n0\r\nx-name: ", b"a" * 100),
        (b"2;", b"a" * 100),
    ],
    ids=["headers after a body", "a header after a body", "an extension of a chunk"],
)
def test_framing_without_end_is_refused(server: socket.socket, begin: bytes, more: bytes) -> None:
    with socket.create_connection(server.getsockname(), timeout=PATIENCE) as client:
        client.sendall(CHUNKED + begin)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            client.sendall(more * 1_000_000)  # 100 MB


def test_a_body_in_small_chunks_is_read(server: socket.socket) -> None:
    body = b'{"input": {"x": "' + b"y" * 100_000 + b'"}}'
    with socket.create_connection(server.getsockname(), timeout=PATIENCE) as client:
        request = CHUNKED.replace(b"/a ", b"/a/allow ") + b"".join(b"1\r\n%c\r\n" % c for c in body)
        client.sendall(request + b"0\r\nx-name: a\r\n\r\n")
        assert client.recv(15) == b"HTTP/1.1 200 OK"


def test_a_slow_head_is_closed() -> None:
    listener = bind("127.0.0.1:0")
    limits = Limits(head_timeout=0.2)
    server = HttpServer([Listener("", listener, api(), limits=limits)], grace=1.0)
    server.start()
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE) as client:
        client.sendall(b"GET /health HTTP/1.1\r\n")
        assert client.recv(100) == b""
    server.close()


def test_several_listeners_serve_what_they_are_for(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    tcp, unix = bind("127.0.0.1:0"), bind(f"unix://{path}", unix_permissions=0o600)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    server = HttpServer([Listener("", tcp, api(diagnostic=True)), Listener("", unix, api())])
    server.start()
    connection = connect(tcp)
    for target, status in (("/health", 200), ("/metrics", 200), ("/v1/data/a", 404), ("/", 404)):
        connection.request("GET", target)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status, target
    connection.close()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /v1/data/nope HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert client.recv(15) == b"HTTP/1.1 200 OK"
    server.close()
    assert not path.exists()
    assert not server.alive


def test_a_socket_that_a_dead_server_left_is_replaced_and_a_live_one_is_not(
    tmp_path: Path,
) -> None:
    address = f"unix://{tmp_path}/s"
    bind(address).close()
    alive = bind(address)
    with pytest.raises(BindError, match="already in use"):
        bind(address)
    alive.close()


def test_a_file_that_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("precious")
    with pytest.raises(BindError, match="not a socket"):
        bind(f"unix://{tmp_path}/s")
    assert (tmp_path / "s").read_text() == "precious"


@pytest.mark.parametrize(
    "address",
    [
        "nope",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:70000",
        "127.0.0.1:" + "9" * 5000,
        "a:²",
        "ftp://127.0.0.1:1",
        "a:b:c",
    ],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(BindError, match="listen "):
        bind(address)


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    taken = bind("127.0.0.1:0")
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(BindError, match=address):
        bind(address)
    taken.close()


@pytest.mark.parametrize("address", [":0", "localhost:0", "[::1]:0", "http://127.0.0.1:0"])
def test_addresses_are_those_of_opa(address: str) -> None:
    if "::1" in address and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    listener = bind(address)
    assert listener.getsockname()[1] > 0
    listener.close()


FEW_DESCRIPTORS = """
import asyncio, os, resource, sys
from doorward.transport import loop
from doorward.telemetry.log import configure
from doorward.rest import server as module
from doorward.rest.server import HttpServer, Listener, bind

class Counted(HttpServer):
    def _complain(self, loop, context):
        super()._complain(loop, context)
        print("accept failed", flush=True)

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})

module.ACCEPT_QUIET = 3600.0
loop.new_loop = asyncio.new_event_loop
configure("info", "json")
server = Counted([Listener("x", bind(sys.argv[1]), app)])
server.start()
limit = len(os.listdir("/proc/self/fd")) + 10
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
print("ready", flush=True)
sys.stdin.read()
server.close()
"""


def test_a_server_without_descriptors_says_so_once_and_works_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with subprocess.Popen(
        [sys.executable, "-c", FEW_DESCRIPTORS, f"unix://{path}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
            for _ in range(3):
                assert process.stdout.readline() == "accept failed\n"
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(path))
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 204"
        _, errors = process.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert [line["msg"] for line in lines] == ["accept failed"]
    assert lines[0]["error"] == "too many open files"
