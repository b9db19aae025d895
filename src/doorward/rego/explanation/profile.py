"""The profile of an evaluation: each expression's time, how often it was asked and held.

The time of a rule that an expression asks is that of the rule's own expressions. Tracing costs time
as well, much the same for each expression: the figures compare parts of a policy, they are not its
speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from doorward.base.records import mutable
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Expr, Rule

__all__ = ["Entry", "Profile"]


@mutable
class Entry:
    """The time in nanoseconds that one expression or the head of a rule took, how often it was
    evaluated, and how often it held.
    """

    span: Span
    total_ns: int = 0
    evaluated: int = 0
    succeeded: int = 0


class Profile:
    """A tracer that measures the time of each expression. `clock` returns nanoseconds."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._entries: dict[Span, Entry] = {}
        self._stack: list[Entry | None] = [None]
        self._clock = clock
        self._last = clock()

    def entries(self) -> list[Entry]:
        """Return the entries of all expressions and rules that were evaluated, slowest first."""
        return sorted(self._entries.values(), key=lambda each: -each.total_ns)

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        """Record that the expression evaluated last reads rules: the time from now on is theirs."""
        self._count()
        self._stack.append(None)

    def leave(self, name: str, answer: Any) -> None:
        """Record that the rules entered last have answered: the time from now on belongs to the
        expression that read them.
        """
        self._count()
        self._stack.pop()

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """Record that a rule or expression is about to be evaluated, or with `holds` that it
        holds.
        """
        self.note(node.span, holds=holds)

    def note(self, span: Span, *, holds: bool, is_rule: bool = False) -> None:
        """Record that the rule or expression at `span` is about to be evaluated, or with `holds`
        that it holds. The time from now on counts for it. `is_rule` is ignored; partial evaluation
        passes it to its tracers.
        """
        self._count()
        entry = self._entries.get(span)
        if entry is None:
            entry = self._entries[span] = Entry(span)
        if holds:
            entry.succeeded += 1
        else:
            entry.evaluated += 1
        self._stack[-1] = entry

    def _count(self) -> None:
        """Add the time since the last report to the expression that was evaluated."""
        now = self._clock()
        at_work = self._stack[-1]
        if at_work is not None:
            at_work.total_ns += now - self._last
        self._last = now
