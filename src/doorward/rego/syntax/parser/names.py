"""Names of terms in OPA's texts, and which of them are variables."""

from __future__ import annotations

from typing import TypeGuard

from doorward.rego.syntax.keywords import ROOTS
from doorward.rego.syntax.nodes import Scalar, Term, Var

__all__ = ["is_variable", "value_name"]


def value_name(term: Term) -> str:
    """Return the name of a term's kind in OPA's messages, such as `string` or `arraycomprehension`;
    `input` and `data` are `ref`.
    """
    match term:
        case Scalar(value=None):
            return "null"
        case Scalar(value=bool()):
            return "boolean"
        case Scalar(value=str()):
            return "string"
        case Scalar():
            return "number"
        case Var(name="input" | "data"):
            return "ref"
        case _:
            return type(term).__name__.lower()


def is_variable(term: Term | None) -> TypeGuard[Var]:
    """Return True if the term is a variable and not one of the documents `input` and `data`."""
    return isinstance(term, Var) and term.name not in ROOTS
