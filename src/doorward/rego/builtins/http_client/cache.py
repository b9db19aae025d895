"""The cache of responses that outlive a decision, and until when each is fresh."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TYPE_CHECKING

from doorward.base.records import record
from doorward.rego.caches import CacheCounts

if TYPE_CHECKING:
    from doorward.rego.builtins.http_client.message import HTTPResponse

__all__ = ["ResponseCache", "StoredResponse"]


@record
class StoredResponse:
    """A stored response that is fresh until `fresh_until`, in nanoseconds since the epoch. After
    that, a request with the headers `validators` may renew it; if there are none, it is useless.
    """

    response: HTTPResponse
    fresh_until: int
    validators: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """The bytes that the entry counts for in the cache: the body, the headers, and an allowance
        for Python's objects.
        """
        head = sum([len(name) + len(value) + 64 for name, value in self.response.headers])
        return len(self.response.body) + head + 512


class ResponseCache:
    """A cache of responses by request, of at most `capacity` bytes; thread-safe. The response
    stored first is removed first. Every `stale_after` seconds the responses that are no longer
    fresh are removed; with 0 they stay, and may be renewed.
    """

    def __init__(
        self,
        capacity: int = 16 * 1024 * 1024,
        *,
        stale_after: float = 0.0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._capacity = capacity
        self._stale_after = int(stale_after * 1_000_000_000)
        self._clock = clock
        self._looked_at = clock()
        self._used = 0
        self._entries: OrderedDict[Hashable, StoredResponse] = OrderedDict()
        self._lock = Lock()
        self.hits = self.misses = 0

    def get(self, key: Hashable) -> StoredResponse | None:
        """Return the stored response, fresh or stale, or None. It is not counted as a hit or a
        miss. First removes stale entries, if it is time for that.
        """
        with self._lock:
            self._remove_stale()
            return self._entries.get(key)

    def put(self, key: Hashable, stored: StoredResponse) -> None:
        """Store a response in place of the present one; remove the oldest entries until it fits. If
        it alone is larger than the capacity, nothing is stored, and the present entry of the key is
        removed.
        """
        with self._lock:
            self._remove_stale()
            self._remove(key)
            if stored.size > self._capacity:
                return
            while self._used + stored.size > self._capacity:
                self._remove(next(iter(self._entries)))
            self._entries[key] = stored
            self._used += stored.size

    def remove(self, key: Hashable) -> None:
        """Remove the stored response, if there is one."""
        with self._lock:
            self._remove(key)

    def _remove_stale(self) -> None:
        """Remove the entries that are no longer fresh, at most every `stale_after` seconds; do
        nothing before, or if that is 0. The lock must be held.
        """
        if not self._stale_after or (now := self._clock()) < self._looked_at + self._stale_after:
            return
        self._looked_at = now
        for key in [key for key, each in self._entries.items() if each.fresh_until < now]:
            self._remove(key)

    def _remove(self, key: Hashable) -> None:
        """Remove an entry, if there is one, and subtract its size from the bytes in use."""
        stored = self._entries.pop(key, None)
        if stored is not None:
            self._used -= stored.size

    def note_use(self, *, was_fresh: bool) -> None:
        """Count a request as a hit if the cache had a fresh response for it, else as a miss."""
        with self._lock:
            self.hits += was_fresh
            self.misses += not was_fresh

    @property
    def counts(self) -> CacheCounts:
        """The numbers of stored responses, and of hits and misses that `note_use` counted."""
        return CacheCounts(len(self), self.hits, self.misses)

    def __len__(self) -> int:
        return len(self._entries)
