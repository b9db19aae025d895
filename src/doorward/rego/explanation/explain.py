"""Ask a query once more, traced, and show what happened: as text for people, as JSON for machines.

data.envoy.authz.allow is false, its default
  policy.rego:12: `http.method == "GET"` does not hold
    http.method: "POST"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from doorward.rego.builtins.registry import Registry
from doorward.rego.engine import Engine
from doorward.rego.errors import EvalError
from doorward.rego.explanation.recorder import Attempt, Recorder, Step, Tried
from doorward.rego.explanation.secrets import Mask, without_secrets
from doorward.rego.explanation.values import Failed, value_of, values_of
from doorward.rego.syntax.nodes import Every, Expr, Rule
from doorward.rego.values import UNDEFINED, to_python, to_rego

__all__ = ["Explanation", "explain"]

MAX_DEPTH: Final = 24
"""Rules that ask rules that ask rules: what is deeper is not shown."""

MAX_WIDTH: Final = 160
"""Characters of one value in text."""


def explain(
    engine: Engine,
    query: str,
    input: Any = UNDEFINED,
    *,
    now_ns: int | None = None,
    strict_builtin_errors: bool = False,
    deadline: float | None = None,
    mask: Mask | None = None,
) -> Explanation:
    """Why `query` has the answer it has. CompileError if it cannot be compiled.

    The engine need not be traced. `mask` is by default made of the input: what it names as a
    credential is not shown.
    """
    if not engine.traced:
        engine = replace(engine, traced=True)
    # Fresh answers: what is remembered of earlier evaluations would not be asked again.
    prepared = engine.with_data(engine.data).prepare(
        query, strict_builtin_errors=strict_builtin_errors, deadline=deadline
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
    return Explanation(query, recorder, engine.registry, mask or Mask(input), answer, error)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of a query and the rules that were asked for it."""

    query: str
    recorder: Recorder
    registry: Registry
    mask: Mask
    answer: Any = UNDEFINED
    error: EvalError | None = None

    def text(self, *, full: bool = False) -> str:
        """For people: the conditions that failed; `full` shows those that held as well."""
        lines: list[str] = []
        if self.error is not None:
            lines.append(f"{self.query} cannot be answered: {self.mask.text(str(self.error))}")
        for attempt in self.recorder.top:
            lines += self._attempt(attempt, 0, full=full)
        if not lines:
            lines.append(f"{self.query} is {self._shown(self.answer)}: no rule was asked for it")
        if not self.recorder.is_whole:
            lines.append("(what was asked later is left out: there was too much of it)")
        return "\n".join(lines)

    def notes(self) -> list[str]:
        """What the policy noted by `trace`, with its place."""
        return [
            f"{span}: note {self._shown(value_of(term, sample, self.registry))}"
            for span, sample, term in self.recorder.notes
        ]

    def to_document(self) -> dict[str, Any]:
        """For machines: JSON-ready, everything that was tried."""
        document: dict[str, Any] = {"query": self.query}
        if self.answer is not UNDEFINED:
            document["answer"] = to_python(self.mask.value(self.answer, self.query))
        if self.error is not None:
            document["error"] = self.mask.text(str(self.error))
        document["rules"] = [self._attempt_document(each) for each in self.recorder.top]
        document["complete"] = self.recorder.is_whole
        return document

    # Text

    def _attempt(self, attempt: Attempt, depth: int, *, full: bool) -> Iterator[str]:
        lead = "  " * depth
        operands = ", ".join([self._shown(each) for each in attempt.operands])
        name = f"{attempt.name}({operands})" if attempt.operands else attempt.name
        by_default = any(t.rule.default and t.held for t in attempt.tried.values())
        what = self._shown(attempt.answer, attempt.name)
        yield f"{lead}{name} is {what}{', its default' if by_default else ''}"
        if depth >= MAX_DEPTH:
            return
        for tried in attempt.tried.values():
            if not tried.rule.default:
                yield from self._tried(tried, depth + 1, full=full)

    def _tried(self, tried: Tried, depth: int, *, full: bool) -> Iterator[str]:
        lead = "  " * depth
        culprit = tried.culprit
        for step in tried.steps.values():
            if full and step is not culprit:
                yield f"{lead}{_place(step.expr)}: `{self._text(step.expr)}` holds"
                yield from self._below(step.attempts, depth + 1, full=True, every=True)
        if tried.held:
            yield f"{lead}{_place(tried.rule)}: `{self._head(tried.rule)}` holds"
            yield from self._below(tried.attempts, depth + 1, full=full, every=full)
        elif culprit is None:
            what = "is not meant for it" if tried.rule.head.args else "has no value"
            yield f"{lead}{_place(tried.rule)}: `{self._head(tried.rule)}` {what}"
        else:
            yield from self._culprit(culprit, depth, full=full)

    def _culprit(self, step: Step, depth: int, *, full: bool) -> Iterator[str]:
        lead = "  " * depth
        # Held, and the rule still did not: its head has no value, or its parameters do not fit.
        met = step.held and step.failure is None
        what = "holds, but the rule has no value" if met else "does not hold"
        if step.asked > 1 and not step.held:
            what = f"does not hold in any of {step.asked} rounds; in the first:"
        yield f"{lead}{_place(step.expr)}: `{self._text(step.expr)}` {what}"
        for label, value in self._values(step).items():
            if label == step.expr.span.text and (step.attempts or value is False):
                continue  # the answer of the rule below; or what "does not hold" says already
            yield f"{lead}  {self.mask.text(label)}: {self._shown(value, label)}"
        if isinstance(step.expr.term, Every):
            for inner in step.inner.values():
                if inner.failure is not None:
                    yield from self._culprit(inner, depth + 1, full=full)
                    break
        telling = [a for a in step.attempts if full or not _is_document(a.answer)]
        yield from self._below(telling, depth + 1, full=full, every=True)

    def _below(
        self, attempts: Sequence[Attempt], depth: int, *, full: bool, every: bool
    ) -> Iterator[str]:
        for attempt in attempts:
            if every or _is_refusal(attempt.answer):
                yield from self._attempt(attempt, depth, full=full)

    def _values(self, step: Step) -> dict[str, Any]:
        sample = step.failure or step.last
        return {} if sample is None else values_of(step.expr, sample, self.registry)

    def _shown(self, value: Any, label: str = "") -> str:
        if value is UNDEFINED:
            return "undefined"
        if isinstance(value, Failed):
            return f"undefined ({self.mask.text(value.reason)})"
        text = to_rego(self.mask.value(value, label))
        return text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 1] + "…"

    def _text(self, expr: Expr) -> str:
        return _one_line(self.mask.text(without_secrets(expr)))

    def _head(self, rule: Rule) -> str:
        return _one_line(self.mask.text(rule.head.span.text or rule.span.text))

    # JSON

    def _attempt_document(self, attempt: Attempt, depth: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = {"rule": attempt.name}
        if attempt.operands:
            document["operands"] = [to_python(self.mask.value(o)) for o in attempt.operands]
        if attempt.answer is not UNDEFINED:
            document["answer"] = to_python(self.mask.value(attempt.answer, attempt.name))
        if depth < MAX_DEPTH:
            document["definitions"] = [
                self._tried_document(tried, depth) for tried in attempt.tried.values()
            ]
        return document

    def _tried_document(self, tried: Tried, depth: int) -> dict[str, Any]:
        span = tried.rule.span
        document: dict[str, Any] = {
            "location": {"file": span.file, "row": span.row, "col": span.col},
            "default": tried.rule.default,
            "holds": bool(tried.held),
            "conditions": [self._step_document(each, depth) for each in tried.steps.values()],
        }
        if tried.attempts:
            document["rules"] = [self._attempt_document(a, depth + 1) for a in tried.attempts]
        return document

    def _step_document(self, step: Step, depth: int) -> dict[str, Any]:
        span = step.expr.span
        document: dict[str, Any] = {
            "location": {"file": span.file, "row": span.row, "col": span.col},
            "text": self._text(step.expr),
            "asked": step.asked,
            "held": step.held,
        }
        values = {
            self.mask.text(label): self._document_value(value, label)
            for label, value in self._values(step).items()
            if value is not UNDEFINED
        }
        if values:
            document["values"] = values
        if step.attempts:
            document["rules"] = [self._attempt_document(a, depth + 1) for a in step.attempts]
        return document

    def _document_value(self, value: Any, label: str) -> Any:
        if isinstance(value, Failed):
            return {"error": self.mask.text(value.reason)}
        return to_python(self.mask.value(value, label))


def _is_refusal(answer: Any) -> bool:
    """Whether somebody who asks "why not?" wants to know more of this answer."""
    if isinstance(answer, dict):
        return answer.get("allowed", answer.get("allow")) is False or not answer
    return answer is UNDEFINED or answer is False or answer == frozenset()


def _is_document(answer: Any) -> bool:
    """Whether an answer is something that was read from, and not a verdict."""
    return not _is_refusal(answer) and not isinstance(answer, (bool, frozenset))


def _place(node: Expr | Rule) -> str:
    return str(node.span)


def _one_line(text: str, limit: int = MAX_WIDTH) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
