"""The order in which OPA sorts terms, by which sets and objects of the syntax tree are printed.

`rank` is the sort key of a term. A set has each member once, an object each key once, as in OPA,
where that is so as soon as a text is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from doorward.rego.numbers import exact
from doorward.rego.syntax.keywords import ROOTS
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
)

__all__ = [
    "distinct",
    "distinct_in_order",
    "expr_rank",
    "is_root",
    "last_pairs",
    "membership",
    "pairs_in_order",
    "rank",
]


def distinct(items: Sequence[Term]) -> list[Term]:
    """Return the different members of a set; of equal ones the first."""
    return list(_first_by_rank(items).values())


def distinct_in_order(items: Sequence[Term]) -> list[Term]:
    """Return the different members of a set in OPA's order; of equal ones the first."""
    by_rank = _first_by_rank(items)
    return [by_rank[position] for position in sorted(by_rank)]


def last_pairs(pairs: Sequence[tuple[Term, Term]]) -> list[tuple[Term, Term]]:
    """Return the pairs of an object without repeated keys: of equal keys the first key and the last
    value.
    """
    return list(_last_by_rank(pairs).values())


def pairs_in_order(pairs: Sequence[tuple[Term, Term]]) -> list[tuple[Term, Term]]:
    """Return the pairs of an object without repeated keys, in OPA's order: of equal keys the first
    key and the last value.
    """
    by_rank = _last_by_rank(pairs)
    return [by_rank[position] for position in sorted(by_rank)]


def _first_by_rank(items: Sequence[Term]) -> dict[Any, Term]:
    """Return the members of a set by their sort keys, in the order of the text; of equal members
    the first.
    """
    firsts: dict[Any, Term] = {}
    for item in items:
        firsts.setdefault(rank(item), item)
    return firsts


def _last_by_rank(pairs: Sequence[tuple[Term, Term]]) -> dict[Any, tuple[Term, Term]]:
    """Return the pairs of an object by the sort keys of their keys, in the order of the text: of
    equal keys the first key and the last value.
    """
    chosen: dict[Any, tuple[Term, Term]] = {}
    for key, value in pairs:
        position = rank(key)
        chosen[position] = (chosen.get(position, (key,))[0], value)
    return chosen


# INVARIANT: the numbers are those of OPA's `sortOrder` (ast/compare.go), here and below; the
# formatter and `opa parse` show members in this order.
def rank(term: Term) -> tuple[int, Any]:
    """Return a sort key for terms in OPA's order: scalars, template strings, variables, references,
    arrays, objects, sets, comprehensions, calls. Equal terms, and no others, have equal keys: the
    order of pairs and members does not count, nor do spans. The head of a reference compares as a
    variable.
    """
    match term:
        case Scalar(value=value):
            return _scalar_rank(value)
        case TemplateString(parts=parts):
            return 4, (len(parts), *map(_part_rank, parts))
        case Var(name=name):
            # `input` alone is a reference to OPA, which sorts it behind variables.
            return (6, ((5, name),)) if is_root(term) else (5, name)
        case Ref(head=head, args=args):
            first = (5, head.name) if isinstance(head, Var) else rank(head)
            return 6, (first, *map(rank, args))
        case Array(items=items):
            return 7, tuple(map(rank, items))
        case Object(items=pairs):
            ranked = sorted((rank(k), rank(v)) for k, v in pairs)
            return 8, tuple(ranked)
        case Set(items=items):
            return 9, tuple(sorted(map(rank, items)))
        case ArrayComprehension(term=head, body=body):
            return 10, (rank(head), _body_rank(body))
        case ObjectComprehension(key=key, value=head, body=body):
            return 11, (rank(key), rank(head), _body_rank(body))
        case SetComprehension(term=head, body=body):
            return 12, (rank(head), _body_rank(body))
        case _:
            return 13, (rank(term.operator), *map(rank, term.args))


def _scalar_rank(value: float | str | None) -> tuple[int, Any]:
    """Return a sort key for a scalar in OPA's order: null, booleans, numbers, strings."""
    match value:
        case None:
            return 0, 0
        case bool():
            return 1, value
        case str():
            return 3, value
    # A tree that was not parsed may also have a number that is a plain `float`.
    # By value: `1` and `1.0` are one member of a set.
    return 2, Fraction(exact(value))


def expr_rank(expr: Expr) -> tuple[Any, ...]:
    """Return a sort key for expressions in OPA's order: declarations, terms (also `and`, `or` and
    `not`), calls, `every`.
    """
    order, terms = _terms_rank(expr)
    withs = tuple([(rank(item.target), rank(item.value)) for item in expr.withs])
    return order, expr.negated, terms, withs, _body_rank(expr.before)


def _terms_rank(expr: Expr) -> tuple[int, tuple[Any, ...]]:
    """Return a sort key for the term of an expression, without its `not` and `with`: the position
    of its kind in OPA's order (`some`, terms and logic, calls, `every`), then the key of its parts.
    """
    match expr.term:
        case SomeDecl(symbols=symbols):
            return 0, tuple(map(rank, symbols))
        case SomeIn() as some:
            return 0, (rank(membership(some)),)
        case Call(operator=operator, args=args):
            return 2, (rank(operator), *map(rank, args))
        case Every(key=key, value=value, domain=domain, body=body):
            keys = () if key is None else (rank(key),)
            return 3, (keys, rank(value), rank(domain), _body_rank(body))
        case And(left=left, right=right):
            return 1, ((103, (_body_rank(left), _body_rank(right))),)
        case Or(left=left, right=right):
            return 1, ((104, (_body_rank(left), _body_rank(right))),)
        case Not(body=body):
            return 1, ((111, _body_rank(body)),)
        case term:
            return 1, (rank(term),)


def _body_rank(body: Body) -> tuple[Any, ...]:
    return tuple(map(expr_rank, body))


def _part_rank(part: str | Expr) -> tuple[int, Any]:
    """Return the sort key of a part of a template string: texts come before expressions."""
    return (3, part) if isinstance(part, str) else (100, expr_rank(part))


def membership(some: SomeIn) -> Call:
    """Return the call of the membership built-in that `some … in …` stands for in OPA."""
    keys = () if some.key is None else (some.key,)
    args = (*keys, some.value, some.domain)
    operator = Ref(Var("internal"), (Scalar(f"member_{len(args)}"),))
    return Call(some.operator or operator, args)


def is_root(term: Term) -> bool:
    return isinstance(term, Var) and term.name in ROOTS
