"""Reports of traced code become a tree: rules asked, definitions tried, conditions met or not.

    Attempt   the rules at one place were asked, and answered
    Tried     one definition of them, and how often it held
    Step      one expression of its body: how often it was asked and held, and one failure

However long an evaluation runs, only so many nodes are kept; what came later is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from doorward.base.records import mutable, record
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Call, Expr, Rule, Term
from doorward.rego.values import UNDEFINED

__all__ = ["Attempt", "Recorder", "Sample", "Step", "Tried"]

MAX_NODES: Final = 20_000
"""The most attempts and steps recorded of one evaluation, and the most definitions."""


@record
class Sample:
    """The variables and the context with which an expression was evaluated, from which its values
    can be computed.
    """

    evaluation: Evaluation
    bound: Mapping[str, Any]


@mutable
class Step:
    """The evaluations of one expression. `failure` is the state at its first failure; `inner` are
    the steps in its own bodies (of `every`, of comprehensions); `attempts` are the rules that it
    used.
    """

    expr: Expr
    evaluated: int = 0
    succeeded: int = 0
    failure: Sample | None = None
    last: Sample | None = None
    inner: dict[int, Step] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    _pending: Sample | None = None

    def begin(self, sample: Sample) -> None:
        """Record that the expression is about to be evaluated; an evaluation of it that is still
        open did not hold.
        """
        self.close()
        self.evaluated += 1
        self.last = self._pending = sample

    def succeed(self, sample: Sample) -> None:
        """Record that the evaluation begun last held; `sample` is the state after it."""
        self.succeeded += 1
        self.last = sample
        self._pending = None

    def close(self) -> None:
        """Record that the last evaluation of the expression, and of each expression inside it, did
        not hold, unless it did.
        """
        if self._pending is not None and self.failure is None:
            self.failure = self._pending
        self._pending = None
        for step in self.inner.values():
            step.close()


@mutable
class Tried:
    """The evaluation of one definition. `attempts` are the rules that its head used."""

    rule: Rule
    succeeded: int = 0
    steps: dict[int, Step] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    open: Step | None = None
    """The expression of the body that was evaluated last; None before the first."""

    def close(self) -> None:
        """Record that the expressions whose last evaluation is open did not hold."""
        for step in self.steps.values():
            step.close()

    @property
    def culprit(self) -> Step | None:
        """The expression of the body that was first evaluated last, at which this definition
        failed; None if it held at least once or no expression was evaluated.
        """
        if self.succeeded:
            return None
        reached = list(self.steps.values())
        return reached[-1] if reached else None


@mutable
class Attempt:
    """The evaluation of the rules at `name`, or of a function with `operands`, and its answer."""

    name: str
    operands: tuple[Any, ...] = ()
    answer: Any = UNDEFINED
    tried: dict[int, Tried] = field(default_factory=dict)
    current: Tried | None = None
    is_recorded: bool = True
    """False if the limit was reached before; it is then dropped when it has its answer."""


class Recorder:
    """A tracer that records an evaluation as a tree of at most `limit` attempts and steps, and as
    many definitions. `top` has the rules that the query itself read; `is_whole` is False if
    anything was left out.
    """

    def __init__(self, limit: int = MAX_NODES) -> None:
        self.top: list[Attempt] = []
        self.is_whole = True
        self._nodes_left = limit
        # Apart, so that the definitions that answered are recorded also after a long loop.
        self._definitions_left = limit
        self.notes: list[tuple[Span, Sample, Term]] = []
        """Calls of `trace`: the expression, the state, and the term to be shown."""
        self._answered: dict[tuple[Evaluation, str], Attempt] = {}
        self._stack: list[Attempt] = []

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        """Record that the rules `name`, or a function with `operands`, are about to be evaluated,
        below the expression that reads them. Beyond the limit the record is dropped at `leave`.
        """
        attempt = Attempt(name, operands, is_recorded=self._take_node())
        if attempt.is_recorded:
            self._place().append(attempt)
            if not operands:
                self._answered.setdefault((evaluation, name), attempt)
        self._stack.append(attempt)

    def first_attempt(self, evaluation: Evaluation, name: str) -> Attempt | None:
        """Return the first recorded attempt at the rules at `name` in `evaluation`, which caches
        their answer. None if there is none, and always for functions.
        """
        return self._answered.get((evaluation, name))

    def leave(self, name: str, answer: Any) -> None:
        """Record the answer of the rules that were entered last; what is open in them did not
        hold.
        """
        attempt = self._stack.pop()
        attempt.answer = answer
        for tried in attempt.tried.values():
            tried.close()

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """Record that a definition or expression is about to be evaluated, or with `holds` that it
        holds. Nothing is recorded for expressions of the query itself or of the test runner; beyond
        the limit, only definitions are.
        """
        if not self._stack:
            return
        attempt = self._stack[-1]
        if isinstance(node, Rule):
            tried = self._definition(attempt, node)
            tried.succeeded += holds
            attempt.current = tried
            # A definition begins: no expression of it was evaluated yet.
            if not holds:
                tried.open = None
        elif attempt.current is not None and attempt.is_recorded and not _is_case(node):
            self._expression(attempt.current, node, Sample(evaluation, bound), holds=holds)

    def _definition(self, attempt: Attempt, rule: Rule) -> Tried:
        """Return the evaluation of a definition, a new one if it was not recorded before. The new
        one is not stored if `attempt` is not recorded, or if no more definitions may be: then
        `is_whole` becomes False.
        """
        tried = attempt.tried.get(id(rule))
        if tried is not None:
            return tried
        tried = Tried(rule)
        if not attempt.is_recorded:
            return tried
        if self._definitions_left <= 0:
            self.is_whole = False
            return tried
        self._definitions_left -= 1
        attempt.tried[id(rule)] = tried
        return tried

    def _take_node(self) -> bool:
        """Count one more attempt, step or note and return True if it may be recorded. At the limit
        return False, so that it is left out, and set `is_whole` to False.
        """
        if self._nodes_left <= 0:
            self.is_whole = False
            return False
        self._nodes_left -= 1
        return True

    def _expression(self, tried: Tried, expr: Expr, sample: Sample, *, holds: bool) -> None:
        """Record in `tried`, a definition being evaluated, that an expression of it begins, or with
        `holds` that it has a solution; for a call of `trace` that holds, also the message. An
        expression that is not in its body is recorded under the open one, such as an `every`.
        Beyond the limit of nodes, new expressions and messages are left out.
        """
        is_member = any(expr is each for each in tried.rule.body)
        steps = tried.steps if is_member or tried.open is None else tried.open.inner
        step = steps.get(id(expr))
        if step is None:
            if not self._take_node():
                return
            step = steps[id(expr)] = Step(expr)
        if holds:
            step.succeed(sample)
            call = expr.term
            if isinstance(call, Call) and call.name == "trace" and self._take_node():
                self.notes.append((expr.span, sample, call.args[0]))
        else:
            if is_member:
                tried.open = step
            step.begin(sample)

    def _place(self) -> list[Attempt]:
        """Return the list to which a new attempt belongs: that of the expression that is being
        evaluated, that of the definition before its first expression, or `top` outside of all
        rules.
        """
        if not self._stack:
            return self.top
        tried = self._stack[-1].current
        assert tried is not None  # a definition is reported before what it asks
        return tried.attempts if tried.open is None else tried.open.attempts


def _is_case(expr: Expr) -> bool:
    """Return True if the expression is one that the test runner adds to report a test case."""
    return isinstance(expr.term, Call) and expr.term.name == "internal.test_case"
