"""Calls out of terms, into expressions of their own before the expression that they are in.

    startswith(input.a, trim(input.b, "x"))
    trim(input.b, "x", __0__); startswith(input.a, __0__)

This is the first grain in which bodies are read: that of safety and of their order. The second one
has references and comprehensions out of operands as well (`operands`). A `Dialect` tells how what
was taken out is written, and how expressions with syntax of their own are: for OPA's checks
(`opa_diagnostics.flattening`) and for exact code (`evaluation_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from doorward.base.records import replace
from doorward.rego.analysis.operands import equation, is_evaluated
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Body,
    Call,
    Expr,
    Object,
    ObjectComprehension,
    Ref,
    Scalar,
    Set,
    SetComprehension,
    TemplateString,
    Term,
    Var,
    is_ground,
)

__all__ = ["Dialect", "Lifting", "Origins"]


class Origins:
    """The written expressions, heads and bodies that flat ones were made from, by the identity of
    the flat one. An entry also holds the flat one, so that its identity is not reused.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[Expr, Expr | Term]] = {}
        self._bodies: dict[int, tuple[Body, Body]] = {}

    def add_expr(self, written: Expr, steps: Sequence[Expr]) -> None:
        """Record that `steps` are the flat form of `written`."""
        for step in steps:
            self._parts[id(step)] = step, written

    def add_head(self, term: Term, steps: Sequence[Expr]) -> None:
        """Record that `steps` compute `term`, a head term of a rule or comprehension."""
        for step in steps:
            self._parts[id(step)] = step, term

    def add_body(self, written: Body, flat: Body) -> None:
        """Record `flat` as the flat form of a body; it may also contain the steps of heads."""
        self._bodies[id(written)] = written, flat

    def part_of(self, step: Expr) -> Expr | Term:
        """Return the written expression, or the term of a head, that the flat expression `step`
        came from. KeyError if it was not recorded.
        """
        return self._parts[id(step)][1]

    def flat(self, written: Body) -> Body | None:
        """Return the flat form of a body; None if it was not recorded."""
        entry = self._bodies.get(id(written))
        return None if entry is None else entry[1]


class Dialect(Protocol):
    """The differences between the two kinds of flat bodies (one call for each expression) that
    `Lifting` writes: those for diagnostics, and those for evaluation.
    """

    def local(self, span: Span) -> Var:
        """Return a new variable for the term at `span`."""

    def call(self, call: Call, out: list[Expr]) -> Var:
        """Append the expression of a call, whose operands hold no calls, to `out`, and return the
        variable of its result.
        """

    def template(self, term: TemplateString, out: list[Expr]) -> Var:
        """Append the expression of a template string to `out`, and return the variable of its
        value.
        """

    def exprs(self, body: Sequence[Expr], out: list[Expr]) -> None:
        """Append the flat expressions of a body to `out`."""


class Lifting:
    """Takes calls out of terms. `origins`: records which written expressions the flat ones come
    from.
    """

    def __init__(self, dialect: Dialect, origins: Origins | None = None) -> None:
        self.dialect = dialect
        self.origins = origins

    def body(self, body: Body, heads: Sequence[Term] = ()) -> tuple[Body, tuple[Term, ...]]:
        """Return a body with its calls as separate expressions, and its heads as terms without
        calls; the steps of the heads come last in the body. What was written and what it became is
        recorded in `origins`, if there is one.
        """
        out: list[Expr] = []
        self.dialect.exprs(body, out)
        values = tuple([self.result(head, out) for head in heads])
        flat = tuple(out)
        if self.origins is not None:
            self.origins.add_body(body, flat)
        return flat, values

    def result(self, term: Term, out: list[Expr]) -> Term:
        """Return `term` as a term without calls, references or comprehensions. What has to be
        evaluated is appended to `out` as expressions, whose variables the result contains; they are
        also recorded in `origins`, if there is one.
        """
        begin = len(out)
        flat = self.term(term, out)
        if is_evaluated(flat):
            local = self.dialect.local(term.span)
            out.append(equation(local, flat, term.span))
            flat = local
        if self.origins is not None:
            self.origins.add_head(term, out[begin:])
        return flat

    def terms(self, terms: Sequence[Term], out: list[Expr]) -> tuple[Term, ...]:
        """Return `terms` without calls; the calls are appended to `out`."""
        return tuple([self.term(term, out) for term in terms])

    def term(self, term: Term, out: list[Expr]) -> Term:
        """Return `term` with variables in place of its calls and template strings; expressions that
        compute these are appended to `out`, inner ones first, those of a comprehension to its body.
        A head of a reference that is not a variable or scalar then becomes a variable too.
        """
        if is_ground(term):
            return term
        match term:
            case Call(_, args):
                return self.dialect.call(replace(term, args=self.terms(args, out)), out)
            case TemplateString():
                return self.dialect.template(term, out)
            case Ref(head, args):
                first = self.term(head, out)
                operands = self.terms(args, out)
                if not isinstance(first, (Var, Scalar)):
                    local = self.dialect.local(head.span)
                    out.append(equation(local, first, head.span))
                    first = local
                return replace(term, head=first, args=operands)
            case Array(items) | Set(items):
                return replace(term, items=self.terms(items, out))
            case Object(items):
                pairs = [(self.term(key, out), self.term(value, out)) for key, value in items]
                return replace(term, items=tuple(pairs))
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                flat, (head,) = self.body(body, (inner,))
                return replace(term, term=head, body=flat)
            case ObjectComprehension(key, value, body):
                flat, (key, value) = self.body(body, (key, value))
                return replace(term, key=key, value=value, body=flat)
        return term
