"""References and comprehensions out of operands, into equations before their expression.

    trim(input.b, "x", __0__); startswith(input.a, __0__)
    __1__ = input.b; trim(__1__, "x", __0__); __2__ = input.a; startswith(__2__, __0__)

This is the second grain in which bodies are read: that of types and of exact code, when bodies are
in order. The calls in operands are expressions of their own already (`lifting`). A reference that
is all of an expression, or a side of an equation, stays; `some x in xs` reads its domain as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from operator import is_not

from doorward.base.records import replace
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    is_ground,
)

__all__ = ["Operands", "equation", "is_evaluated", "is_print"]


def equation(left: Term, right: Term, span: Span) -> Expr:
    """Return the expression `left = right` at `span`."""
    return Expr(Call(Ref(Var("eq", span), (), span), (left, right), span), span=span)


def is_print(term: Term) -> bool:
    """Return True if `term` is a call of `print`, whose operands may be undefined."""
    return isinstance(term, Call) and term.name == "print" and not term.infix


def is_evaluated(term: Term) -> bool:
    """Return True if a term without calls needs an evaluation beyond reading variables: it is or
    contains, at any depth in collections, a reference, a comprehension, `input` or `data`.
    """
    if is_ground(term):
        return False
    match term:
        case Var(name):
            return name in ROOTS
        case Array(items) | Set(items):
            return any(map(is_evaluated, items))
        case Object(items):
            return any(is_evaluated(part) for pair in items for part in pair)
    return isinstance(term, (Ref, ArrayComprehension, SetComprehension, ObjectComprehension))


class Operands:
    """Binds operands to variables. `equalities`: the calls that take references as they are.
    `local` makes a variable for the term at a span; `part_steps` returns the expressions that a
    part of a template string stands for.
    """

    def __init__(
        self,
        equalities: AbstractSet[str],
        local: Callable[[Span], Var],
        part_steps: Callable[[Expr], Sequence[Expr]],
    ) -> None:
        self.equalities = equalities
        self.local = local
        self.part_steps = part_steps

    def body(self, body: Iterable[Expr]) -> Body:
        """Return a body with an equation before each expression for each of its operands that has
        to be evaluated.
        """
        return tuple([step for expr in body for step in self.expr(expr)])

    def expr(self, expr: Expr) -> list[Expr]:
        """Return the expressions that `expr` becomes: its `before`, equations that bind references
        and comprehensions in its operands to variables, all under its `with`, and last the
        expression itself, its inner bodies changed likewise. The sides of an equation, a whole
        expression and the operands of `print` stay. [expr] if nothing changes; no expression for
        `some x`.
        """
        before = [step for each in expr.before for step in self.expr(each)]
        term = expr.term
        match term:
            case SomeDecl():
                return before
            case SomeIn(_, _, domain):
                term = replace(term, domain=self._lift_operands(domain, before))
            case Every(_, _, _, body) | Not(body):
                term = replace(term, body=self.body(body))
            case And(left, right) | Or(left, right):
                term = replace(term, left=self.body(left), right=self.body(right))
            case Call() if is_print(term):
                pass
            case Call(_, args):
                is_equation = len(args) == 2 and term.name in self.equalities
                read = self._lift_operands if is_equation else self._read
                operands = tuple([read(arg, before) for arg in args])
                if any(map(is_not, operands, args)):
                    term = replace(term, args=operands)
            case _:
                term = self._lift_operands(term, before)
        if not before and term is expr.term:
            return [expr]
        if expr.withs:
            # The operands are evaluated under the expression's `with`.
            before = [replace(step, withs=expr.withs) for step in before]
        return [*before, replace(expr, term=term, before=())]

    def _lift_operands(self, term: Term, out: list[Expr]) -> Term:
        """Return `term` for a position where a reference or comprehension may stand. Its operands
        that are references or comprehensions become variables, whose equations are appended to
        `out`; those in the body of a comprehension become equations in that body.
        """
        match term:
            case Ref(_, args) | Call(_, args):
                operands = tuple([self._read(arg, out) for arg in args])
                return replace(term, args=operands) if any(map(is_not, operands, args)) else term
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return replace(term, body=self.body(term.body))
            case Var():
                return term
        return self._read(term, out)

    def _read(self, term: Term, out: list[Expr]) -> Term:
        """Return an operand. A reference, a comprehension, `input` or `data` becomes a new
        variable, whose equation is appended to `out`, also inside of arrays, sets and objects. The
        equations for the parts of a template string are stored in these parts. Other terms are
        returned as they are.
        """
        if type(term) is Scalar or is_ground(term):
            return term
        match term:
            case Ref() | ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return self._bind(self._lift_operands(term, out), out)
            case Var(name) if name in ROOTS:
                return self._bind(term, out)
            case Array(items) | Set(items):
                return replace(term, items=tuple([self._read(item, out) for item in items]))
            case Object(items):
                pairs = [(self._read(key, out), self._read(item, out)) for key, item in items]
                return replace(term, items=tuple(pairs))
            case TemplateString(parts):
                inside = [part if isinstance(part, str) else self._part(part) for part in parts]
                return replace(term, parts=tuple(inside))
        return term

    def _bind(self, term: Term, out: list[Expr]) -> Var:
        """Append an equation of a new variable with `term` to `out`; return the variable."""
        local = self.local(term.span)
        out.append(equation(local, term, term.span))
        return local

    def _part(self, part: Expr) -> Expr:
        """Return an expression of a template string with the equations for its operands in
        `before`.
        """
        *steps, last = self.body(self.part_steps(part))
        return replace(last, before=tuple(steps))
