"""A value as code generation knows it: the Python expression for it, its kind, its constant."""

from __future__ import annotations

import ast
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.syntax.nodes import Array, Object, Scalar, Set, Term, is_ground
from doorward.rego.values import Value, make_object, make_set

__all__ = ["NOT_CONSTANT", "Operand", "constant_value", "items_kind"]


class _NotConstant:
    """The type of `NOT_CONSTANT`."""

    __slots__ = ()


NOT_CONSTANT: Final = _NotConstant()


@record(guarded=False)
class Operand:
    """A Python expression for a defined Rego value, with what is known of the value. `kind`: OPA's
    name of its type, or "" if unknown. `value`: the value, if constant. `of`: the kind of each of
    its items, or "". `is_tree`: it is a part of the input or of base data, which share no parts, so
    visiting all of it takes time proportional to its size. `is_plain`: it is a text, or an integer
    other than 0 and 1: Python compares it as Rego does.
    """

    code: ast.expr
    kind: str = ""
    value: Any = NOT_CONSTANT
    of: str = ""
    is_tree: bool = False
    is_plain: bool = False

    @property
    def is_integer(self) -> bool:
        """True if the value is known to be an integer of Python (not a boolean) before run time."""
        return type(self.value) is int or (self.is_plain and self.kind == "number")

    @property
    def is_constant(self) -> bool:
        return self.value is not NOT_CONSTANT


def constant_value(term: Term) -> Any:
    """Return the value of a term without variables, references, calls, comprehensions and template
    strings; NOT_CONSTANT for other terms.
    """
    return _value(term) if is_ground(term) else NOT_CONSTANT


def _value(term: Term) -> Any:
    """Return the Rego value of a ground term: a scalar, or a collection of ground terms.
    AssertionError for another one.
    """
    match term:
        case Scalar(value):
            return value
        case Array(items):
            return [_value(item) for item in items]
        case Set(items):
            return make_set([_value(item) for item in items])
        case Object(pairs):
            return make_object([(_value(key), _value(value)) for key, value in pairs])
    raise AssertionError(term)  # it is ground


def items_kind(value: Value) -> str:
    """Return "string" if a constant is an array or set of strings, at least one; "" for any other
    value.
    """
    if not isinstance(value, (list, frozenset)):
        return ""
    return "string" if value and all(type(item) is str for item in value) else ""
