"""Waiting for a condition, and never for a time.

A limit is for what never comes, so it is far beyond what a busy machine needs. A test that expects
something to be over before that limit says nothing about how fast it was.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

__all__ = ["PATIENCE", "CrossedCount", "WatchedLock", "is_still", "pause", "wait_until"]

T = TypeVar("T")

PATIENCE: Final = 300.0
"""Seconds for what takes a moment on a machine that does nothing else."""

_PAUSE: Final = 0.02


def wait_until(
    condition: Callable[[], T], what: str | Callable[[], str] = "", *, within: float = PATIENCE
) -> T:
    """What `condition` returns as soon as that is true; AssertionError says `what` never was."""
    until = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < until, what() if callable(what) else what or "it never was"
        time.sleep(_PAUSE)


class WatchedLock:
    """A lock that says whether anybody has had to wait for it."""

    def __init__(self) -> None:
        self.was_taken = False
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.was_taken = True
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class CrossedCount(int):
    """A zero. While 1 is added to it, another thread does `act`, until it ends or waits for
    `lock`: a count that is changed without the lock loses what `act` adds."""

    def __new__(cls, _act: Callable[[], object], _lock: WatchedLock) -> CrossedCount:
        return super().__new__(cls, 0)

    def __init__(self, act: Callable[[], object], lock: WatchedLock) -> None:
        self.thread = threading.Thread(target=act)
        self._lock = lock

    def __add__(self, other: int) -> int:
        if self.thread.ident is None:
            self.thread.start()
            wait_until(lambda: self._lock.was_taken or not self.thread.is_alive())
        return int(self) + other


def pause(pid: int) -> None:
    """Stop a process: none of its threads runs any more when this returns, as after `kill` they may
    for a moment. A process that another one ends meanwhile runs no more either."""
    assert pid > 0, "0, which nobody is, would be everybody here"
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(is_still(thread) for thread in Path("/proc").glob(f"{pid}/task/*")))


def is_still(thread: Path) -> bool:
    """Return whether a thread, as its folder under /proc, is stopped or has ended."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    except OSError:
        return not thread.exists()
