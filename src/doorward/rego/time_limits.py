"""Time limits of evaluations, and of other work on values in the same thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from doorward.base.cancellation import is_stopped
from doorward.rego.clock import CLOCK
from doorward.rego.errors import CANCEL_ERROR, INTERNAL_ERROR, EvalError
from doorward.rego.runtime.evaluation import Evaluation

__all__ = ["TooDeepError", "run_in_time", "within"]


def run_in_time(work: Callable[[Evaluation], Any], evaluation: Evaluation) -> Any:
    """Return `work(evaluation)`. Meanwhile long operations on values in this thread check the
    evaluation's deadline. TooDeepError if Python's stack is exhausted.
    """
    # Restored afterwards: an evaluation may run within another one of this thread.
    before = CLOCK.check_deadline
    CLOCK.check_deadline = evaluation.halt_if_late if evaluation.deadline is not None else None
    try:
        return work(evaluation)
    except RecursionError:
        raise TooDeepError from None
    finally:
        CLOCK.check_deadline = before


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Context with a time limit for work on values outside an evaluation, such as writing JSON:
    operations in it raise EvalError after `seconds`, or once the caller is gone. None removes the
    limit, even one that the thread has outside. The limit from before applies again at the end.
    """
    until = None if seconds is None else time.monotonic() + seconds

    def check() -> None:
        """Raise EvalError if the time is over or the caller is gone; never without a limit."""
        if until is not None and (time.monotonic() > until or is_stopped()):
            raise EvalError(CANCEL_ERROR, "caller cancelled query execution")

    before = CLOCK.check_deadline
    CLOCK.check_deadline = check
    try:
        yield
    finally:
        CLOCK.check_deadline = before


class TooDeepError(EvalError):
    """An evaluation needed more stack than Python has."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "evaluation nests too deeply")
