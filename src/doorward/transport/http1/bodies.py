"""Bytes that the bodies of all connections may take together, while they arrive and are read.

Each body is bounded, and so is the number of connections; their product is more than a process may
take. So a body takes its bytes from a budget, but for the first `free` of them: short requests are
answered whatever is sent beside them. A share is given back when nobody has the body any more.
"""

from __future__ import annotations

from collections import deque

__all__ = ["BodyBudget", "Share"]


class BodyBudget:
    """The bytes that are left for the connections of one loop; any thread may drop a body."""

    def __init__(self, limit: int, free: int) -> None:
        self._free = free
        self._limit = limit
        self._taken = 0
        self._given: deque[int] = deque()
        """What came back and is not subtracted yet. The last reference may go anywhere, also in
        the middle of `take`: so only `take` changes the sum."""

    @property
    def taken(self) -> int:
        """The bytes of all shares."""
        return self._taken - sum(list(self._given))

    def begin(self) -> Share:
        """The share of a body that begins."""
        return Share(self, -self._free)

    def take(self, size: int) -> bool:
        """Take so many bytes; False where they are not left."""
        while self._given:
            self._taken -= self._given.popleft()
        if self._taken + size > self._limit:
            return False
        self._taken += size
        return True

    def give(self, size: int) -> None:
        """Give so many bytes back."""
        self._given.append(size)


class Share:
    """The bytes of one body; given back with the last reference to it."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: BodyBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        """Bytes that are taken; below zero, those that are still free."""

    def grow(self, size: int) -> bool:
        """Take what a part of the body needs; False where it is not left."""
        more = max(0, self._size + size) - max(0, self._size)
        if more and not self._budget.take(more):
            return False
        self._size += size
        return True

    def __del__(self) -> None:
        if self._size > 0:
            self._budget.give(self._size)
