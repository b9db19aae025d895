"""Loops that look for the items of which a part is equal to a value that is known before.

    some x in input.items      the path is `owner.team`, the value `team`
    x.owner.team == team

Where such a loop is inside another one, the work grows with the product of both. So the loop walks
`Evaluation.matching` in place of `values`: once a collection was walked a few times, its items are
grouped by their part at the path, and those of the other groups are left out. OPA does so for
comprehensions. The equation is written all the same: what is left out fails it.

What is left out is not asked anything else either, so nothing that may fail stands between the loop
and the equation.
"""

from __future__ import annotations

from collections.abc import Sequence

from doorward.base.records import record
from doorward.rego.codegen.lookups import constant_names
from doorward.rego.codegen.patterns import is_open
from doorward.rego.codegen.reading_ahead import never_fails, plain_path
from doorward.rego.codegen.state import FunctionKind, FunctionState, Join
from doorward.rego.codegen.terms import term
from doorward.rego.syntax.keywords import ROOTS
from doorward.rego.syntax.nodes import Body, Call, Expr, Ref, Scalar, SomeIn, Term, Var

__all__ = ["join_of"]

_EQUATIONS = ("equal", "eq")


@record
class _Search:
    """The names below an item that lead to the compared value, and the term it is compared with."""

    path: tuple[str, ...]
    value: Term


def join_of(state: FunctionState, body: Body, position: int) -> Join | None:
    """Return the join for the loop that the expression at `position` begins: the path below an item
    that must equal a value, and code for that value, written before the loop. With it the loop may
    skip items that do not match. None if no equation allows this, the loop runs once, or the code
    is exact, traced or counts items.
    """
    if state.plan.in_order or state.plan.limited:
        return None
    if not state.code.loops and state.kind is not FunctionKind.FUNCTION:
        return None  # the loop runs once
    expr = body[position]
    if expr.negated or expr.withs or expr.before:
        return None
    search = _in_equation(state, expr) or _after_loop(state, body, position)
    if search is None:
        return None
    with state.code.at(expr.span):
        return Join(search.path, term(state, search.value).code)


def _in_equation(state: FunctionState, expr: Expr) -> _Search | None:
    """Return the path and the known value that the items of a loop inside the equation `expr` are
    compared with (`input.items[_].owner == team`: `owner` and `team`). None for other expressions:
    with several loops, a collection that is not stored data, a path that is not constant, or a
    value that is not known before.
    """
    for ref, value in _sides(expr):
        if not isinstance(ref, Ref):
            continue
        opens = [n for n, arg in enumerate(ref.args) if is_open(state, arg)]
        if len(opens) != 1 or not _is_stored(state, ref.head, ref.args[: opens[0]]):
            continue
        below = ref.args[opens[0] + 1 :]
        names = constant_names(below)
        if len(names) == len(below) and _is_known(state, value, is_quiet=False):
            return _Search(tuple(names), value)
    return None


def _after_loop(state: FunctionState, body: Body, position: int) -> _Search | None:
    """Return the path and the known value that an equation behind the loop at `position` compares
    its items with (`some x in input.items; x.owner == team`); None if there is none, or if an
    expression between them may raise an error.
    """
    item = _item_of_loop(state, body[position])
    if item is None:
        return None
    is_quiet = never_fails(state.plan, body[position])
    for expr in body[position + 1 :]:
        for ref, value in _sides(expr):
            names = _names_below(ref, item)
            if names is not None and _is_known(state, value, is_quiet=is_quiet):
                return _Search(tuple(names), value)
        # An item that the join leaves out would not reach this expression, nor its error.
        if not never_fails(state.plan, expr):
            return None
    return None


def _item_of_loop(state: FunctionState, expr: Expr) -> str | None:
    """Return the variable for items in `some x in xs`, `some k, x in xs` and `x := xs[k]` (also
    with `=`) if the loop binds it and `k` and the collection is stored; None for others.
    """
    match expr.term:
        case SomeIn(key, Var(name) as value, domain):
            head, args = (domain.head, domain.args) if isinstance(domain, Ref) else (domain, ())
            if key is not None and not is_open(state, key):
                return None
        case Call(_, (Var(name) as value, Ref(head, (*args, last)))) if expr.term.name in (
            "assign",
            "eq",
        ) and is_open(state, last):
            pass
        case _:
            return None
    is_item = is_open(state, value) and not value.is_wildcard
    return name if is_item and _is_stored(state, head, args) else None


def _is_stored(state: FunctionState, head: Term, args: Sequence[Term]) -> bool:
    """Return True if a collection (a reference with this head and operands) is certainly the same
    object in each round of the loops: part of the input, data or a stored value, at keys that do
    not change.
    """
    return (
        isinstance(head, Var)
        and (head.name in ROOTS or head.name in state.stored)
        and all(isinstance(each, Scalar) or _is_stored(state, each, ()) for each in args)
    )


def _sides(expr: Expr) -> list[tuple[Term, Term]]:
    """Return the two sides of `a == b` or `a = b` in both orders; [] for other expressions, for
    negated ones, and for ones with `with` or with steps to run first (`expr.before`).
    """
    call = expr.term
    if expr.negated or expr.withs or expr.before or not isinstance(call, Call):
        return []
    if call.name not in _EQUATIONS or len(call.args) != 2:
        return []
    left, right = call.args
    return [(left, right), (right, left)]


def _names_below(term: Term, item: str) -> list[str] | None:
    """Return the names that lead from the variable `item` to `term`, [] for the variable itself;
    None for other terms.
    """
    if isinstance(term, Var):
        return [] if term.name == item else None
    if not isinstance(term, Ref) or not isinstance(term.head, Var) or term.head.name != item:
        return None
    names = constant_names(term.args)
    return names if len(names) == len(term.args) else None


def _is_known(state: FunctionState, value: Term, *, is_quiet: bool) -> bool:
    """Return True if `value` can be computed before the loop: it is a scalar, a bound variable, or,
    with `is_quiet`, a constant path below `input`, base data or a bound variable. `is_quiet`:
    nothing before the equation can fail, so that the path may be undefined.
    """
    match value:
        case Scalar():
            return True
        case Var(name):
            return name in state.env
        case Ref(Var(name), args) if is_quiet:
            if name in state.env:
                return len(constant_names(args)) == len(args)
            return len(plain_path(state.plan, value)) == len(args) + 1
    return False
