"""The variables of flat expressions: which are in them, and which a walk over them binds.

As OPA counts them: the names of functions that `with` puts in force are not variables, and `not …`
of `future.keywords.not` is a closure only if it has braces. What is inside a closure counts
only with `closures=True`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from doorward.rego.analysis.variables import ROOTS, term_vars
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
    "Closure",
    "all_vars",
    "closures_of",
    "expr_vars",
    "outputs_of_terms",
    "pattern_names",
]

Closure = ArrayComprehension | SetComprehension | ObjectComprehension | Every | Not | And | Or


def all_vars(term: Term) -> Iterator[Var]:
    """Every variable of a flat term, those of flat bodies inside of it too."""
    return term_vars(term, read_body=_body_vars)


def _body_vars(body: Body) -> Iterator[Var]:
    for expr in body:
        yield from expr_vars(expr, closures=True)


def expr_vars(expr: Expr, *, closures: bool = False) -> Iterator[Var]:
    """Every variable of a flat expression, those of its `with` clauses included."""
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
                yield from (v for v in names if closures or not v.name.endswith("__@"))
        case And(left, right, braces) | Or(left, right, braces):
            for body, has_braces in zip((left, right), braces, strict=True):
                if closures or not has_braces:
                    for inner in body:
                        names = expr_vars(inner, closures=closures)
                        yield from (v for v in names if closures or not v.name.endswith("__@"))
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
    """The outermost closures of a flat expression."""
    term = expr.term
    if isinstance(term, (Every, Not, And, Or)):
        yield term
    elif isinstance(term, Call):
        for arg in term.args:
            yield from _in_term(arg)
    else:
        assert isinstance(term, Term)  # flattening leaves no declarations
        yield from _in_term(term)


def _in_term(term: Term) -> Iterator[Closure]:
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


def outputs_of_terms(terms: Iterable[Term], safe: set[str]) -> set[str]:
    """Return the variables that references in `terms` bind where their heads are bound."""
    outputs: set[str] = set()
    for term in terms:
        match term:
            case Ref(head, args):
                if not isinstance(head, Var) or head.name in safe or head.name in ROOTS:
                    for arg in args:
                        outputs.update(_walk(arg))
            case Array(items) | Set(items):
                outputs |= outputs_of_terms(items, safe)
            case Object(items):
                for pair in items:
                    outputs |= outputs_of_terms(pair, safe)
    return outputs


def _walk(term: Term) -> Iterator[str]:
    """The variables of an operand; heads of further references are walked, not bound."""
    match term:
        case Var(name):
            if name not in ROOTS:
                yield name
        case Ref(_, items) | Array(items) | Set(items):
            for item in items:
                yield from _walk(item)
        case Object(items):
            for key, value in items:
                yield from _walk(key)
                yield from _walk(value)


def pattern_names(term: Term) -> Iterator[str]:
    """The variables that matching `term` binds: not in sets, keys, or heads of references."""
    match term:
        case Var(name):
            if name not in ROOTS:
                yield name
        case Ref(_, args):
            for arg in args:
                yield from pattern_names(arg)
        case Array(items):
            for item in items:
                yield from pattern_names(item)
        case Object(items):
            for _, value in items:
                yield from pattern_names(value)
