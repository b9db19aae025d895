"""Bodies are read to their end and not a byte further; buffers are bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from doorward.docker.proxy.messages import HeadError
from doorward.docker.proxy.wire import MOST_HEAD, MOST_WAITING, Body, CutError, Wire, chunk


class Paused:
    """A transport that says whether it is read."""

    def __init__(self) -> None:
        self.reads = True

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


def with_wire(*pieces: bytes, then: Any) -> Any:
    """The result of a coroutine on a wire that gets these pieces, and then its end."""

    async def run() -> Any:
        loop = asyncio.get_running_loop()
        wire = Wire(loop)
        transport: Any = Paused()
        wire.connection_made(transport)
        for number, piece in enumerate(pieces):
            loop.call_later(number * 0.0001, wire.data_received, piece)
        loop.call_later(len(pieces) * 0.0001, wire.eof_received)
        return await then(wire)

    return asyncio.run(run())


def body_of(length: int | None, *pieces: bytes) -> tuple[bytes, bytes]:
    """A body, and what follows it."""

    async def read(wire: Wire) -> tuple[bytes, bytes]:
        content = await Body(wire, length).all(1 << 20)
        return content, await wire.piece()

    result: tuple[bytes, bytes] = with_wire(*pieces, then=read)
    return result


@pytest.mark.parametrize(
    ("length", "pieces", "content"),
    [
        (3, (b"abcX",), b"abc"),
        (3, (b"a", b"b", b"cX"), b"abc"),
        (0, (b"X",), b""),
        (-1, (b"3\r\nabc\r\n0\r\n\r\nX",), b"abc"),
        (-1, tuple(bytes([each]) for each in b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nX"), b"abcde"),
        (-1, (b"1\r\na\r\n" * 100 + b"0\r\n\r\nX",), b"a" * 100),
    ],
)
def test_body_ends_where_it_ends(length: int, pieces: tuple[bytes, ...], content: bytes) -> None:
    assert body_of(length, *pieces) == (content, b"X")


def test_body_without_a_length_ends_with_the_connection() -> None:
    assert body_of(None, b"ab", b"c") == (b"abc", b"")


@pytest.mark.parametrize(
    ("length", "content"),
    [
        (3, b"ab"),
        (-1, b"3\r\nabc\r\n"),
        (-1, b"3\r\nabcd\r\n0\r\n\r\n"),
        (-1, b"3;x=y\r\nabc\r\n0\r\n\r\n"),
        (-1, b"-3\r\nabc\r\n0\r\n\r\n"),
        (-1, b"0x3\r\nabc\r\n0\r\n\r\n"),
        (-1, b"\r\n0\r\n\r\n"),
        (-1, b"0\r\nTrailer: x\r\n\r\n"),
        (-1, b"fffffffffffffff\r\n"),
        (-1, b"1" * 100),
        (-1, b"1\r\na\r\n" * 2000 + b"0\r\n\r\n"),
        (-1, b"200000\r\n" + b"a" * 0x200000 + b"\r\n0\r\n\r\n"),
    ],
)
def test_body_that_is_cut_or_odd_or_too_long_is_none(length: int, content: bytes) -> None:
    with pytest.raises(CutError):
        body_of(length, content)


def test_head_ends_before_what_follows() -> None:
    async def read(wire: Wire) -> tuple[bytes, bytes]:
        return await wire.head(), wire.data

    assert with_wire(b"GET", b" / HTTP/1.1\r\n\r", b"\nrest", then=read) == (
        b"GET / HTTP/1.1",
        b"rest",
    )


def test_head_has_a_limit() -> None:
    async def read(wire: Wire) -> bytes:
        return await wire.head()

    with pytest.raises(HeadError):
        with_wire(b"a" * (MOST_HEAD + 5), then=read)
    with pytest.raises(CutError):
        with_wire(b"GET /", then=read)


def test_what_nobody_takes_is_not_read_on() -> None:
    async def read(wire: Wire) -> tuple[bool, bool]:
        wire.data_received(b"a" * (MOST_WAITING + 1))
        paused = not wire.transport.reads
        await wire.take(MOST_WAITING + 1)
        waits = asyncio.ensure_future(wire.wait())
        await asyncio.sleep(0)
        resumed = wire.transport.reads
        await waits
        return paused, resumed

    assert with_wire(then=read) == (True, True)


def test_chunk_is_written() -> None:
    assert chunk(b"a" * 17) == b"11\r\n" + b"a" * 17 + b"\r\n"
