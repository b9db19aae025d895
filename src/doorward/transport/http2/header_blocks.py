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
    """A header block whose rest follows in CONTINUATION frames."""

    def __init__(self, limits: Limits, stream_id: int, flags: int, payload: bytes) -> None:
        """Begin a block with its first part, `payload`; raise Http2Error if it is too large."""
        self.stream_id = stream_id
        self.flags = flags
        self._most = limits.header_block_size
        self._content = bytearray()
        self.add(payload)

    def add(self, payload: bytes) -> None:
        """Append a part of the block; raise Http2Error if the block is too large."""
        self._content += payload
        if len(self._content) > self._most:
            raise Http2Error(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"header block is larger than {self._most} bytes",
            )

    def __bytes__(self) -> bytes:
        return bytes(self._content)


class CacheBudget:
    """A limit on the bytes that the cached header blocks of all connections may take together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


# One for the process: `cached_blocks` bounds a connection, and there may be 1,000 of them.
CACHE_BUDGET: Final = CacheBudget(16 << 20)
_ENTRY: Final = 1_024
"""The estimated memory in bytes of a cached block's route."""


class HeaderBlocks:
    """The header decoder of one connection, with a cache of the routes of repeated blocks."""

    def __init__(
        self, application: Application, limits: Limits, budget: CacheBudget = CACHE_BUDGET
    ) -> None:
        self._application = application
        self._budget = budget
        self._used = 0
        self._limits = limits
        self._hpack = Decoder(limits.header_table_size)
        self.routes: dict[bytes, tuple[Route, int | None]] = {}
        """The route and the announced body length (or None) of each cached block."""

    def resolve(self, block: bytes) -> tuple[Route, int | None] | None:
        """Return the route of a header block and its `content-length` (or None); None if the list
        is too large.

        The result is cached until the dynamic table changes. Raise StreamError for a malformed
        request, Http2Error if the block cannot be decoded.
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
        # A block that changes the table must be decoded each time, and means another list then.
        if before == self._hpack.revision and len(self.routes) < self._limits.cached_blocks:
            self._remember(block, resolved)
        return resolved

    def _remember(self, block: bytes, resolved: tuple[Route, int | None]) -> None:
        """Cache a block with its route, if the budget that all connections share has room."""
        size, budget = len(block) + _ENTRY, self._budget
        if budget.used + size <= budget.limit:
            budget.used += size
            self._used += size
            self.routes[block] = resolved

    def forget(self) -> None:
        """Empty the cache and release its budget; must be called when the connection ends."""
        self.routes.clear()
        self._budget.used -= self._used
        self._used = 0

    def decode(self, block: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
        """Return the header list of a block and its size as RFC 7541 counts it; a size above the
        limit means that the list is incomplete. Raise Http2Error if the block is malformed.

        Empties the cache if the block changes the dynamic table, also when it is malformed.
        """
        before = self._hpack.revision
        try:
            return self._hpack.decode(block, self._limits.header_list_size)
        except HpackError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, str(error)) from None
        finally:
            # After a failure, too: the entries before the fault have changed the table.
            if before != self._hpack.revision:
                self.forget()
