"""A recording as text for people: who failed where, and with which values, as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from doorward.base.counting import counted
from doorward.rego.errors import EvalError
from doorward.rego.explanation.record import MAX_DEPTH, Record
from doorward.rego.explanation.recorder import Attempt, Step, Tried
from doorward.rego.explanation.secrets import without_secrets
from doorward.rego.syntax.nodes import Call, Every
from doorward.rego.values import UNDEFINED

__all__ = ["is_refusal", "to_text"]

MAX_TRIED: Final = 8
"""The most definitions of one rule that are shown without `full`."""


def to_text(record: Record, answer: Any, error: EvalError | None, *, full: bool) -> str:
    """Return the explanation as text, one line each for a rule, definition or condition, indented
    by depth: the conditions that failed, with `full` also those that held.
    """
    lines: list[str] = []
    if error is not None:
        lines.append(f"{record.query} cannot be answered: {record.mask.text(str(error))}")
    tree = _Tree(record, full=full)
    for attempt in record.recorder.top:
        lines += tree.attempt(attempt, 0)
    if not lines:
        lines.append(f"{record.query} is {record.value_text(answer)}: no rule was evaluated for it")
    if not record.recorder.is_whole:
        lines.append("(later evaluations are left out: the limit of the recording was reached)")
    return "\n".join(lines)


class _Tree:
    """Writes an explanation as text, each attempt once."""

    def __init__(self, record: Record, *, full: bool) -> None:
        self.record = record
        self.full = full
        self.seen: set[int] = set()

    def attempt(self, attempt: Attempt, depth: int) -> Iterator[str]:
        """Yield the lines for a rule that was evaluated, and for its definitions without the
        default: without `full`, of many only those that held or got furthest. Only the answer is
        shown if the rule was shown before or is nested `MAX_DEPTH` deep; a line says so.
        """
        lead = "  " * depth
        again = id(attempt) in self.seen
        self.seen.add(id(attempt))
        yield f"{lead}{self._answer(attempt)}{': see above' if again else ''}"
        if depth >= MAX_DEPTH and attempt.tried and not again:
            yield f"{lead}  (nested too deep: its definitions are not shown)"
        if depth >= MAX_DEPTH or again:
            return
        definitions = [tried for tried in attempt.tried.values() if not tried.rule.default]
        visible = definitions if self.full else _definitions_to_show(definitions)
        for tried in visible:
            yield from self._attempt_lines(tried, depth + 1)
        if len(visible) < len(definitions):
            left = len(definitions) - len(visible)
            yield f"{lead}  ({counted(left, 'further definition')} not shown)"

    def _answer(self, attempt: Attempt) -> str:
        """Return `name(operands) is answer`, without the parentheses if there are no operands, and
        with `, its default` behind it if a default gave the answer.
        """
        labels = self.record.parameters(attempt)
        operands = ", ".join(map(self.record.value_text, attempt.operands, labels))
        name = f"{attempt.name}({operands})" if attempt.operands else attempt.name
        by_default = any(t.rule.default and t.succeeded for t in attempt.tried.values())
        value = self.record.value_text(attempt.answer, attempt.name)
        return f"{name} is {value}{', its default' if by_default else ''}"

    def _attempt_lines(self, tried: Tried, depth: int) -> Iterator[str]:
        """Yield the lines for one definition. The last ones say that it holds, or that it has no
        value (of a function: does not match the operands), or show the condition that failed. With
        `full`, the conditions that held come first.
        """
        lead = "  " * depth
        culprit = tried.culprit
        if self.full:
            yield from self._steps_that_hold(
                [s for s in tried.steps.values() if s is not culprit], depth
            )
        head = f"{lead}{tried.rule.span}: `{self.record.head_text(tried.rule)}`"
        if tried.succeeded:
            yield f"{head} holds"
            yield from self._below(tried.attempts, depth + 1, every=self.full)
        elif culprit is None:
            is_function = bool(tried.rule.head.args)
            yield f"{head} {'does not match the operands' if is_function else 'has no value'}"
        else:
            yield from self._culprit(culprit, depth)

    def _steps_that_hold(self, steps: Sequence[Step], depth: int) -> Iterator[str]:
        """Yield a line for each of the conditions `steps`, which held, indented by `depth`, and
        below it the lines of all rules that it read.
        """
        for step in steps:
            yield f"{'  ' * depth}{step.expr.span}: `{self.record.expr_text(step.expr)}` holds"
            yield from self._below(step.attempts, depth + 1, every=True)

    def _culprit(self, step: Step, depth: int) -> Iterator[str]:
        """Yield the lines for a condition that failed, indented by `depth`: the condition, the
        values of its terms (secrets masked), for an `every` the first inner condition that failed,
        and below them the rules that it read. A value that a line of such a rule already tells is
        left out. Unless `full`, rules that answered with a whole document are left out too.
        """
        lead = "  " * depth
        text = self.record.expr_text(step.expr)
        yield f"{lead}{step.expr.span}: `{text}` {_verdict(step)}"
        attempts = self.record.attempts_of(step)
        answered = {attempt.name.rpartition(".")[2] for attempt in attempts}
        for label, value in self.record.values(step).items():
            if label == without_secrets(step.expr) and (attempts or _is_refused(step, value)):
                continue  # the answer of the rule below; or what "does not hold" says already
            if value is UNDEFINED and label in answered:
                continue
            yield f"{lead}  {self.record.mask.text(label)}: {self.record.value_text(value, label)}"
        if isinstance(step.expr.term, Every):
            for inner in step.inner.values():
                if inner.failure is not None:
                    yield from self._culprit(inner, depth + 1)
                    break
        telling = [a for a in attempts if self.full or not _is_document(a.answer)]
        yield from self._below(telling, depth + 1, every=True)

    def _below(self, attempts: Sequence[Attempt], depth: int, *, every: bool) -> Iterator[str]:
        """Yield the lines for the evaluated rules `attempts`: for all with `every`, otherwise only
        for those whose answer is a refusal.
        """
        for attempt in attempts:
            if every or is_refusal(attempt.answer):
                yield from self.attempt(attempt, depth)


def _verdict(step: Step) -> str:
    """Return a phrase about a condition at which a definition ended: "does not hold", or if it
    holds, that the value of the rule is undefined.
    """
    if step.succeeded and step.failure is None:
        # Its head has no value, or its parameters do not fit.
        return "holds, but the value of the rule is undefined"
    if step.evaluated > 1 and not step.succeeded:
        return f"does not hold in any of {step.evaluated} rounds; in the first:"
    return "does not hold"


def _definitions_to_show(tried: Sequence[Tried]) -> Sequence[Tried]:
    """Return the definitions to show, in the order of the policy: all, or of more than `MAX_TRIED`
    those that held or got furthest.
    """
    if len(tried) <= MAX_TRIED:
        return tried
    best = sorted(tried, key=lambda each: (not each.succeeded, -len(each.steps)))[:MAX_TRIED]
    return [each for each in tried if any(each is chosen for chosen in best)]


def _is_refused(step: Step, value: Any) -> bool:
    return value is False and isinstance(step.expr.term, Call)


def is_refusal(answer: Any) -> bool:
    """Return True if an answer refuses: undefined, false, an empty set or object, or an object
    whose `allowed` is false, or without `allowed` whose `allow` is.
    """
    if isinstance(answer, dict):
        return answer.get("allowed", answer.get("allow")) is False or not answer
    return answer is UNDEFINED or answer is False or answer == frozenset()


def _is_document(answer: Any) -> bool:
    """Return True if an answer is defined, and is not a boolean, a set, an empty object, or an
    object that refuses: one whose `allowed` or, if it has none, `allow` is false.
    """
    return not is_refusal(answer) and not isinstance(answer, (bool, frozenset))
