"""Tests of the kind of a value."""

from __future__ import annotations

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.operands import is_number as _is_number
from doorward.rego.builtins.registry.signature import any_, boolean, string
from doorward.rego.values import Value, kind_name

__all__: list[str] = []


@builtin("is_array", any_, returns=boolean, inverse=inverse("kind", "array"))
def is_array(x: Value) -> bool:
    """Return true if `x` is an array, otherwise false."""
    return type(x) is list


@builtin("is_boolean", any_, returns=boolean, inverse=inverse("kind", "boolean"))
def is_boolean(x: Value) -> bool:
    """Return true if `x` is a boolean, otherwise false."""
    return type(x) is bool


@builtin("is_null", any_, returns=boolean, inverse=inverse("kind", "null"))
def is_null(x: Value) -> bool:
    """Return true if `x` is null, otherwise false."""
    return x is None


@builtin("is_number", any_, returns=boolean, inverse=inverse("kind", "number"))
def is_number(x: Value) -> bool:
    """Return true if `x` is a number, otherwise false."""
    return _is_number(x)


@builtin("is_object", any_, returns=boolean, inverse=inverse("kind", "object"))
def is_object(x: Value) -> bool:
    """Return true if `x` is an object, otherwise false."""
    return type(x) is dict


@builtin("is_set", any_, returns=boolean, inverse=inverse("kind", "set"))
def is_set(x: Value) -> bool:
    """Return true if `x` is a set, otherwise false."""
    return type(x) is frozenset


@builtin("is_string", any_, returns=boolean, inverse=inverse("kind", "string"))
def is_string(x: Value) -> bool:
    """Return true if `x` is a string, otherwise false."""
    return type(x) is str


@builtin("type_name", any_, returns=string, inverse=inverse("type_name"))
def type_name(x: Value) -> str:
    """The kind of `x`: null, boolean, number, string, array, object or set."""
    return kind_name(x)
