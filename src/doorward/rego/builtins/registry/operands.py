"""What several categories ask of an operand beyond its kind, with OPA's words for a refusal.

Kinds themselves are checked by the registry; here a number becomes an integer, or does not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, NoReturn

from doorward.rego.errors import BuiltinError, LimitError, OperandError
from doorward.rego.numbers import MAX_DIGITS, AnyNumber, Number, exact, from_fraction
from doorward.rego.values import Value, kind_name

__all__ = [
    "MAX_BITS",
    "exact_operand",
    "integer_operand",
    "is_number",
    "machine_integer",
    "number_result",
    "refuse_operand",
]

MAX_BITS: Final = MAX_DIGITS * 3322 // 1000
"""Largest computed integer, and smallest computed fraction: as many digits as can be read."""

_INT_CLASSES: Final = frozenset({int, float, Number})
_MACHINE: Final = 1 << 63


def is_number(value: object) -> bool:
    """Whether `value` is a Rego number (a boolean is not)."""
    return type(value) in _INT_CLASSES


def refuse_operand(position: int, wanted: str, got: str) -> NoReturn:
    """Refuse operand `position` (from 1) in OPA's words."""
    raise OperandError(f"operand {position} must be {wanted} but got {got}")


def exact_operand(value: AnyNumber) -> int | Fraction:
    """The value to compute with; a Python float that is not finite, and a literal of a policy that
    is past `MAX_BITS`, is an error."""
    try:
        found = exact(value)
    except ValueError as error:
        raise BuiltinError(str(error)) from None
    if found.numerator.bit_length() > MAX_BITS + 64:
        raise LimitError("number is too large")
    return found


def integer_operand(position: int, value: Value, wanted: str = "integer") -> int:
    """Operand `position` as an integer: `2.0` is one, `2.5` and what is no number are not."""
    if type(value) is int:
        return value
    if not is_number(value):
        refuse_operand(position, wanted, kind_name(value))
    number: Any = value
    whole = exact_operand(number)
    if type(whole) is not int:
        refuse_operand(position, "integer number", "floating-point number")
    return whole


def machine_integer(position: int, value: Value) -> int:
    """Operand `position` as an integer that fits 64 bits and is written as one: no `2.0`."""
    if type(value) is int and -_MACHINE <= value < _MACHINE:
        return value
    if type(value) is Number and value.text == "-0":
        return 0
    if not is_number(value):
        refuse_operand(position, "number", kind_name(value))
    refuse_operand(position, "integer number", "floating-point number")


def number_result(value: int | Fraction) -> int | Number:
    """The number for a computed value; past `MAX_BITS` it is an error, not more memory."""
    size = value.numerator.bit_length() - value.denominator.bit_length()
    if abs(size) > MAX_BITS and value:
        raise LimitError(f"number is too {'large' if size > 0 else 'small'}")
    return from_fraction(value)
