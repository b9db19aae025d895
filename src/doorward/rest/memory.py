"""The memory that bodies of requests may take together, as they are sent and as values.

A body is priced before it is read (`pdp/sizes.py`), and what is worked on at the same time has a
limit. Small bodies are not counted: there are at most as many of them as connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

__all__ = ["Memory", "NoRoomError", "Room"]

UNCOUNTED: Final = 64 * 1024
"""Requests that take at most this many bytes are not counted."""
WAIT: Final = 5.0
"""Seconds that a request waits for memory before it is refused."""
_LOOK: Final = 0.02


class NoRoomError(Exception):
    """Other requests take so much memory that this one cannot be served now."""


class Memory:
    """A limit on the bytes that the requests of one event loop may take together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    @contextmanager
    def room(self) -> Iterator[Room]:
        """Context manager: account for the memory of one request, and release it at the end."""
        room = Room(self)
        try:
            yield room
        finally:
            self.taken -= room.counted


class Room:
    """The memory that one request has taken so far; the first `UNCOUNTED` bytes are free."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._size = 0
        self.counted = 0

    async def take(self, size: int) -> None:
        """Reserve `size` more bytes, waiting at most `WAIT` seconds for other requests to end. A
        request of at most `UNCOUNTED` bytes does not count.

        Raise NoRoomError if the bytes are not free by then. A request that needs more than the
        limit gets its memory once it is alone.
        """
        self._size += size
        if self._size <= UNCOUNTED:
            return
        needed = self._size - self.counted
        until = monotonic() + WAIT
        # One that is larger than all there is gets what there is, alone.
        while (taken := self._memory.taken) > self.counted and taken + needed > self._memory.limit:
            # Two requests may each hold what the other waits for: only this ends such a wait.
            if monotonic() > until:
                raise NoRoomError
            await asyncio.sleep(_LOOK)
        self._memory.taken += needed
        self.counted += needed
