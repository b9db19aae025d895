"""HTTP/1.1 requests, many times over kept connections -> answers, with little work at this end.

The bytes of the requests are made once, and of the answers only what must be read is: their status,
and where they end. This is a load generator for benchmarks on trusted servers, not a client.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from itertools import cycle
from time import perf_counter

__all__ = ["Connections", "request_bytes"]


def request_bytes(
    method: str, path: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()
) -> bytes:
    """A request as clients send it: with the headers of Go's client."""
    fields = [("Host", "localhost"), ("User-Agent", "Go-http-client/1.1"), *headers]
    if body:
        fields += [("Content-Length", str(len(body))), ("Content-Type", "application/json")]
    fields.append(("Accept-Encoding", "gzip"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class Connections:
    """Connections to one server, each with one of `requests` under way, which are sent in turn.

    `kept`: each connection serves many.
    """

    def __init__(
        self,
        address: tuple[str, int] | str,
        requests: Sequence[bytes],
        count: int,
        *,
        kept: bool = True,
    ) -> None:
        self._address = address
        self._requests = cycle(requests)
        self._kept = kept
        self._sockets = [self._connect() for _ in range(count)]

    def _connect(self) -> socket.socket:
        if isinstance(self._address, str):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(10)
            connection.connect(self._address)
            return connection
        connection = socket.create_connection(self._address, timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def run(self, calls: int) -> tuple[bytes, list[float]]:
        """Make so many calls; the last answer, and the seconds that each took.

        ConnectionError where one is not answered with 200.
        """
        times: list[float] = []
        answer = b""
        with selectors.DefaultSelector() as selector:
            begun: dict[socket.socket, float] = {}
            for each in self._sockets[:calls]:
                selector.register(each, selectors.EVENT_READ)
                begun[each] = perf_counter()
                each.sendall(next(self._requests))
            started = len(begun)
            while len(times) < calls:
                for key, _ in selector.select(10):
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    answer = _read(connection)
                    times.append(perf_counter() - begun[connection])
                    if not self._kept:
                        selector.unregister(connection)
                        self._sockets.remove(connection)
                        connection.close()
                        connection = self._connect()
                        self._sockets.append(connection)
                        selector.register(connection, selectors.EVENT_READ)
                    if started < calls:
                        started += 1
                        begun[connection] = perf_counter()
                        connection.sendall(next(self._requests))
        return answer, times


def _read(connection: socket.socket) -> bytes:
    """The body of a response that announces its length."""
    received = connection.recv(1 << 16)
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(received[:200].decode(errors="replace"))
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += _more(connection)
    return body


def _more(connection: socket.socket) -> bytes:
    more = connection.recv(1 << 16)
    if not more:
        raise ConnectionError("the server closed the connection")
    return more
