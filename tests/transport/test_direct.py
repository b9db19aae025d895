"""Connections of few requests each: whole answers for slow readers, ends and failures told once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.transport.direct import DirectListener, DirectTransport
from doorward.transport.loop import new_loop

LONG = b"x" * (8 << 20)


@pytest.fixture(params=[asyncio.new_event_loop, new_loop])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    opened: asyncio.AbstractEventLoop = request.param()
    yield opened
    opened.close()


@dataclass
class Server(asyncio.Protocol):
    """What happens on a connection; `answers` says what to do with received bytes."""

    answers: Callable[[Server, bytes], object] = lambda _server, _data: None
    keeps_half_open: bool = False
    transport: Any = None
    received: bytes = b""
    events: list[str] = field(default_factory=list)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.answers(self, data)

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self.keeps_half_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost" if exc is None else type(exc).__name__)


def answer_and_close(content: bytes) -> Callable[[Server, bytes], None]:
    def answer(server: Server, _data: bytes) -> None:
        server.transport.write(content)
        server.transport.close()
        server.transport.write(b"nobody gets this")

    return answer


def connected(loop: asyncio.AbstractEventLoop, server: Server) -> socket.socket:
    """The client's end of a connection that `server` has."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    DirectTransport(loop, theirs, server).begin()
    ours.setblocking(False)
    return ours


