"""Where responses that outlive a decision are kept, and until when each is fresh."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import TYPE_CHECKING

from doorward.records import record

if TYPE_CHECKING:
    from doorward.rego.builtins.http_client.message import HTTPResponse

__all__ = ["ResponseCache", "StoredResponse"]


@record(frozen=True)
class StoredResponse:
    """A response, fresh until `fresh_until`; after that its `validators` may renew it."""

    response: HTTPResponse
    fresh_until: int
    validators: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        head = sum([len(name) + len(value) + 64 for name, value in self.response.headers])
        return len(self.response.body) + head + 512


class ResponseCache:
    """Responses by request, at most `capacity` bytes of them; safe in any number of threads.

    The one stored first goes first.
    """

    def __init__(self, capacity: int = 16 * 1024 * 1024) -> None:
        self._capacity = capacity
        self._used = 0
        self._entries: OrderedDict[Hashable, StoredResponse] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> StoredResponse | None:
        """What was stored, fresh or not."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: Hashable, stored: StoredResponse) -> None:
        """Store a response, unless it alone is more than the capacity."""
        with self._lock:
            self._remove(key)
            if stored.size > self._capacity:
                return
            while self._used + stored.size > self._capacity:
                self._remove(next(iter(self._entries)))
            self._entries[key] = stored
            self._used += stored.size

    def _remove(self, key: Hashable) -> None:
        stored = self._entries.pop(key, None)
        if stored is not None:
            self._used -= stored.size

    def __len__(self) -> int:
        return len(self._entries)
