"""The variables of flat expressions of the syntax tree.

As OPA counts them: the names of functions that `with` puts in force are not variables, and `not …`
of `future.keywords.not` is a closure only if it has braces. What is inside a closure counts
only with `closures=True`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from doorward.rego.analysis.flat_terms import FlatTerms
from doorward.rego.analysis.negation import GENERATED
from doorward.rego.analysis.variables import term_vars
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
    Set,
    SetComprehension,
    Term,
    Var,
)

__all__ = [
    "FLAT",
    "Closure",
    "all_vars",
    "closure_vars",
    "closures_of",
    "expr_vars",
    "heads_and_bodies",
]

Closure = ArrayComprehension | SetComprehension | ObjectComprehension | Every | Not | And | Or


_LIFTED: Final = ("__@", GENERATED)
"""The ends of the names of variables for calls that were taken out of terms, of which steps of
exact code have the second.
"""


def all_vars(term: Term) -> Iterator[Var]:
    """Yield every variable of a flat term except `input` and `data`, including those in the bodies
    of comprehensions.
    """
    return term_vars(term, read_body=_body_vars)


def _body_vars(body: Body) -> Iterator[Var]:
    for expr in body:
        yield from expr_vars(expr, closures=True)


def expr_vars(expr: Expr, *, closures: bool = False) -> Iterator[Var]:
    """Yield every variable of a flat expression and of its `with` (operands of targets, and values,
    but not the head of a reference there, which may name a function), except `input` and `data`;
    one may come several times. Those inside closures come only with `closures`. The bodies of
    `not`, `and` and `or` without braces are not closures, but generated variables in them are left
    out as well.
    """
    term = expr.term
    match term:
        case Call(_, args):
            for arg in args:
                yield from term_vars(arg, closures=closures, read_body=_body_vars)
        case Every(key, value, domain, body):
            yield from term_vars(domain, closures=closures, read_body=_body_vars)
            if closures:
                yield from (v for v in (key, value) if v is not None)
                for inner in body:
                    yield from expr_vars(inner, closures=True)
        case Not(body, braces) if closures or not braces:
            for inner in body:
                names = expr_vars(inner, closures=closures)
                # Without braces nothing but what flattening makes is bound inside.
                yield from (v for v in names if closures or not v.name.endswith(_LIFTED))
        case And(left, right, braces) | Or(left, right, braces):
            for body, has_braces in zip((left, right), braces, strict=True):
                if closures or not has_braces:
                    for inner in body:
                        names = expr_vars(inner, closures=closures)
                        yield from (v for v in names if closures or not v.name.endswith(_LIFTED))
        case _ if isinstance(term, Term):
            yield from term_vars(term, closures=closures, read_body=_body_vars)
    for item in expr.withs:
        if isinstance(item.target, Ref):
            for arg in item.target.args:
                yield from term_vars(arg, closures=closures, read_body=_body_vars)
        # The value may be the name of a function, which is not a variable.
        parts = item.value.args if isinstance(item.value, Ref) else (item.value,)
        for part in parts:
            yield from term_vars(part, closures=closures, read_body=_body_vars)


def closures_of(expr: Expr) -> Iterator[Closure]:
    """Yield the closures of a flat expression, outermost ones alone: itself if it is an `every`,
    `not`, `and` or `or`, otherwise the comprehensions in its term or operands. Its `with` is not
    searched.
    """
    term = expr.term
    if isinstance(term, (Every, Not, And, Or)):
        yield term
    elif isinstance(term, Call):
        for arg in term.args:
            yield from _in_term(arg)
    elif isinstance(term, Term):
        yield from _in_term(term)


def heads_and_bodies(closure: Closure) -> tuple[tuple[Term, ...], tuple[Body, ...]]:
    """Return the head terms of a comprehension or inner body, and its bodies."""
    match closure:
        case Every(_, _, _, body) | Not(body):
            return (), (body,)
        case And(left, right) | Or(left, right):
            return (), (left, right)
        case ObjectComprehension(key, value, body):
            return (key, value), (body,)
    return (closure.term,), (closure.body,)


def closure_vars(closure: Closure) -> Iterator[Var]:
    """Yield every variable inside a comprehension or inner body except `input` and `data`."""
    heads, bodies = heads_and_bodies(closure)
    for head in heads:
        yield from all_vars(head)
    for body in bodies:
        yield from _body_vars(body)


def _in_term(term: Term) -> Iterator[Closure]:
    """Yield the comprehensions in a flat term, in the order of the text; those inside of others are
    left out. The term must not contain calls.
    """
    match term:
        case ArrayComprehension() | SetComprehension() | ObjectComprehension():
            yield term
        case Ref(head, args):
            for part in (head, *args):
                yield from _in_term(part)
        case Array(items) | Set(items):
            for item in items:
                yield from _in_term(item)
        case Object(items):
            for key, value in items:
                yield from _in_term(key)
                yield from _in_term(value)


def _path(ref: Ref) -> tuple[Term, tuple[Term, ...]]:
    return ref.head, ref.args


def _parts(term: Term) -> Iterable[Term]:
    """Return the items of a collection, or keys and values; () for other terms."""
    match term:
        case Array(items) | Set(items):
            return items
        case Object(items):
            return chain.from_iterable(items)
    return ()


FLAT: Final = FlatTerms(
    var=Var,
    ref=Ref,
    array=Array,
    object_=Object,
    comprehensions=(ArrayComprehension, SetComprehension, ObjectComprehension),
    values=(),
    path=_path,
    parts=_parts,
    is_object=lambda term: isinstance(term, ObjectComprehension),
)
"""The classes of the terms of the syntax tree, for the shared rules of binding."""
