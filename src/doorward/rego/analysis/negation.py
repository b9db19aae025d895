"""The scope of `not`: the last step of the expression that it precedes.

Without `import future.keywords.not` only that step is negated. What it needs is asked before it,
outside of the negation, and has to be there:

    not startswith(lower(input.a), "x")
    __local0__ = lower(input.a); not startswith(__local0__, "x")

So an operand that is undefined, or a built-in that fails for it, makes the whole expression
undefined. A reference that is all of the expression, or a side of `=` or `==`, belongs to the step
itself: `not input.a == 1` holds where there is no `input.a`. In queries `==` is a call like any
other.

The equations go into `Expr.before`, calls first and then references, as OPA asks for them. They are
made when a body is put in order. A call in an operand may walk (`not f(g(input.xs[_]))`). A
reference may not.
"""

from __future__ import annotations

from typing import Final, get_args

from doorward.base.records import replace
from doorward.rego.analysis.operands import equation, is_print
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.syntax.nodes import (
    Array,
    Call,
    Expr,
    Object,
    Ref,
    Set,
    TemplateString,
    Term,
    Var,
    is_ground,
)

__all__ = ["GENERATED", "QUERY_LOCAL", "Negations", "is_generated"]

QUERY_LOCAL: Final = "__localq"
"""The prefix of OPA's names for generated variables of queries."""

GENERATED: Final = "__@operand"
"""The suffix of generated variables for the operands of a negated expression."""


def is_generated(name: str) -> bool:
    """Return True if `name` is that of a generated variable for an operand, in `Expr.before` or in
    a step of exact code.
    """
    return name.endswith(GENERATED)


class Negations:
    """Splits negated expressions. In a query (`in_query`) only `=` compares its sides as a whole,
    in a module also `==`. `prefix` begins the names of new variables, by default OPA's.
    """

    def __init__(self, *, in_query: bool, prefix: str = "") -> None:
        self.equalities = {"eq"} if in_query else {"eq", "equal"}
        self.prefix = prefix or (QUERY_LOCAL if in_query else "__local")
        self.count = 0

    def split(self, expr: Expr) -> Expr:
        """Return the negated `expr` with only its last step under `not`: the calls and references
        in its operands become equations in `before`, which are evaluated first. `not print(…)` is
        returned unchanged.
        """
        assert isinstance(expr.term, get_args(Term))  # nothing else can be negated
        if is_print(expr.term):
            return expr
        parts = _Parts(self.prefix, self.count)
        term = parts.last_step(expr.term)
        is_equation = (
            isinstance(term, Call) and term.name in self.equalities and len(term.args) == 2
        )
        term = parts.negated(term, whole=is_equation)
        if isinstance(term, Call):
            # What fails in the last step fails where the expression begins, at its `not`; the text
            # of the call stays its own.
            span = replace(term.span, row=expr.span.row, col=expr.span.col)
            term = replace(term, span=span)
        self.count = parts.count
        return replace(expr, term=term, before=(*parts.calls, *parts.references))


class _Parts:
    """The parts of one negated term that are evaluated before it."""

    def __init__(self, prefix: str, count: int) -> None:
        self.prefix = prefix
        self.count = count
        self.calls: list[Expr] = []
        self.references: list[Expr] = []

    def _bind(self, term: Term, out: list[Expr]) -> Var:
        """Append an equation of a new variable with `term` to `out`; return the variable."""
        # `@` keeps the name apart from any that a policy can write (`scope.source_name`).
        local = Var(f"{self.prefix}{self.count}{GENERATED}", term.span)
        self.count += 1
        out.append(equation(local, term, term.span))
        return local

    # Calls

    def last_step(self, term: Term) -> Term:
        """Return `term` with variables in place of the calls in its operands; the equations of
        these variables are appended to `calls`. The call or template string that is the term itself
        stays.
        """
        match term:
            case Call():
                return replace(term, args=self._lift_calls_of_all(term.args))
            case TemplateString():
                return term
        return self._lift_calls(term)

    def _lift_calls_of_all(self, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple([self._lift_calls(term) for term in terms])

    def _lift_calls(self, term: Term) -> Term:
        """Return a term with variables in place of its calls and template strings; the equations of
        these variables are appended to `calls`, inner ones first. Comprehensions stay as they are.
        """
        if is_ground(term):
            return term
        match term:
            case Call(_, args):
                return self._bind(replace(term, args=self._lift_calls_of_all(args)), self.calls)
            case TemplateString():
                # A call for OPA. What it holds may be undefined, and stays inside it.
                return self._bind(term, self.calls)
            case Ref(head, args):
                head = self._lift_calls(head)
                args = self._lift_calls_of_all(args)
                if not isinstance(head, Var):
                    head = self._bind(head, self.calls)
                return replace(term, head=head, args=args)
            case Array(items) | Set(items):
                return replace(term, items=self._lift_calls_of_all(items))
            case Object(items):
                pairs = tuple(
                    [(self._lift_calls(key), self._lift_calls(value)) for key, value in items]
                )
                return replace(term, items=pairs)
        return term

    # References

    def negated(self, term: Term, *, whole: bool) -> Term:
        """Return `term`, the last step under `not`, with variables in place of the references in
        it; the equations of these variables are appended to `references`. A reference stays if it
        is the term itself or, with `whole`, an operand of the call; the references in its operands
        are replaced.
        """
        if isinstance(term, Call):
            read = self._outermost if whole else self._read
            return replace(term, args=tuple([read(arg) for arg in term.args]))
        return self._outermost(term)

    def _outermost(self, term: Term) -> Term:
        """Return `term` with variables in place of the references inside it. A term that is itself
        a reference, `input` or `data` stays; only references in its operands are replaced.
        """
        match term:
            case Ref(_, args):
                return replace(term, args=tuple([self._read(arg) for arg in args]))
            case Var():
                return term
        return self._read(term)

    def _read(self, term: Term) -> Term:
        """Return `term` with variables in place of its outermost references, `input` and `data`,
        itself included; the equations of these variables are appended to `references`. Calls must
        have been taken out; comprehensions stay.
        """
        if is_ground(term):
            return term
        match term:
            case Ref():
                return self._bind(term, self.references)
            case Var(name) if name in ROOTS:
                return self._bind(term, self.references)
            case Array(items) | Set(items):
                return replace(term, items=tuple([self._read(item) for item in items]))
            case Object(items):
                pairs = tuple([(self._read(key), self._read(value)) for key, value in items])
                return replace(term, items=pairs)
        return term
