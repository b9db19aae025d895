"""uvicorn's HTTP protocol with bounds that it lacks: on the size of a request's head, and its time.

Without them one connection may send headers without end, or keep a place by sending them slowly.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedHttp"]

HEAD_BYTES: Final = 64 * 1024
HEAD_TIMEOUT: Final = 32.0
"""Seconds, as in OPA."""

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedHttp(HttpToolsProtocol):
    """Closes a connection whose request line and headers are too large or too slow."""

    _head_size = 0
    _in_head = True
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._begin_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES:
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def _begin_head(self) -> None:
        self._end_head()
        self._head_size = 0
        self._in_head = True
        self._deadline = self.loop.call_later(HEAD_TIMEOUT, self._expire)

    def _end_head(self) -> None:
        self._in_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
