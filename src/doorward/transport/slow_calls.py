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
"""Seconds from which on calls are slow."""
FAST: Final = 0.0005
"""Seconds below which they are fast again: two thresholds, so that they do not alternate."""
WEIGHT: Final = 1 / 16
"""Weight of the newest call in the average."""
STALL: Final = 0.008
LONG: Final = 0.1
"""Seconds of a call that count at most, unless it took longer than `LONG`: where the system gives
the processor to another process, a fast call looks slow."""
DOUBTS: Final = 16
"""Calls that are measured in full after one that took long."""

_THREAD: Final[int | None] = getattr(resource, "RUSAGE_THREAD", None)
"""What of a thread was used; None where the system does not say that."""

T = TypeVar("T")

Begun: TypeAlias = tuple[float, resource.struct_rusage | None]
"""When a call began, and what its thread had used, where that is measured."""


class History:
    """The durations of the calls of one kind. `assumed`: the duration before any was measured."""

    __slots__ = ("_average", "_doubts", "is_slow")

    def __init__(self, assumed: float = 0.0) -> None:
        self._average = assumed
        self._doubts = 0
        self.is_slow = assumed > FAST

    def begin(self) -> Begun:
        """For `end`, which the same thread calls."""
        usage = resource.getrusage(_THREAD) if self._doubts and _THREAD is not None else None
        return perf_counter(), usage

    def end(self, begun: Begun) -> float:
        """Note the call that began then; the seconds that passed."""
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
        """Note a call that took so many seconds by all that is known."""
        if STALL < elapsed < LONG:
            elapsed = STALL
        average = self._average = self._average + (elapsed - self._average) * WEIGHT
        self.is_slow = average > (FAST if self.is_slow else SLOW)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result of a call in one of several threads, and the seconds to `note`.

    So that what becomes fast returns to the loop, they are the processor's: a short wait is for
    the other threads. Who waited for more than that waited for something else.
    """
    began, started = perf_counter(), thread_time()
    result = work()
    spent, waited = thread_time() - started, perf_counter() - began
    return result, waited if waited > STALL else spent


def _spent(elapsed: float, before: resource.struct_rusage) -> float:
    """The seconds for which a call kept its thread: all of them, if it waited for something."""
    assert _THREAD is not None
    now = resource.getrusage(_THREAD)
    if now.ru_nvcsw != before.ru_nvcsw:
        return elapsed
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
