"""The search as its parts know it.

A reference leads to rules, the body of a rule to expressions, and those to references again:
`documents`, `functions`, `negation`, `replacing` and `support` come back to the search by this
protocol only, so that each of them is below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from doorward.base.records import record
from doorward.rego.partial.core import Body, Expr, Operator, Rule, Term
from doorward.rego.partial.program import Program, Settings
from doorward.rego.partial.state import (
    Bindings,
    Disabled,
    Names,
    Replaced,
    Saved,
    Support,
    Unknowns,
)
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.source import Span

__all__ = ["Conflict", "PartialTracer", "SearchContext", "Site", "Solutions"]

Solutions: TypeAlias = Iterator[None]
"""An iterator that yields None once for each solution. Bindings and saved expressions are those of
the solution until the iterator continues.
"""


@record
class Site:
    """The expression that is being evaluated: its index in the body, and the bindings of its
    variables.
    """

    expr: Expr
    index: int
    bindings: Bindings
    number: int
    """The number of the evaluation of the enclosing body."""


@record
class Conflict:
    """Two rules, or one rule twice, that may give the document at `path` two values at the same
    time.
    """

    path: str
    first: Span
    second: Span


class PartialTracer(Protocol):
    """Receives the events of one partial evaluation."""

    def note(self, span: Span, *, holds: bool, is_rule: bool) -> None:
        """Receive one event for the rule or expression at `span`. `holds` is False before its
        evaluation begins, and True for each solution, which may have left conditions in the
        residual.
        """


class SearchContext(Protocol):
    """The state of a partial evaluation, and its steps, which `Search` implements."""

    program: Program
    settings: Settings
    evaluation: Evaluation
    well_typed: Callable[[Body], Body | None]
    """The body without expressions that always hold by their types; None if the body never holds by
    its types.
    """
    input: Term | None
    data: Any
    unknowns: Unknowns
    disabled: Disabled
    names: Names
    support: Support
    replaced: Replaced
    saved: list[list[Saved]]
    conflicts: list[Conflict]
    """Rules that may give one document two values; collected only in `truth` mode."""
    compared: set[object]
    """Keys of documents whose rules were already compared for conflicts."""
    consulted: set[str]
    """What was read during the evaluation: "rules", and "base" for data that is not from rules."""

    def number(self) -> int: ...

    def child(self) -> Bindings: ...

    def leaf(self) -> Term: ...

    def body(self, body: Body, bindings: Bindings, number: int) -> Solutions: ...

    def rule(self, rule: Rule, own: Bindings) -> Solutions: ...

    def branch(self, rule: Rule, own: Bindings) -> Solutions: ...

    def expr(self, site: Site) -> Solutions: ...

    def evaluate(self, site: Site) -> Solutions: ...

    def is_unknown(self, term: Term, bindings: Bindings) -> bool: ...

    def is_unknown_expr(self, expr: Expr, bindings: Bindings) -> bool: ...

    def unknown_names(self) -> set[str]: ...

    def mark_outputs(self, term: Term, bindings: Bindings) -> int: ...

    def apart(self) -> AbstractContextManager[list[Saved]]: ...

    def save(
        self, expr: Expr, left: Bindings | None, right: Bindings | None, site: Site
    ) -> Solutions: ...

    def save_equation(
        self, a: Term, b: Term, b1: Bindings, b2: Bindings, site: Site
    ) -> Solutions: ...

    def save_call(
        self, operator: Operator, args: Sequence[Term], arity: int, site: Site
    ) -> Solutions: ...

    def unify(self, a: Term, b: Term, b1: Bindings, b2: Bindings, site: Site) -> Solutions: ...

    def unify_all(
        self, left: Sequence[Term], right: Sequence[Term], b1: Bindings, b2: Bindings, site: Site
    ) -> Solutions: ...

    def inside(
        self,
        path: tuple[Term, ...],
        pos: int,
        bindings: Bindings,
        term: Term,
        where: Bindings,
        result: Term,
        b2: Bindings,
        site: Site,
    ) -> Solutions:
        """Yield for each way in which the path from `pos` on, followed inside `term`, leads to
        `result`; an unknown on the way is saved. `path` is read in `bindings`, `term` in `where`,
        `result` in `b2`.
        """
