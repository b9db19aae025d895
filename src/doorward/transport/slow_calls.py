"""Durations of the calls of one kind: whether they may run on an event loop, or need a thread.

A slow call on the loop delays every other connection; a thread costs more than a usual call. So
calls are timed, and go to threads while the moving average of their kind is above `SLOW` seconds.

A call also takes long where the system gives the processor to another process in the middle of it.
Its processor time would tell, but to read that takes a microsecond at either end of each call. So a
call that took long for an unknown reason does not count: it makes the next ones be measured in
full. There the time that a call took counts if it waited for something (then the kernel counts a
voluntary switch of its thread), and else the time in which it computed.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Final, TypeAlias, TypeVar

__all__ = ["SLOW", "STALL", "Begun", "History", "timed"]

SLOW: Final = 0.001
"""Calls become slow when their average duration in seconds is above this."""
FAST: Final = 0.0005
"""Slow calls become fast again when their average is not above this: two thresholds, so that they
do not alternate."""
WEIGHT: Final = 1 / 16
"""The weight of the newest call in the moving average."""
STALL: Final = 0.008
LONG: Final = 0.1
"""A duration between `STALL` and `LONG` seconds counts as `STALL`: a fast call looks slow when the
system gives the processor to another process."""
DOUBTS: Final = 16
"""The number of calls that are measured in full after one that took long."""

_THREAD: Final[int | None] = getattr(resource, "RUSAGE_THREAD", None)
"""The argument of `getrusage` for the calling thread; None if the system cannot tell."""

T = TypeVar("T")

Begun: TypeAlias = tuple[float, resource.struct_rusage | None]
"""The start of a call, and the usage of its thread if it is measured in full."""


class History:
    """The moving average of the durations of one kind of call; `is_slow` says if they need a
    thread.

    `assumed` is the average in seconds before any call was measured.
    """

    __slots__ = ("_average", "_doubts", "is_slow")

    def __init__(self, assumed: float = 0.0) -> None:
        self._average = assumed
        self._doubts = 0
        self.is_slow = assumed > FAST

    def begin(self) -> Begun:
        """Return the start of a call, for `end`, which the same thread must call."""
        usage = resource.getrusage(_THREAD) if self._doubts and _THREAD is not None else None
        return perf_counter(), usage

    def end(self, begun: Begun) -> float:
        """Note the end of a call, and return its duration in seconds. A call below `FAST` seconds
        is added to the average as it is.

        A longer one may have waited for the processor. While there are doubts that is measured, and
        its CPU time is added, or its duration if it waited for something else. Without the
        measurement it is not added, but raises doubts for the next `DOUBTS` calls; one above `LONG`
        seconds is added in any case.
        """
        began, usage = begun
        elapsed = perf_counter() - began
        if elapsed < FAST:
            if self._doubts:
                self._doubts = max(0, self._doubts - 1)
            self.note(elapsed)
        elif usage is not None:
            spent = _spent(elapsed, usage)
            self._doubts = DOUBTS if spent > FAST else max(0, self._doubts - 1)
            self.note(spent)
        elif elapsed > LONG or _THREAD is None:
            self.note(elapsed)
        else:
            self._doubts = DOUBTS
        return elapsed

    def note(self, elapsed: float) -> None:
        """Add a duration in seconds to the average, and update `is_slow`. A duration between
        `STALL` and `LONG` counts as `STALL`.
        """
        if STALL < elapsed < LONG:
            elapsed = STALL
        average = self._average = self._average + (elapsed - self._average) * WEIGHT
        self.is_slow = average > (FAST if self.is_slow else SLOW)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Run `work`, and return its result and the seconds to `note` for it: its processor time, or
    its duration if it waited longer than `STALL` seconds.

    In a pool a short wait is one for the other threads, and must not keep a fast call from going
    back to the loop.
    """
    began, started = perf_counter(), thread_time()
    result = work()
    spent, waited = thread_time() - started, perf_counter() - began
    return result, waited if waited > STALL else spent


def _spent(elapsed: float, before: resource.struct_rusage) -> float:
    """Return the seconds to count for a call: `elapsed` if it waited for something, else its CPU
    time.
    """
    assert _THREAD is not None
    now = resource.getrusage(_THREAD)
    # A voluntary switch: it waited for a lock, a file or a socket, and would again.
    if now.ru_nvcsw != before.ru_nvcsw:
        return elapsed
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
