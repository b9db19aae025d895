"""Events to chunks as OPA sends them: JSON arrays, compressed, each below a limit.

How much text fits into a chunk is learned from the chunks before: events resemble each other, and
nothing is compressed twice unless the guess was too high.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Chunk", "ChunkEncoder"]

FULL: Final = 0.9
"""The share of the limit that a chunk should have."""
LEVEL: Final = 6
GROWTH: Final = 2.0
"""How much larger the next guess may be than the one before."""


class Chunk(NamedTuple):
    """One request's content."""

    content: bytes
    events: int


class ChunkEncoder:
    """Gathers events, each a JSON text, and gives them back as chunks. For one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._guess = float(limit)
        """How much text makes a full chunk."""
        self._events: list[bytes] = []
        self._size = 0
        self.too_large: list[int] = []
        """Sizes in bytes of events that are larger than the limit by themselves: in no chunk."""

    def __len__(self) -> int:
        """Events that wait to be part of a chunk."""
        return len(self._events)

    def add(self, event: bytes) -> bool:
        """Add an event; return True if there are enough for a chunk, which `flush` returns."""
        self._events.append(event)
        self._size += len(event) + 1
        return self._size >= self._guess

    def flush(self) -> list[Chunk]:
        """Return chunks of all events that were added and not returned yet."""
        events, self._events, self._size = self._events, [], 0
        return self._chunks(events) if events else []

    def _chunks(self, events: Sequence[bytes]) -> list[Chunk]:
        """Compress the events as one chunk, halving them until each chunk is below the limit.

        An event that is too large alone is noted in `too_large` and dropped.
        """
        text = b"[" + b",".join(events) + b"]"
        content = gzip.compress(text, LEVEL, mtime=0)
        if len(content) <= self._limit:
            # A few events say little of how well many are compressed.
            fitting = self._limit * FULL * len(text) / len(content)
            self._guess = min(fitting, max(self._guess * GROWTH, len(text) * GROWTH))
            return [Chunk(content, len(events))]
        if len(events) == 1:
            self.too_large.append(len(content))
            return []
        self._guess = max(self._guess / GROWTH, float(self._limit))
        # The compressed size is known only afterwards: two halves are tried in its place.
        half = len(events) // 2
        return self._chunks(events[:half]) + self._chunks(events[half:])
