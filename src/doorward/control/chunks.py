"""Events in chunks as OPA sends them: JSON arrays, compressed, each below a limit.

The amount of text for a full chunk is estimated from the chunks before, since events resemble each
other; events are compressed twice only if the estimate was too high.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Chunk", "ChunkEncoder"]

FULL: Final = 0.9
"""The share of the limit that a chunk should reach."""
LEVEL: Final = 6
GROWTH: Final = 2.0
"""The factor by which an estimate may grow from one chunk to the next, or shrink after one that was
too large.
"""


class Chunk(NamedTuple):
    """The content of one request, a compressed JSON array, and the number of its events."""

    content: bytes
    events: int


class ChunkEncoder:
    """Collects events, each a JSON text, and returns them as chunks of at most `limit` bytes. Not
    thread-safe.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._guess = float(limit)
        """The estimated bytes of text of a full chunk."""
        self._events: list[bytes] = []
        self._size = 0
        self.too_large: list[int] = []
        """The compressed sizes, in bytes, of events that exceed the limit alone and were dropped;
        the caller clears it.
        """

    def __len__(self) -> int:
        """The number of events that are not in a chunk yet."""
        return len(self._events)

    def add(self, event: bytes) -> bool:
        """Add an event; return True if there are probably enough for a chunk, so that `flush`
        should be called.
        """
        self._events.append(event)
        self._size += len(event) + 1
        return self._size >= self._guess

    def flush(self) -> list[Chunk]:
        """Return all events that were added since the last call, as chunks; [] if there are none.
        Sizes of events that fit into no chunk are appended to `too_large`.
        """
        events, self._events, self._size = self._events, [], 0
        return self._chunks(events) if events else []

    def _chunks(self, events: Sequence[bytes]) -> list[Chunk]:
        """Compress the events as one chunk or, if that is above the limit, as two halves,
        recursively. An event that is too large alone is dropped and its size appended to
        `too_large`. Adjusts the size from which `add` returns True.
        """
        text = b"[" + b",".join(events) + b"]"
        # INVARIANT: the same events give the same bytes, so without a time: `deliveries` names the
        # object of a chunk in S3 by its digest.
        content = gzip.compress(text, LEVEL, mtime=0)
        if len(content) <= self._limit:
            # A few events say little of how well many are compressed.
            fitting = self._limit * FULL * len(text) / len(content)
            self._guess = min(fitting, max(self._guess * GROWTH, len(text) * GROWTH))
            return [Chunk(content, len(events))]
        if len(events) == 1:
            self.too_large.append(len(content))
            return []
        # Not below the limit: so much text fits, however little it can be compressed.
        self._guess = max(self._guess / GROWTH, float(self._limit))
        # The compressed size is known only afterwards: two halves are tried in its place.
        half = len(events) // 2
        return self._chunks(events[:half]) + self._chunks(events[half:])
