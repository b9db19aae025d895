"""Time that is passed in: what is due, and waiting for it.

    clock.now() + seconds ──▶ due ──▶ clock.wait(event, due - clock.now()) ──▶ set, or time passed

Classes whose threads pause take `clock: Clock`, with the system's clock as default; a test passes
one that it sets (`tests/clock.py`). Code that only reads the time takes a function, `clock:
Callable[[], float] = monotonic`. Waits for descriptors, threads and processes are not waits of a
clock: they end by what the kernel reports, which no other clock can drive.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Final, Protocol

__all__ = ["SYSTEM_CLOCK", "Clock"]


class Clock(Protocol):
    """The present time, and pauses that an event can end; safe in any number of threads."""

    def now(self) -> float:
        """Return the time in monotonic seconds."""

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Wait until `event` is set, at most `seconds` seconds, or without a limit for None; return
        True if it is set.
        """


class _SystemClock:
    """The monotonic clock of the system, with the event's own `wait`."""

    now = staticmethod(monotonic)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        return event.wait(seconds)


SYSTEM_CLOCK: Final[Clock] = _SystemClock()
"""The clock of everything to which no other one is passed."""
