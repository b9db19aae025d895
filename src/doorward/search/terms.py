"""Terms of expressions that are searched and proved: their texts, and the values of constants."""

from __future__ import annotations

from functools import lru_cache

from doorward.rego import Value, parse_term
from doorward.rego.shared import from_key
from doorward.rego.tools import (
    Array,
    Call,
    Expr,
    Object,
    Ref,
    Scalar,
    Set,
    Term,
    Var,
    format_tree,
    walk,
)

__all__ = ["is_constant", "is_open", "members_of", "term_text", "value_of"]


def term_text(term: Term) -> str:
    """Return a term in the canonical layout of Rego."""
    return format_tree((Expr(term),)).strip()


def is_constant(term: Term) -> bool:
    """Return True for a scalar or a collection of constants."""
    return isinstance(term, (Scalar, Array, Object, Set)) and not any(
        isinstance(node, (Var, Ref, Call, Expr)) for node in walk(term)
    )


def is_open(term: Term) -> bool:
    """Return True for a call, for a variable except `data`, and for a reference whose head is a
    variable, `input` or `data`: terms that are not constant.
    """
    if isinstance(term, Ref):
        return isinstance(term.head, Var)
    is_variable = isinstance(term, Var) and term.name != "data"
    return is_variable or isinstance(term, Call)


def value_of(constant: Term) -> Value:
    """Return the value of a constant term (see `is_constant`). Results are cached and shared, so
    they must not be changed.
    """
    return _value(term_text(constant))


# A policy compares with the same constants in most of its rules.
@lru_cache(maxsize=1024)
def _value(text: str) -> Value:
    value: Value = parse_term(text)
    return value


def members_of(collection: Value) -> list[Value]:
    """Return the items of an array (that list itself), members of a set or values of an object; []
    for other values.
    """
    match collection:
        case list(items):
            return items
        case frozenset() as members:
            return [from_key(key) for key in members]
        case dict(fields):
            return list(fields.values())
    return []
