"""Bytes that the bodies of all connections may take together, while they arrive and are read.

Each body is bounded, and so is the number of connections; their product is more than a process may
take. So a body takes its bytes from a budget, but for the first `free` of them: short requests are
answered whatever is sent beside them. A share is given back when nobody has the body any more.
"""

from __future__ import annotations

from collections import deque

__all__ = ["BodyBudget", "Share"]


class BodyBudget:
    """The bytes that the bodies of all connections of one loop may take together.

    Any thread may drop a body, and so give its bytes back.
    """

    def __init__(self, limit: int, free: int) -> None:
        """Set the limit of all bodies together in bytes; the first `free` bytes of each body do not
        count.
        """
        self._free = free
        self._limit = limit
        self._taken = 0
        self._given: deque[int] = deque()
        """Sizes that were given back and are not subtracted yet. The last reference to a body may
        go anywhere, even in the middle of `take`: so only `take` changes the sum."""

    @property
    def taken(self) -> int:
        """The number of bytes that all bodies take now."""
        # A copy, because another thread may append to the deque meanwhile.
        return self._taken - sum(list(self._given))

    def begin(self) -> Share:
        """Return the share of a new body, of which the first `free` bytes do not count."""
        return Share(self, -self._free)

    def take(self, size: int) -> bool:
        """Take `size` bytes for a body, on the loop's thread; return False, and take nothing, if
        all bodies together would exceed the limit. Bytes given back by `give` are counted first.
        """
        while self._given:
            self._taken -= self._given.popleft()
        if self._taken + size > self._limit:
            return False
        self._taken += size
        return True

    def give(self, size: int) -> None:
        """Give `size` bytes back, from any thread; counted with the next `take`."""
        # A deque's `append` is atomic, and so needs no lock in a destructor.
        self._given.append(size)


class Share:
    """The bytes that one body takes; given back when the last reference to the share is gone."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: BodyBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        """The bytes that are taken; a negative number is the rest of the free ones."""

    def grow(self, size: int) -> bool:
        """Take `size` more bytes for the body, of which those after the free ones count in the
        budget; return False, and take nothing, if the budget does not have them.
        """
        more = max(0, self._size + size) - max(0, self._size)
        if more and not self._budget.take(more):
            return False
        self._size += size
        return True

    def __del__(self) -> None:
        if self._size > 0:
            self._budget.give(self._size)
