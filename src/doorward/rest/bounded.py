"""uvicorn's HTTP protocol with bounds that it lacks: connections, the size of a head, and times.

Without them one client may send headers without end, before a body or after one in chunks, keep a
connection by sending them slowly or by reading nothing of an answer, or take all connections and
send nothing. Where there are too many, a new connection takes that of the client that has kept us
waiting longest, so that a probe is always served.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedHttp", "bounded"]

HEAD_BYTES: Final = 64 * 1024
HEAD_TIMEOUT: Final = 32.0
"""Seconds, as in OPA."""
FRAMING: Final = 8
"""Bytes of framing for each byte of a body: a chunk of one byte has five."""
WRITE_TIMEOUT: Final = 60.0
"""Seconds in which a client must read on, while there is more than fits into the buffers."""

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


def bounded(connections: int) -> type[BoundedHttp]:
    """The protocol of a listener that has at most so many connections."""
    return type("BoundedHttp", (BoundedHttp,), {"most": connections})


class BoundedHttp(HttpToolsProtocol):
    """Closes a connection that is one too many, or whose client is too slow or sends too much."""

    most = 1_000
    _head_size = 0
    _in_head = True
    _message = 0
    _body_size = 0
    _framing_size = 0
    """Bytes after the head that are not of the body: framing of chunks, headers after them."""
    _waits_since = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin_head()
        if len(self.connections) > self.most:
            self._make_room()

    def _make_room(self) -> None:
        others = [each for each in self.connections if isinstance(each, BoundedHttp)]
        waiting = [each for each in others if each is not self and each.is_waiting]
        if waiting:
            min(waiting, key=lambda each: each._waits_since).drop()
        else:
            self.transport.write(_TOO_MANY)
            self.transport.close()

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn: nothing of ours is under way."""
        cycle: Any = self.cycle  # None before the first request
        return self._in_head or cycle is None or cycle.response_complete or cycle.more_body

    def drop(self) -> None:
        """Close the connection without more ado."""
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_write()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._end_write()
        self._write_deadline = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_write()
        super().resume_writing()

    def _end_write(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def on_response_complete(self) -> None:
        self._waits_since = monotonic()
        super().on_response_complete()

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        super().on_body(body)

    def on_message_begin(self) -> None:
        self._message += 1
        self._body_size = self._framing_size = 0
        self._begin_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        message = 0 if self._in_head else self._message
        body_size = self._body_size
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_size += len(data)
        elif message == self._message:
            self._framing_size += len(data) - (self._body_size - body_size)
        if (
            self._head_size > HEAD_BYTES
            or self._framing_size > HEAD_BYTES + FRAMING * self._body_size
        ):
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def _begin_head(self) -> None:
        self._end_head()
        self._head_size = 0
        self._in_head = True
        self._waits_since = monotonic()
        self._deadline = self.loop.call_later(HEAD_TIMEOUT, self._expire)

    def _end_head(self) -> None:
        self._in_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
