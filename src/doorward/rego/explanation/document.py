"""A recording as JSON for machines: every rule, definition and condition that was tried."""

from __future__ import annotations

from typing import Any

from doorward.rego.errors import EvalError
from doorward.rego.explanation.record import MAX_DEPTH, Record, is_cut
from doorward.rego.explanation.recorder import Attempt, Step, Tried
from doorward.rego.explanation.values import Failed
from doorward.rego.source import Span
from doorward.rego.values import UNDEFINED, to_python

__all__ = ["to_document"]


def to_document(record: Record, answer: Any, error: EvalError | None) -> dict[str, Any]:
    """Return the explanation as a document for JSON, with secrets masked. The key `answer` is
    missing if the answer is undefined, `error` if there was none. `complete` is False if anything
    is missing: the recording reached its limit, or rules nested deeper than `MAX_DEPTH` have no
    definitions here.
    """
    document: dict[str, Any] = {"query": record.query}
    if answer is not UNDEFINED:
        document["answer"] = to_python(record.mask.value(answer, record.query))
    if error is not None:
        document["error"] = record.mask.text(str(error))
    document["rules"] = [_attempt(record, each, 0) for each in record.recorder.top]
    document["complete"] = record.recorder.is_whole and not is_cut(record.recorder.top)
    return document


def _attempt(record: Record, attempt: Attempt, depth: int) -> dict[str, Any]:
    """Return the JSON document of a rule that was evaluated: its name, operands and answer (left
    out if undefined), secrets masked, and its definitions unless `depth` is `MAX_DEPTH`.
    """
    document: dict[str, Any] = {"rule": attempt.name}
    if attempt.operands:
        masked_operands = map(record.mask.value, attempt.operands, record.parameters(attempt))
        document["operands"] = list(map(to_python, masked_operands))
    if attempt.answer is not UNDEFINED:
        document["answer"] = to_python(record.mask.value(attempt.answer, attempt.name))
    if depth < MAX_DEPTH:
        document["definitions"] = [
            _attempt_document(record, t, depth) for t in attempt.tried.values()
        ]
    return document


def _attempt_document(record: Record, tried: Tried, depth: int) -> dict[str, Any]:
    """Return the JSON document of one definition: its place, whether it is a default and holds, its
    conditions, and the rules that its head read. `depth` is that of its nesting.
    """
    document: dict[str, Any] = {
        "location": _location(tried.rule.span),
        "default": tried.rule.default,
        "holds": bool(tried.succeeded),
        "conditions": [_step(record, each, depth) for each in tried.steps.values()],
    }
    if tried.attempts:
        document["rules"] = [_attempt(record, each, depth + 1) for each in tried.attempts]
    return document


def _step(record: Record, step: Step, depth: int) -> dict[str, Any]:
    """Return the JSON document of one condition: its place and text, how often it was evaluated and
    succeeded, the values of its parts that have one, secrets masked, and the rules that it read.
    `depth` is that of its nesting, which is limited.
    """
    document: dict[str, Any] = {
        "location": _location(step.expr.span),
        "text": record.expr_text(step.expr),
        "evaluated": step.evaluated,
        "succeeded": step.succeeded,
    }
    values = {
        record.mask.text(label): _value(record, value, label)
        for label, value in record.values(step).items()
        if value is not UNDEFINED
    }
    if values:
        document["values"] = values
    if step.attempts:
        document["rules"] = [_attempt(record, each, depth + 1) for each in step.attempts]
    return document


def _value(record: Record, value: Any, label: str) -> Any:
    """Return a value for JSON, credentials masked; an error as an object."""
    if isinstance(value, Failed):
        return {"error": record.mask.text(value.reason)}
    return to_python(record.mask.value(value, label))


def _location(span: Span) -> dict[str, Any]:
    return {"file": span.file, "row": span.row, "col": span.col}