def run_until(loop: asyncio.AbstractEventLoop, condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.001)

    loop.run_until_complete(asyncio.wait_for(wait(), PATIENCE))


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop see what there is to be seen now: each round asks the kernel."""
    for _ in range(5):
        loop.run_until_complete(asyncio.sleep(0))


def received(loop: asyncio.AbstractEventLoop, client: socket.socket) -> bytes:
    async def read() -> bytes:
        content = b""
        while chunk := await loop.sock_recv(client, 1 << 20):
            content += chunk
        return content

    with client:
        return loop.run_until_complete(asyncio.wait_for(read(), PATIENCE))


def test_what_is_written_before_closing_arrives(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(answer_and_close(b"short"))
    client = connected(loop, server)
    client.send(b"ask")
    assert received(loop, client) == b"short"
    run_until(loop, lambda: server.events == ["lost"])
    assert server.received == b"ask"


def test_slow_reader_gets_all_and_its_protocol_is_told(loop: asyncio.AbstractEventLoop) -> None:
    def answer(server: Server, _data: bytes) -> None:
        server.transport.set_write_buffer_limits(high=1 << 20)
        server.transport.write(LONG)
        server.transport.write(b"end")
        assert server.events == ["pause"]
        server.transport.close()

    server = Server(answer)
    client = connected(loop, server)
    client.send(b"ask")
    assert received(loop, client) == LONG + b"end"
    run_until(loop, lambda: server.events == ["pause", "resume", "lost"])


def test_half_close_comes_after_what_was_written(loop: asyncio.AbstractEventLoop) -> None:
    def answer(server: Server, _data: bytes) -> None:
        assert server.transport.can_write_eof()
        server.transport.write(LONG)
        server.transport.write_eof()

    server = Server(answer)
    client = connected(loop, server)
    client.send(b"ask")
    assert received(loop, client) == LONG
    run_until(loop, lambda: server.events[-2:] == ["eof", "lost"])


def test_half_closed_client_is_answered(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(keeps_half_open=True)
    client = connected(loop, server)
    client.send(b"ask")
    client.shutdown(socket.SHUT_WR)
    run_until(loop, lambda: server.events == ["eof"])
    answer_and_close(b"answer")(server, b"")
    assert received(loop, client) == b"answer"


def test_paused_connection_is_not_read(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(lambda server, _data: server.transport.pause_reading())
    client = connected(loop, server)
    client.send(b"one")
    run_until(loop, lambda: server.received == b"one")
    client.send(b"two")
    turn(loop)
    assert server.received == b"one"
    server.transport.resume_reading()
    run_until(loop, lambda: server.received == b"onetwo")
    client.close()
    run_until(loop, lambda: True)
    server.transport.abort()
    run_until(loop, lambda: server.events[-1:] == ["lost"])


@pytest.mark.parametrize("is_at_once", [True, False])
def test_client_that_is_gone_is_told_once(
    loop: asyncio.AbstractEventLoop, is_at_once: bool
) -> None:
    server = Server(lambda server, _data: server.transport.write(LONG))
    client = connected(loop, server)
    if is_at_once:

        def answer(server: Server, _data: bytes) -> None:
            client.close()
            server.transport.write(LONG)

        server.answers = answer
    client.send(b"ask")
    run_until(loop, lambda: server.received)
    client.close()
    run_until(loop, lambda: server.events and server.events[-1] != "pause")
    assert server.events[-1] in ("BrokenPipeError", "ConnectionResetError")
    server.transport.write(b"more")
    server.transport.close()
    server.transport.abort()
    turn(loop)
    assert len([each for each in server.events if each != "pause"]) == 1


def test_connection_that_is_reset_is_lost(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(lambda server, _data: server.transport.write_eof())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    accepted.setblocking(False)
    DirectTransport(loop, accepted, server).begin()
    assert server.transport.get_extra_info("peername") == client.getsockname()
    assert server.transport.get_extra_info("sockname") == accepted.getsockname()
    assert server.transport.get_extra_info("ssl_object") is None
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    run_until(loop, lambda: server.events == ["ConnectionResetError"])


def test_connection_that_was_reset_has_no_peer(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        end, _ = listener.accept()
    end.setblocking(False)
    transport = DirectTransport(loop, end, Server())
    assert transport.get_extra_info("peername") == client.getsockname()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert transport.get_extra_info("peername") is None
    transport.abort()
    run_until(loop, lambda: end.fileno() < 0)


def test_refused_connection_is_not_read(loop: asyncio.AbstractEventLoop) -> None:
    class Refusing(Server):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            answer_and_close(b"no")(self, b"")

    server = Refusing()
    ours, theirs = socket.socketpair()
    ours.send(b"ask")
    theirs.setblocking(False)
    DirectTransport(loop, theirs, server).begin()
    ours.setblocking(False)
    with contextlib.suppress(ConnectionResetError):
        assert received(loop, ours) == b"no"
    assert server.received == b""


def test_queue_is_taken_to_its_end(loop: asyncio.AbstractEventLoop) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    servers: list[Server] = []

    def accept() -> Server:
        servers.append(Server(answer_and_close(b"answer")))
        if len(servers) == 2:
            raise RuntimeError("a defect")
        return servers[-1]

    accepting = DirectListener(loop, listener, accept)
    clients = [socket.create_connection(address) for _ in range(5)]
    accepting.accept_rest()
    accepting.close()
    accepting.close()
    for number, client in enumerate(clients):
        client.setblocking(False)
        client.send(b"ask")
        assert received(loop, client) == (b"" if number == 1 else b"answer")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    loop.run_until_complete(asyncio.sleep(0))


def test_retired_connection_answers_what_came_before(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(answer_and_close(b"answer"))
    client = connected(loop, server)
    client.send(b"ask")
    server.transport.retire()
    assert server.received == b"ask"
    assert received(loop, client) == b"answer"
    run_until(loop, lambda: server.events == ["lost"])


def test_retired_connection_tells_who_writes_later(loop: asyncio.AbstractEventLoop) -> None:
    server = Server()
    client = connected(loop, server)
    for _ in range(2):
        server.transport.retire()
        loop.run_until_complete(asyncio.sleep(0))
    # Until then nothing says that it has ended: Go's client would give up what it is sending.
    with pytest.raises(BlockingIOError):
        client.recv(1)
    with pytest.raises(BrokenPipeError):
        client.send(b"ask")
    assert server.events == []
    server.transport.close()
    run_until(loop, lambda: server.events == ["lost"])
    assert received(loop, client) == b""


class Overtaken(socket.socket):
    """A socket to which its peer writes just after it was found to be empty."""

    peer: socket.socket

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        try:
            return super().recv(size, flags)
        except BlockingIOError:
            if flags:
                self.peer.send(b"ask")
            raise


def test_no_request_is_lost_while_a_connection_is_retired(
    loop: asyncio.AbstractEventLoop,
) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    end = Overtaken(fileno=theirs.detach())
    end.peer = ours
    end.setblocking(False)
    server = Server(answer_and_close(b"answer"))
    transport = DirectTransport(loop, end, server)
    transport.begin()
    transport.retire()
    assert received(loop, ours) == b"answer"
    run_until(loop, lambda: server.events == ["lost"])


def test_connection_that_is_gone_is_retired(loop: asyncio.AbstractEventLoop) -> None:
    server = Server()
    client = connected(loop, server)
    client.close()
    server.transport.retire()
    run_until(loop, lambda: server.events == ["eof", "lost"])
    server.transport.retire()
