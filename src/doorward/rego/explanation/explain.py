"""Ask a query once more, traced, and keep what happened, to be shown as text or as JSON.

data.envoy.authz.allow is false, its default
  policy.rego:12: `http.method == "GET"` does not hold
    http.method: "POST"
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.builtins.registry import Registry
from doorward.rego.engine import Engine
from doorward.rego.errors import EvalError
from doorward.rego.explanation.document import to_document
from doorward.rego.explanation.record import Record
from doorward.rego.explanation.recorder import Recorder
from doorward.rego.explanation.secrets import Mask
from doorward.rego.explanation.text import to_text
from doorward.rego.time_limits import within
from doorward.rego.values import UNDEFINED

__all__ = ["Explanation", "explain"]

_LATE: Final = "the values take too long to be shown"


@record
class Explanation:
    """The answer of a query, and the rules that were evaluated for it."""

    query: str
    recorder: Recorder
    registry: Registry
    mask: Mask
    answer: Any = UNDEFINED
    error: EvalError | None = None
    deadline: float | None = None
    """The most seconds that formatting the explanation may take; None for no limit. Values that
    share parts can be exponentially longer as text.
    """

    @property
    def record(self) -> Record:
        """The record of the evaluation, with values that may be shown."""
        return Record(self.query, self.recorder, self.registry, self.mask)

    def text(self, *, full: bool = False) -> str:
        """Return the explanation as text: the conditions that failed, with `full` also those that
        held. If formatting exceeds `deadline` seconds, one line that says so.
        """
        try:
            with within(self.deadline):
                return to_text(self.record, self.answer, self.error, full=full)
        except EvalError:
            return f"{self.query}: {_LATE}\n"

    def notes(self) -> list[str]:
        """Return the notes of `trace`, each with its position."""
        return self.record.notes()

    def to_document(self) -> dict[str, Any]:
        """Return everything that was tried as a document for JSON. If this exceeds `deadline`
        seconds, a document without rules and with the error.
        """
        try:
            with within(self.deadline):
                return to_document(self.record, self.answer, self.error)
        except EvalError:
            return {"query": self.query, "error": _LATE, "rules": [], "complete": False}


def explain(
    engine: Engine,
    query: str,
    input: Any = UNDEFINED,
    *,
    now_ns: int | None = None,
    strict_builtin_errors: bool = False,
    deadline: float | None = None,
    mask: Mask | None = None,
    package: str = "",
    imports: Iterable[str] = (),
) -> Explanation:
    """Evaluate `query` again with tracing and return the explanation of its answer: the value of
    its last expression in the first row, UNDEFINED without rows. An error of the evaluation is not
    raised but stored in `Explanation.error`. CompileError if the query cannot be compiled,
    ParseError for an invalid `package` or import.

    The engine need not be traced. `input` must be parsed JSON or a result of `from_python`.
    `deadline`: seconds for the evaluation, and again for formatting. `mask` hides credentials; by
    default it is built from input and data. `package` and `imports` are visible to the query as in
    a module.
    """
    # Bound again: what is remembered of earlier evaluations would not be asked again.
    engine = engine.policies.traced().bind(engine.data)
    prepared = engine.prepare(
        query,
        strict_builtin_errors=strict_builtin_errors,
        deadline=deadline,
        package=package,
        imports=imports,
    )
    evaluation = prepared.evaluation(input, now_ns=now_ns)
    evaluation.tracer = recorder = Recorder()
    answer: Any = UNDEFINED
    error: EvalError | None = None
    try:
        rows = prepared.rows_of(evaluation)
        if rows:
            answer = rows[0][-1]
    except EvalError as raised:
        error = raised
    return Explanation(
        query,
        recorder,
        engine.registry,
        mask or Mask(input, engine.data),
        answer,
        error,
        deadline,
    )
