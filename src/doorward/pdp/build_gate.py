"""While a snapshot is built, evaluations take turns, so that the build gets its share of the time.

Python runs one thread at a time. Where ten threads evaluate, a build gets an eleventh of the time,
and a withdrawn policy stays active ten times longer than necessary. Threads that evaluate gain
nothing from running side by side: during a build one of them runs and the others wait for it, and
the build gets up to half of the time.

A wait is bounded, because an evaluation may itself wait for a network.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["LONGEST_WAIT", "BuildGate"]

LONGEST_WAIT: Final = 0.05
"""Seconds after which an evaluation begins although another one has not ended."""


class BuildGate:
    """The one turn that evaluations share during a build; safe in any number of threads."""

    __slots__ = ("_builds", "_is_free", "_lock", "_queue", "are_taken")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[threading.Lock] = deque()
        """What the threads wait for, first come first served: who ends its turn would have the
        next one, too, and the others none."""
        self._is_free = True
        self._builds = 0
        self.are_taken = False
        """Whether a build is under way: an evaluation calls `begin` then, and only then."""

    @contextmanager
    def building(self) -> Iterator[None]:
        """Context manager around a build: while one runs, evaluations take turns."""
        with self._lock:
            self._builds += 1
            self.are_taken = True
        try:
            yield
        finally:
            with self._lock:
                self._builds -= 1
                self.are_taken = self._builds > 0

    def begin(self) -> bool:
        """Wait for a turn; return True if the evaluation got one and must call `end`."""
        with self._lock:
            if self._is_free:
                self._is_free = False
                return True
            mine = threading.Lock()
            mine.acquire()
            self._queue.append(mine)
        if mine.acquire(timeout=LONGEST_WAIT):
            return True
        with self._lock:
            # `end` may have given this turn after the timeout: it counts then, and must be ended.
            if mine in self._queue:
                self._queue.remove(mine)
                return False
        return True

    def end(self) -> None:
        """Give the turn to the next evaluation."""
        with self._lock:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._is_free = True
