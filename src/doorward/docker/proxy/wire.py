"""One end of a connection, read and written by coroutines, with bounded buffers.

Bytes wait in `data` until somebody takes them; past `MOST_WAITING` the socket is not read. `write`
passes on at once, and `drained` waits for a reader that is slow. The bodies of messages are read
through a `Body`, which never takes a byte too much: what follows belongs to the next message, or to
the protocol that takes over.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final

from doorward.docker.proxy.messages import END, HeadError

__all__ = ["LAST_CHUNK", "Body", "CutError", "Wire", "chunk"]

MOST_WAITING: Final = 1 << 16
"""Bytes that wait for their reader; one more read of the socket may come on top."""
MOST_UNSENT: Final = 1 << 18
"""Bytes that wait for a slow peer."""
MOST_HEAD: Final = 128 * 1024
"""Bytes of a head: it has build arguments and the credentials of registries."""
FEWEST: Final = 64
"""Bytes of a chunk on average, of a body that is read as a whole: each has its cost."""
FREE_CHUNKS: Final = 1024
# Without extensions (RFC 9112, 7.1.1): none has a meaning here, and readers differ about them.
_CHUNK: Final = re.compile(rb"[0-9A-Fa-f]{1,12}")
_LONGEST_LINE: Final = 64

LAST_CHUNK: Final = b"0\r\n\r\n"


class CutError(Exception):
    """The peer ended in the middle of a message, or sent bytes that are malformed."""


class TooLargeError(CutError):
    """A body has more bytes than its reader accepts."""


def chunk(piece: bytes) -> bytes:
    """Return `piece` as one chunk of a chunked body (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


class Wire(asyncio.Protocol):
    """The protocol of one socket: holds received bytes, and lets coroutines wait for more or for a
    slow peer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.transport: Any = None
        self.data = b""
        self.at_end = False
        """True if the peer sends no more bytes."""
        self.lost = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_paused = False
        self.is_reading = True

    # As the loop calls it

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(high=MOST_UNSENT)

    def data_received(self, data: bytes) -> None:
        """Store received bytes until a coroutine takes them, and wake the one that waits. Reading
        from the socket pauses once more than `MOST_WAITING` bytes are stored.
        """
        self.data = self.data + data if self.data else data
        if len(self.data) > MOST_WAITING and self.is_reading:
            self.is_reading = False
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        """Note that the peer sends no more, and wake the reader. Return True: writing goes on."""
        self.at_end = True
        _wake(self._reader)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the reader and the writer, which see that the connection is lost."""
        self.at_end = self.lost = True
        self._is_paused = False
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        _wake(self._writer)

    # Reading

    async def wait(self) -> bool:
        """Wait for more bytes or the end of the stream, and read on if reading was paused. Return
        False without waiting if the end was there before; True does not promise bytes.
        """
        if self.at_end:
            return False
        self._read_on()
        self._reader = self.loop.create_future()
        try:
            await self._reader
        finally:
            self._reader = None
        return True

    def _read_on(self) -> None:
        """Resume reading from the transport, unless it is read already or was lost."""
        if not self.is_reading and not self.lost:
            self.is_reading = True
            self.transport.resume_reading()

    async def take(self, most: int) -> bytes:
        """Remove and return the next received bytes, at least 1 and at most `most`; waits for them.
        Raise CutError at the end.
        """
        while not self.data:
            if not await self.wait():
                raise CutError
        data = self.data
        if len(data) <= most:
            self.data = b""
            return data
        self.data = data[most:]
        return data[:most]

    async def piece(self) -> bytes:
        """Remove and return all received bytes, waiting if there are none; `b""` at the end."""
        while not self.data:
            if not await self.wait():
                return b""
        data, self.data = self.data, b""
        return data

    async def head(self) -> bytes:
        """Remove and return the next head, without the empty line that ends it, waiting for the
        rest of it.

        Raise CutError if the peer ends before, HeadError 431 if the head is longer than `MOST_HEAD`
        bytes.
        """
        begin = 0
        while (end := self.data.find(END, begin)) < 0:
            if len(self.data) > MOST_HEAD:
                raise HeadError(431, f"start line and headers are longer than {MOST_HEAD} bytes")
            # The end may be split between two reads; what was searched is not searched again.
            begin = max(0, len(self.data) - len(END) + 1)
            # A head is longer than what may wait otherwise.
            self._read_on()
            if not await self.wait():
                raise CutError
        if end > MOST_HEAD:
            raise HeadError(431, f"start line and headers are longer than {MOST_HEAD} bytes")
        content, self.data = self.data[:end], self.data[end + len(END) :]
        return content

    async def line(self) -> bytes:
        """Remove and return the next line of a chunked body, without its CRLF.

        Raise CutError if the peer ends or the line is longer than `_LONGEST_LINE` bytes.
        """
        while (end := self.data.find(b"\r\n")) < 0:
            if len(self.data) > _LONGEST_LINE or not await self.wait():
                raise CutError
        if end > _LONGEST_LINE:
            raise CutError
        content, self.data = self.data[:end], self.data[end + 2 :]
        return content

    # Writing

    def write(self, data: bytes) -> None:
        if not self.lost:
            self.transport.write(data)

    async def drained(self) -> None:
        """Wait until a slow peer has read most of the written bytes; return at once if the
        connection is lost.
        """
        while self._is_paused and not self.lost:
            if self._writer is None or self._writer.done():
                self._writer = self.loop.create_future()
            # Two may wait for the same peer, and one of them may be cancelled.
            await asyncio.shield(self._writer)

    def end(self) -> None:
        """Tell the peer that no more will be sent, if the transport can."""
        if not self.lost and not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()

    def close(self) -> None:
        """Close when everything is sent."""
        if self.transport is not None and not self.lost:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None and not self.lost:
            self.transport.abort()


def _wake(future: asyncio.Future[None] | None) -> None:
    """End the wait for a future, if there is one that waits."""
    if future is not None and not future.done():
        future.set_result(None)


class Body:
    """The body of a message on a wire: of a length, in chunks (-1), or to the end (None)."""

    def __init__(self, wire: Wire, length: int | None) -> None:
        self._wire = wire
        self.is_chunked = length == -1
        self._left = 0 if length in (-1, None) else length or 0
        self.ended = length == 0
        """True if the complete body was read."""
        self._chunks = 0

    async def next(self) -> bytes:
        """Read and return the next piece of the body; `b""` at its end. `ended` is True then, and
        already with the last piece if it is known to be the last.

        Raise CutError if the peer ends before the length or the last chunk is reached, and for a
        malformed chunk or trailers.
        """
        if self.ended:
            return b""
        if self.is_chunked:
            return await self._next_chunk()
        if not self._left:
            piece = await self._wire.piece()
            self.ended = not piece
            return piece
        piece = await self._wire.take(self._left)
        self._left -= len(piece)
        self.ended = not self._left
        return piece

    async def _next_chunk(self) -> bytes:
        """Return the joined content of the chunks that have arrived, after waiting for at least one
        byte or the last chunk. With the last chunk, sets `ended`; the result is then `b""` if no
        content came before it.

        Raise CutError if the peer ends before the last chunk, and for a malformed chunk, too long a
        line, or trailers.
        """
        wire, pieces = self._wire, []
        while True:
            if not self._left:
                line = await wire.line()
                if not _CHUNK.fullmatch(line):
                    raise CutError
                self._left = int(line, 16)
                self._chunks += 1
                if not self._left:
                    if await wire.line():
                        raise CutError  # trailers are not passed on
                    self.ended = True
                    break
            piece = await wire.take(self._left)
            pieces.append(piece)
            self._left -= len(piece)
            if not self._left and await wire.line():
                raise CutError
            # Further only if a whole line is certainly there: what was read must not wait for the
            # peer.
            if len(wire.data) < _LONGEST_LINE and wire.data != LAST_CHUNK:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def all(self, most: int, reserve: Callable[[int], object] = bool) -> bytes:
        """Read the body to its end and return it. `reserve` is called with each piece's size before
        the next is read; its errors pass through.

        Raise TooLargeError if the body has more than `most` bytes, and CutError if it is cut or
        malformed, or comes in too many tiny chunks.
        """
        pieces, size = [], 0
        while piece := await self.next():
            size += len(piece)
            # A chunk of one byte costs six, and a step of the reader: a few of them are usual.
            if self._chunks * FEWEST > size + FEWEST * FREE_CHUNKS:
                raise CutError
            if size > most:
                raise TooLargeError
            reserve(len(piece))
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
