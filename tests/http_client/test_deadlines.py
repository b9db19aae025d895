"""The deadline of an exchange holds, however a server spends the time."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from tests.waiting import PATIENCE

from doorward.http_client.deadlines import finished_by, with_deadlines

SOON = 0.3
NEVER = threading.Event()
Answer = Callable[[socket.socket], None]


def drip_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in itertools.count():
        connection.sendall(b"x-%d: y\r\n" % number)
        NEVER.wait(SOON / 20)


def send_interim_responses(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")


def drip_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        NEVER.wait(SOON / 20)


def be_silent(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def take_little(connection: socket.socket) -> None:
    for _ in range(200):  # what the kernel keeps would take minutes
        connection.recv(100)
        NEVER.wait(SOON / 20)


@pytest.fixture(params=[drip_head, send_interim_responses, drip_body, be_silent, take_little])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    answer: Answer = request.param
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            if answer is not take_little:
                connection.recv(1 << 16)
            with contextlib.suppress(OSError):  # the client has left
                answer(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    thread.join(PATIENCE)
    assert not thread.is_alive()
    listener.close()


def test_no_answer_is_waited_for_any_longer(url: str) -> None:
    with (
        with_deadlines(httpx.Client(timeout=PATIENCE)) as client,
        finished_by(time.monotonic() + SOON),
        pytest.raises(httpx.TimeoutException),
    ):
        client.post(url, content=b"x" * (8 << 20))


def test_an_exchange_in_time_is_as_ever() -> None:
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, text="yes"))
    with with_deadlines(httpx.Client(transport=transport, timeout=PATIENCE)) as client:
        with finished_by(time.monotonic() + PATIENCE):
            assert client.get("http://a/").text == "yes"
        assert client.get("http://a/").text == "yes"


def test_a_time_that_has_come_sends_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with (
            with_deadlines(httpx.Client(timeout=PATIENCE)) as client,
            finished_by(time.monotonic()),
            pytest.raises(httpx.ConnectTimeout),
        ):
            client.get(url)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
