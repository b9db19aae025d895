"""Waiting for a condition, and never for a time.

A limit is for what never comes, so it is far beyond what a busy machine needs. A test that expects
something to be over before that limit says nothing about how fast it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["PATIENCE", "wait_until"]

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
