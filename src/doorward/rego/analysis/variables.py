"""The variables of terms, expressions and bodies, in the order of the text.

`input` and `data` are documents, never variables. What is inside a closure (comprehension,
`every`, `not { … }`, `and`, `or`) counts unless `closures=False` leaves it out. Nothing here knows
which variables are bound; `bindings` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

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
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
)

__all__ = ["ROOTS", "BodyReader", "body_vars", "expr_vars", "part_vars", "term_vars"]

BodyReader: TypeAlias = Callable[[Body], Iterator[Var]]
"""A function that returns the variables of a body, including those inside closures."""


def term_vars(
    term: Term, *, closures: bool = True, read_body: BodyReader | None = None
) -> Iterator[Var]:
    """Yield every variable of a term except `input` and `data`, in the order of the text, as often
    as it stands there; the name of a called function is not one. With `closures=False` those inside
    comprehensions are left out. `read_body` yields the variables of a comprehension's body, by
    default `body_vars`.
    """
    read_body = read_body or body_vars
    match term:
        case Var(name):
            if name not in ROOTS:
                yield term
        case Ref(head, args):
            yield from term_vars(head, closures=closures, read_body=read_body)
            for arg in args:
                yield from term_vars(arg, closures=closures, read_body=read_body)
        case Call(operator, args):
            for arg in operator.args:
                yield from term_vars(arg, closures=closures, read_body=read_body)
            for arg in args:
                yield from term_vars(arg, closures=closures, read_body=read_body)
        case Array(items) | Set(items):
            if term.is_ground:
                return
            for item in items:
                yield from term_vars(item, closures=closures, read_body=read_body)
        case Object(items):
            if term.is_ground:
                return
            for key, value in items:
                yield from term_vars(key, closures=closures, read_body=read_body)
                yield from term_vars(value, closures=closures, read_body=read_body)
        case ArrayComprehension(inner, body) | SetComprehension(inner, body):
            if closures:
                yield from term_vars(inner, read_body=read_body)
                yield from read_body(body)
        case ObjectComprehension(key, value, body):
            if closures:
                yield from term_vars(key, read_body=read_body)
                yield from term_vars(value, read_body=read_body)
                yield from read_body(body)
        case TemplateString(parts):
            for part in parts:
                if not isinstance(part, str):
                    yield from part_vars(part, closures=closures)


def part_vars(part: Expr, *, closures: bool = True) -> Iterator[Var]:
    """Yield the variables of a template string's expression, except `input`, `data` and the
    variables of its steps `local = value`; without `closures`, also none of bodies and
    comprehensions inside it.
    """
    bound = {next(expr_vars(step)).name for step in part.before}
    for var in expr_vars(part, closures=closures):
        if var.name not in bound:
            yield var


def expr_vars(expr: Expr, *, closures: bool = True) -> Iterator[Var]:
    """Yield every variable of an expression except `input` and `data`, its `before` and its `with`
    modifiers included. Without `closures`, those in comprehensions and in the bodies of `not`,
    `and`, `or` and `every` are left out, with the key and value of `every`. Names that `some` only
    declares are always left out.
    """
    for each in expr.before:
        yield from expr_vars(each, closures=closures)
    term = expr.term
    match term:
        case SomeDecl():
            pass
        case SomeIn(key, value, domain):
            for part in (key, value, domain):
                if part is not None:
                    yield from term_vars(part, closures=closures)
        case Every():
            yield from term_vars(term.domain, closures=closures)
            if closures:
                yield term.value
                if term.key is not None:
                    yield term.key
                yield from body_vars(term.body)
        case Not():
            if closures:
                yield from body_vars(term.body)
        case And() | Or():
            if closures:
                yield from body_vars(term.left)
                yield from body_vars(term.right)
        case _:
            yield from term_vars(term, closures=closures)
    for item in expr.withs:
        if isinstance(item.target, Ref):
            for arg in item.target.args:
                yield from term_vars(arg, closures=closures)
        yield from term_vars(item.value, closures=closures)


def body_vars(body: Body, *, closures: bool = True) -> Iterator[Var]:
    """Yield the variables of a body except `input` and `data`, once for each occurrence. Names that
    `some` only declares are left out; with `closures=False` so are those in the bodies of `not`,
    `and`, `or`, `every` and comprehensions.
    """
    for expr in body:
        yield from expr_vars(expr, closures=closures)
