"""The record of an evaluation, as it may be shown: values and texts with their secrets masked, one
line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.tree import path_text
from doorward.rego.builtins.registry import Registry
from doorward.rego.explanation.recorder import Attempt, Recorder, Step
from doorward.rego.explanation.secrets import (
    Mask,
    head_without_secrets,
    names_secret,
    without_secrets,
)
from doorward.rego.explanation.values import Failed, value_of, values_of
from doorward.rego.syntax.nodes import Expr, Ref, Rule, Scalar, Var
from doorward.rego.syntax.walk import walk
from doorward.rego.values import UNDEFINED, Key, to_key, to_rego

__all__ = ["MAX_DEPTH", "Record", "is_cut"]

MAX_DEPTH: Final = 24
"""The most nested rules that an explanation shows; deeper ones are left out."""

MAX_WIDTH: Final = 160
"""The most characters of one value in text."""


@record
class Record:
    """The recorded evaluation of one query, and what must be hidden in it."""

    query: str
    recorder: Recorder
    registry: Registry
    mask: Mask

    def value_text(self, value: Any, label: str = "") -> str:
        """Return a value as Rego text of at most `MAX_WIDTH` characters, credentials masked;
        "undefined" for UNDEFINED, "undefined (reason)" for a failed call. `label` is the name or
        reference of the value, which may show that it is secret.
        """
        if value is UNDEFINED:
            return "undefined"
        if isinstance(value, Failed):
            return f"undefined ({self.mask.text(value.reason)})"
        return _cut(to_rego(self.mask.value(value, label)))

    def expr_text(self, expr: Expr) -> str:
        """Return an expression as written in the policy, on one line of at most `MAX_WIDTH`
        characters, credentials masked.
        """
        return _one_line(self.mask.text(without_secrets(expr)))

    def head_text(self, rule: Rule) -> str:
        """Return the head of a rule as written, on one line of at most `MAX_WIDTH` characters,
        credentials masked.
        """
        return _one_line(self.mask.text(head_without_secrets(rule)))

    def parameters(self, attempt: Attempt) -> list[str]:
        """Return a label for each operand of a function call: the name of its parameter if that is
        a credential's name, such as `password`, in one of the function's definitions; otherwise "".
        """
        labels = [""] * len(attempt.operands)
        for tried in attempt.tried.values():
            for number, arg in enumerate(tried.rule.head.args or ()):
                if isinstance(arg, Var) and names_secret([source_name(arg.name)]):
                    labels[number] = source_name(arg.name)
        return labels

    def values(self, step: Step) -> dict[str, Any]:
        """Return the parts of an expression with their values at its first failure, or at its last
        evaluation if it never failed; {} if it was not recorded.
        """
        sample = step.failure or step.last
        return {} if sample is None else values_of(step.expr, sample, self.registry)

    def notes(self) -> list[str]:
        """Return the messages of `trace` in the order of the calls, each with its position, secrets
        masked.
        """
        return [
            f"{span}: note {self.value_text(value_of(term, sample, self.registry))}"
            for span, sample, term in self.recorder.notes
        ]

    def attempts_of(self, step: Step) -> list[Attempt]:
        """Return the rules that an expression read. If none were evaluated for it, these are the
        rules evaluated earlier whose cached answers it read, as far as its references are constant;
        [] then under `with`.
        """
        sample = step.failure or step.last
        # Under `with` the evaluation is another one, whose cached answers are not recorded here.
        if step.attempts or sample is None or step.expr.withs:
            return step.attempts
        attempts: dict[int, Attempt] = {}
        for node in walk(step.expr):
            if isinstance(node, Ref) and isinstance(node.head, Var) and node.head.name == "data":
                for name in _rule_names(node):
                    # From the shortest path on: a rule nearer to the root makes the documents below
                    # it.
                    attempt = self.recorder.first_attempt(sample.evaluation, name)
                    if attempt is not None:
                        attempts[id(attempt)] = attempt
                        break
        return list(attempts.values())


def is_cut(attempts: Sequence[Attempt], depth: int = 0) -> bool:
    """Return True if a rule below `attempts` is nested so deep that its definitions are not shown;
    `depth` is that of `attempts`.
    """
    definitions = [tried for attempt in attempts for tried in attempt.tried.values()]
    if depth >= MAX_DEPTH:
        return bool(definitions)
    below = [step.attempts for tried in definitions for step in tried.steps.values()]
    below += [tried.attempts for tried in definitions]
    return any(is_cut(each, depth + 1) for each in below)


def _rule_names(ref: Ref) -> Iterator[str]:
    """Yield the paths of rules that a reference below `data` may read: its constant operands up to
    the first variable one, the shortest path first.
    """
    path: list[Key] = []
    for arg in ref.args:
        if not isinstance(arg, Scalar):
            return
        path.append(to_key(arg.value))
        yield path_text(path)


def _one_line(text: str) -> str:
    return _cut(" ".join(text.split()))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 1] + "…"
