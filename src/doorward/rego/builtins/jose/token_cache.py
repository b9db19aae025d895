"""Verified tokens, so that a token is verified once and not once a request.

Only tokens that verified are kept, never longer than they are valid: an entry carries the window
in which its answer holds, and `tokens` asks the clock at every use.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Any

from doorward.rego.caches import CacheCounts

__all__ = ["VerifiedTokens"]


class VerifiedTokens:
    """A `context.TokenCache` of at most `capacity` entries; thread-safe. It has two generations: an
    entry that was not used while `capacity / 2` others were added is removed. A hit takes no lock.
    """

    __slots__ = ("_half", "_lock", "_old", "_young", "hits", "misses")

    def __init__(self, capacity: int = 8192) -> None:
        self._half = max(capacity // 2, 1)
        self._lock = Lock()
        # Not exact: threads that count at the same time may count once.
        self.hits = self.misses = 0
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any:
        """Return the entry, or None. An entry from the older generation moves to the younger one.
        Counts a hit or a miss.
        """
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.get(key)
            if entry is None:
                self.misses += 1
                return None
            self.put(key, entry)
        self.hits += 1
        return entry

    def put(self, key: Hashable, value: Any) -> None:
        """Store an entry, or replace it. If the younger generation is full, it becomes the older
        one, and the entries of that are dropped.
        """
        young = self._young
        if len(young) >= self._half and key not in young:
            with self._lock:
                # Unless another thread did so: its entries must not be dropped with the next.
                if self._young is young:
                    # New dictionaries instead of removals: a reader without the lock sees one or
                    # the other.
                    self._old, self._young = young, {}
        self._young[key] = value

    @property
    def counts(self) -> CacheCounts:
        """The number of entries, hits and misses, over all built-ins that use the cache."""
        return CacheCounts(len(self), self.hits, self.misses)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
