"""A decision point behind a URL: one deadline, no redirects, connections used again."""

from __future__ import annotations

import http.server
import json
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.waiting import PATIENCE, wait_until

from doorward.docker.decider import remote as remote_module
from doorward.docker.decider.answer import PdpError
from doorward.docker.decider.remote import RemotePdp, UrlError, accepts_writes, check_url
from doorward.docker.install.certificates import issue_server, make_authority

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"result":true}'


class Server:
    """Answers each request on each connection with what `reply` writes."""

    def __init__(self, reply: Callable[[socket.socket, int], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/data/x"
        self._reply = reply
        self.connections = 0
        self.closed = 0
        self.requests: list[bytes] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := self._read(connection):
                    self.requests.append(data)
                    self._reply(connection, len(self.requests))
            except OSError:
                pass
        self.closed += 1

    def _read(self, connection: socket.socket) -> bytes:
        content = b""
        while b"\r\n\r\n" not in content:
            chunk = connection.recv(65536)
            if not chunk:
                return b""
            content += chunk
        head, _, body = content.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket, int], None]], Server]]:
    created: list[Server] = []

    def start(reply: Callable[[socket.socket, int], None]) -> Server:
        created.append(Server(reply))
        return created[-1]

    yield start
    for server in created:
        server.close()


def remote(url: str, context: ssl.SSLContext | None = None) -> RemotePdp:
    """One that is given all the time that a busy machine may need."""
    return RemotePdp(url, deadline=PATIENCE, context=context)


def says(content: bytes) -> Callable[[socket.socket, int], None]:
    return lambda connection, _number: connection.sendall(content)


Serve = Callable[[Callable[[socket.socket, int], None]], Server]


def body(content: bytes, status: str = "200 OK", extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{extra}\r\n"
    return head.encode() + content


def test_input_is_wrapped_and_the_connection_used_again(serve: Serve) -> None:
    server = serve(says(OK))
    pdp = remote(server.url)
    for _ in range(5):
        assert pdp.decide({"a": 1}).result is True
    assert server.connections == 1
    assert server.requests[0].startswith(b"POST /v1/data/x HTTP/1.1\r\n")
    assert json.loads(server.requests[0].partition(b"\r\n\r\n")[2]) == {"input": {"a": 1}}
    pdp.close()


def test_kept_connection_that_was_closed_is_replaced_once(serve: Serve) -> None:
    def reply(connection: socket.socket, _number: int) -> None:
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_RDWR)

    server = serve(reply)
    pdp = remote(server.url)
    for number in range(1, 4):
        assert pdp.decide({}).result is True
        wait_until(lambda number=number: server.closed == number)  # type: ignore[misc]  # bound now
    assert server.connections == 3
    pdp.close()


@pytest.mark.parametrize("cut", [b"HTTP/1.1 2", OK[:30], OK[:-5]], ids=["status", "head", "body"])
def test_reset_within_an_answer_is_not_asked_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, cut: bytes
) -> None:
    arrived = [0]

    class Counting(remote_module._TimedSocket):
        def recv_into(self, *args: Any, **kwargs: Any) -> int:
            count = super().recv_into(*args, **kwargs)
            arrived[0] += count
            return count

    def reply(connection: socket.socket, number: int) -> None:
        connection.sendall(cut if number == 2 else OK)
        if number == 2:
            wait_until(lambda: arrived[0] == len(OK) + len(cut))
            # Closed with a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    monkeypatch.setattr(remote_module, "_TimedSocket", Counting)
    server = serve(reply)
    pdp = remote(server.url)
    assert pdp.decide({}).result is True
    with pytest.raises(PdpError, match="cannot be reached"):
        pdp.decide({})
    assert len(server.requests) == 2
    pdp.close()


ANSWERS = [
    (body(b'{"result":{"allow":true}}'), {"allow": True}),
    (body(b'{"allow":true}'), {"allow": True}),
    (body(b"true"), True),
    (body(b'{"result":false,"decision_id":"d"}'), False),
]


@pytest.mark.parametrize(("content", "result"), ANSWERS)
def test_forms_of_an_answer(serve: Serve, content: bytes, result: object) -> None:
    pdp = remote(serve(says(content)).url)
    assert pdp.decide({}).result == result
    pdp.close()


def test_undefined_decision_is_undefined(serve: Serve) -> None:
    pdp = remote(serve(says(body(b"{}"))).url)
    assert repr(pdp.decide({}).result) == "UNDEFINED"
    pdp.close()


BAD = [
    (body(b"{}", "500 Bad"), "policy server answered with status 500"),
    (body(b"{}", "404 None"), "policy server answered with status 404"),
    (body(b"", "302 Found", "Location: http://127.0.0.1/\r\n"), "with a redirect"),
    (body(b"<html>"), "is not JSON"),
    (body(b'{"result":true,"result":false}'), "is not JSON"),
    (body(b'{"result":NaN}'), "is not JSON"),
    (body(b" " * (1 << 20) + b"{}"), "larger than 1048576 bytes"),
    (b"SSH-2.0-x\r\n", "did not answer with HTTP"),
]


