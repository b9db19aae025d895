"""A clock that a test sets: pauses of seconds or hours take no time, and end exactly when due.

    clock = VirtualClock(threads=1)
    watcher = Watcher(..., clock=clock)      # its thread pauses with `clock.wait`
    watcher.start()
    clock.advance(30.0)                      # every pause that ends meanwhile ends at its own time

The clock starts at 0. `advance` goes from one due time to the next; at each of them the threads
whose pauses end run until they pause again. So what they do at which time does not depend on the
machine. The thread that made the clock is the one that sets it: if code under test pauses in that
thread, its pause advances the time.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Final

from tests.waiting import PATIENCE

from doorward.base.records import record

__all__ = ["VirtualClock"]

_POLL: Final = 0.002
"""Seconds between two looks of a pausing thread at its event, which does not know this clock."""


@record
class _Pause:
    event: threading.Event
    until: float


class VirtualClock:
    """A `Clock` whose time passes only in `advance`. `threads` is the number of threads that will
    pause with it: the time does not begin to pass before they do.
    """

    def __init__(self, *, threads: int = 0) -> None:
        self._expected = threads
        self._owner = threading.current_thread()
        self._now = 0.0
        self._changed = threading.Condition()
        self._pauses: dict[threading.Thread, _Pause | None] = {}
        """The pause of each thread that ever paused; None while it runs."""

    def now(self) -> float:
        return self._now

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Pause this thread; as `Clock.wait`."""
        until = math.inf if seconds is None else self._now + max(seconds, 0.0)
        if threading.current_thread() is self._owner:
            self._pass(until, event)
        else:
            self._pause(_Pause(event, until))
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass. Returns when all threads pause again or have ended; AssertionError
        if one does not within `PATIENCE`.
        """
        self._pass(self._now + seconds)

    def settle(self) -> None:
        """Let no time pass; return when all threads pause, as `advance`."""
        self.advance(0.0)

    def _pause(self, pause: _Pause) -> None:
        thread = threading.current_thread()
        with self._changed:
            self._pauses[thread] = pause
            self._changed.notify_all()
            while not self._is_over(pause):
                self._changed.wait(_POLL)
            self._pauses[thread] = None

    def _pass(self, end: float, event: threading.Event | None = None) -> None:
        """Let the time pass until `end` or until `event` is set."""
        with self._changed:
            self._await_pauses()
            while event is None or not event.is_set():
                due = min((each.until for each in self._pauses.values() if each), default=math.inf)
                assert min(due, end) < math.inf, "nothing that is due would end this pause"
                # Not backwards: a thread that ran meanwhile may have advanced the time itself.
                self._now = max(self._now, min(due, end))
                self._changed.notify_all()
                self._await_pauses()
                if due > end:
                    return

    def _await_pauses(self) -> None:
        limit = time.monotonic() + PATIENCE
        while busy := self._busy():
            if time.monotonic() >= limit:
                raise AssertionError(f"{busy} did not pause")
            self._changed.wait(_POLL)

    def _busy(self) -> list[str]:
        """The threads, other than this one, that neither pause nor have ended."""
        busy = [
            thread.name
            for thread, pause in self._pauses.items()
            if (pause is None or self._is_over(pause))
            and thread.is_alive()
            and thread is not threading.current_thread()
        ]
        return busy + ["a thread"] * (self._expected - len(self._pauses))

    def _is_over(self, pause: _Pause) -> bool:
        return pause.event.is_set() or self._now >= pause.until
