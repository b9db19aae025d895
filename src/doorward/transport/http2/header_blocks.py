"""Header blocks: put together from their frames, decoded, and remembered with their routes."""

from __future__ import annotations

from typing import Final

from doorward.transport.http2.codes import ErrorCode, Http2Error, StreamError
from doorward.transport.http2.headers import MalformedError, to_request
from doorward.transport.http2.hpack import Decoder, HpackError
from doorward.transport.http2.limits import Limits
from doorward.transport.http2.streams import Application, Route

__all__ = ["CACHE_BUDGET", "CacheBudget", "HeaderBlocks", "PartialBlock"]


class PartialBlock:
    """A block that is continued in the next frame."""

    def __init__(self, limits: Limits, stream_id: int, flags: int, payload: bytes) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self._most = limits.header_block_size
        self._content = bytearray()
        self.add(payload)

    def add(self, payload: bytes) -> None:
        """One more part; Http2Error where the block is too large."""
        self._content += payload
        if len(self._content) > self._most:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "header block is too large")

    def __bytes__(self) -> bytes:
        return bytes(self._content)


class CacheBudget:
    """Bytes that the remembered blocks of all connections may take together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


CACHE_BUDGET: Final = CacheBudget(16 << 20)
_ENTRY: Final = 1_024
"""Bytes that a remembered block takes, about, besides its own: its route."""


class HeaderBlocks:
    """The decoder of a connection, and the routes of blocks that the client repeats."""

    def __init__(
        self, application: Application, limits: Limits, budget: CacheBudget = CACHE_BUDGET
    ) -> None:
        self._application = application
        self._budget = budget
        self._used = 0
        self._limits = limits
        self._hpack = Decoder(limits.header_table_size)
        self.routes: dict[bytes, tuple[Route, int | None]] = {}
        """By blocks: the route, and the length of the body that the block announces."""

    def resolve(self, block: bytes) -> tuple[Route, int | None] | None:
        """The route of a block, and the length that it announces; None where the list is too large.

        As long as the dynamic table stays as it is, so does the meaning of the block.
        """
        before = self._hpack.revision
        headers, size = self.decode(block)
        if size > self._limits.header_list_size:
            return None
        try:
            request = to_request(headers)
        except MalformedError as error:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, str(error)) from None
        resolved = (self._application.resolve(request), request.content_length)
        if before == self._hpack.revision and len(self.routes) < self._limits.cached_blocks:
            self._remember(block, resolved)
        return resolved

    def _remember(self, block: bytes, resolved: tuple[Route, int | None]) -> None:
        """Cache a header block with its route, if the budget that connections share has room."""
        size, budget = len(block) + _ENTRY, self._budget
        if budget.used + size <= budget.limit:
            budget.used += size
            self._used += size
            self.routes[block] = resolved

    def forget(self) -> None:
        """Forget what is remembered; to be called when the connection ends as well."""
        self.routes.clear()
        self._budget.used -= self._used
        self._used = 0

    def decode(self, block: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
        """The header list, and its size; Http2Error where the block is none."""
        before = self._hpack.revision
        try:
            return self._hpack.decode(block, self._limits.header_list_size)
        except HpackError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, str(error)) from None
        finally:
            if before != self._hpack.revision:
                self.forget()