@pytest.mark.parametrize(("content", "reason"), BAD)
def test_bad_answer_is_no_decision_and_is_not_asked_again(
    serve: Serve, content: bytes, reason: str
) -> None:
    server = serve(says(content))
    pdp = remote(server.url)
    with pytest.raises(PdpError, match=reason):
        pdp.decide({})
    assert len(server.requests) == 1
    pdp.close()


def test_silence_ends_at_the_deadline(serve: Serve) -> None:
    ended = threading.Event()

    def reply(_connection: socket.socket, _number: int) -> None:
        ended.wait(PATIENCE)

    pdp = RemotePdp(serve(reply).url, deadline=0.2)
    with pytest.raises(PdpError, match="in time"):
        pdp.decide({})
    ended.set()
    pdp.close()


def test_bytes_that_come_slowly_end_at_the_deadline(serve: Serve) -> None:
    ended = threading.Event()

    def reply(connection: socket.socket, _number: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not ended.wait(0.01):
            connection.sendall(b"x")

    pdp = RemotePdp(serve(reply).url, deadline=0.3)
    with pytest.raises(PdpError, match="in time"):
        pdp.decide({})
    ended.set()
    pdp.close()


def test_decision_point_at_a_unix_socket(tmp_path: Path) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"result": self.path}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: Any) -> None:
            pass

    path = tmp_path / "d.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        pdp = RemotePdp(f"http+unix://{quote(str(path), safe='')}/v1/data/x?y=1")
        assert pdp.decide({}).result == "/v1/data/x?y=1"
        pdp.close()
        server.shutdown()
        thread.join()
    with pytest.raises(PdpError, match="cannot be reached"):
        RemotePdp(f"http+unix://{quote(str(tmp_path / 'none'), safe='')}/v1").decide({})


@pytest.mark.parametrize(("status", "accepted"), [(204, True), (401, False), (404, False)])
def test_writes_that_anybody_may_make_are_noticed(status: int, accepted: bool) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            assert (self.path, self.rfile.read(2)) == ("/v1/data", b"[]")
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1/data/x"
        assert accepts_writes(check_url(url)) is accepted
        server.shutdown()
        thread.join()


def test_nobody_there() -> None:
    with pytest.raises(PdpError, match="cannot be reached"):
        RemotePdp("http://127.0.0.1:9/x").decide({})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "127.0.0.1:8181",
        "ftp://x/y",
        "http:///x",
        "http://u:p@h/x",
        "http://:p@h/x",
        "http://h:x/",
        "http://h/#f",
        "http+unix:///run/x/v1/data",
        "http+unix://run%2Fx/v1/data",
        "http+unix://%2Frun%2F" + "x" * 108 + "/v1",
        "http+unix://%2Frun%2Fx/v1#f",
        "http+unix://%2Frun%2F\u00e9/v1",
        "http+unix://%2Frun%2F\udcff/v1",
        f"http://{'a' * 64}.example/v1",
        "http://a..example/v1",
        "https://.example/v1",
        "http://./v1",
        "http://h\u00e9/v1",
        "http://h/\u00e9",
        "http://h/x?\u00e9",
        "http://h/x y",
    ],
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(UrlError):
        check_url(url)


def test_socket_whose_path_is_too_long_is_named_as_such() -> None:
    with pytest.raises(UrlError, match="a path of more than 107 bytes"):
        check_url("http+unix://%2Frun%2F" + "x" * 108 + "/v1")


@pytest.mark.parametrize(
    "host", ["h", "127.0.0.1", "[::1]", "a.example.", f"{'a' * 63}.example", "a_b", "xn--bcher-kva"]
)
def test_hosts_that_can_be_looked_up(host: str) -> None:
    assert check_url(f"http://{host}:1/v1?a=%C3%A9").host == host.strip("[]")


def test_policy_server_with_tls_is_verified(tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue_server(tmp_path, ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server-cert.pem", tmp_path / "server-key.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{listener.getsockname()[1]}/v1/data/x"

    def serve_two() -> None:
        for _ in range(2):
            plain, _ = listener.accept()
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    while connection.recv(65536):
                        connection.sendall(OK)
            except OSError:
                plain.close()

    thread = threading.Thread(target=serve_two)
    thread.start()
    with pytest.raises(PdpError, match=r"is not accepted: (self-signed|unable to get)"):
        remote(url).decide({})
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    pdp = remote(url, context=trusting)
    assert pdp.decide({}).result is True
    pdp.close()
    thread.join()
    listener.close()
