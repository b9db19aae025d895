"""Requests go out as they are written."""

from __future__ import annotations

import socket
import threading

import pytest
from tests.waiting import PATIENCE

from acceptance.wire import send, write_request


def test_a_body_is_framed_by_its_length() -> None:
    request = write_request("POST", "//x", (("a", "b"),), b"hi")
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST //x HTTP/1.1",
        b"host: 127.0.0.1",
        b"connection: close",
        b"a: b",
        b"content-length: 2",
    ]
    assert body == b"hi"


def test_no_body_has_no_length_and_an_empty_one_has() -> None:
    assert b"content-length" not in write_request("GET", "/")
    assert b"content-length: 0\r\n" in write_request("POST", "/", body=b"")


def test_a_body_may_come_in_chunks() -> None:
    request = write_request("POST", "/", body=b"hello", chunked=True)
    assert request.endswith(b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", 200, b"hi"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    ],
)
def test_an_answer_is_whole_before_the_connection_ends(
    answer: bytes, status: int, body: bytes
) -> None:
    with Server(answer) as port:
        got = send(port, write_request("GET", "/"), within=PATIENCE)
    assert (got.status, got.body) == (status, body)


def test_no_answer_in_time_is_an_error() -> None:
    with Server(b"") as port, pytest.raises(TimeoutError):
        send(port, write_request("GET", "/"), within=0.2)


class Server:
    """Answers one connection with the bytes it was given, and leaves it open."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._listener.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(self._answer)
            self._done.wait(PATIENCE)
