"""Waiting for a condition, and never for a time.

A limit is for what never comes, so it is far beyond what a busy machine needs. A test that expects
something to be over before that limit says nothing about how fast it was.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

__all__ = ["PATIENCE", "is_still", "pause", "wait_until"]

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
