"""Deadlines in processor time, so that evaluations do not time out because the machine is busy.

The deadline of an evaluation is a time of the clock. An evaluation that missed it without having
had the processor is repeated with a longer deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any, Final, TypeVar

from doorward.rego import EvalError, Query, from_python
from doorward.rego.shared import CANCEL_ERROR

__all__ = ["has_result", "patiently"]

LONGEST: Final = 600.0
"""Work that timed out with a deadline of at least this many seconds is not repeated."""
_Result = TypeVar("_Result")


def patiently(work: Callable[[float], _Result], seconds: float) -> _Result:
    """Return `work(deadline)`, with a deadline of `seconds` at first. If it times out and the
    process had the processor for less than half of `seconds`, the work is repeated from the start
    with four times the deadline, until the deadline has reached `LONGEST`. Every other EvalError is
    raised.
    """
    deadline = seconds
    while True:
        began = process_time()
        try:
            return work(deadline)
        except EvalError as error:
            is_late = error.diagnostics[0].code == CANCEL_ERROR
            had_processor = process_time() - began >= seconds / 2
            if not is_late or had_processor or deadline >= LONGEST:
                raise
            deadline *= 4


def has_result(query: Query, input: Any, seconds: float, *, now_ns: int | None = None) -> bool:
    """Return True if a query holds for an input (Python values) with some values of its variables,
    False if it is false or undefined. Raise EvalError if the evaluation fails or needs more than
    `seconds` of processor time, InputError for an input without a form in Rego.
    """
    document, count = from_python(input, "input"), len(query.variables)

    def decide(deadline: float) -> bool:
        """Return True if one row of the query's results holds before the deadline."""
        evaluation = query.evaluation(document, now_ns=now_ns, deadline=deadline)
        return any(
            all(value is not False for value in row[count:]) for row in query.rows_of(evaluation)
        )

    return patiently(decide, seconds)
