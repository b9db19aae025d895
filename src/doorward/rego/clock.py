"""The deadline of work on values: comparing, hashing, sorting and printing what nests.

A policy can make a value that shares its parts, of 2**n items in n steps; to go through it takes
as long. That happens far below anything that knows of an evaluation, so the evaluation of a thread
leaves the check of its deadline here while it works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import cycle
from typing import Final

__all__ = ["CLOCK", "count_step"]

_STEPS: Final = 256
"""The number of collections processed between two checks of the deadline."""


class _Clock(threading.local):
    """The deadline check of each thread."""

    check_deadline: Callable[[], object] | None = None
    """Raises the error that ends an evaluation past its deadline; None if there is no deadline."""


CLOCK: Final = _Clock()

# Shared by all threads: which of them checks now and then does not matter.
_is_due: Final = cycle([False] * (_STEPS - 1) + [True]).__next__


def count_step() -> None:
    """Count a step of work on values, one for each collection that is traversed. Every 256th step
    of all threads together checks the deadline of the thread that takes it, if that has one:
    EvalError if it has passed.
    """
    if _is_due() and CLOCK.check_deadline is not None:
        CLOCK.check_deadline()
