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
"""Seconds after which an evaluation starts although another one has not ended."""


class BuildGate:
    """The single turn that evaluations share while a snapshot is built. Safe in any number of
    threads.
    """

    __slots__ = ("_builds", "_is_free", "_lock", "_queue", "are_taken")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[threading.Lock] = deque()
        """A lock for each waiting thread, first come first served. With a single lock, a thread
        that ends its turn would take the next one, too, and starve the others.
        """
        self._is_free = True
        self._builds = 0
        self.are_taken = False
        """True while a snapshot is built; an evaluation calls `begin` only then."""

    @contextmanager
    def building(self) -> Iterator[None]:
        """Context manager around a build: evaluations take turns until all builds, in any thread,
        have ended.
        """
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
        """Take the turn, waiting for it at most `LONGEST_WAIT` seconds. Return True if the
        evaluation has the turn and must call `end` afterwards; False after the time-out: the
        evaluation then runs without a turn, and must not call `end`.
        """
        with self._lock:
            if self._is_free:
                self._is_free = False
                return True
            mine = threading.Lock()
            # Held by its owner: the second `acquire` below waits until `end` releases it.
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
        """Give the turn to the thread that has waited longest; without one, the turn is free."""
        with self._lock:
            # The turn is passed on and not freed, so that no new thread can take it before the
            # next in line.
            if self._queue:
                self._queue.popleft().release()
            else:
                self._is_free = True
