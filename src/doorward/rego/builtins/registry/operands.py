"""Checks of operands that several categories share, with OPA's words for a refusal.

Kinds themselves are checked by the registry; here a number becomes an integer, or does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from doorward.rego.errors import BuiltinError, LimitError, OperandError
from doorward.rego.numbers import (
    CLASSES,
    MANTISSA_BITS,
    MAX_DIGITS,
    AnyNumber,
    Binary,
    Number,
    binary,
    exact,
    from_binary,
    from_fraction,
    integer_of,
)
from doorward.rego.values import Value, kind_name

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "MAX_BITS",
    "binary_operand",
    "binary_result",
    "check_size",
    "exact_operand",
    "integer_operand",
    "integer_result",
    "is_number",
    "machine_integer",
    "number_result",
    "refuse_operand",
]

MAX_BITS: Final = MAX_DIGITS * 3322 // 1000
"""Largest computed integer, and smallest computed fraction: as many digits as can be read."""


def is_number(value: object) -> bool:
    """Return true if `value` is a Rego number (a boolean is not)."""
    return type(value) in CLASSES


def refuse_operand(position: int, wanted: str, got: str) -> NoReturn:
    """Refuse operand `position` (from 1) in OPA's words."""
    raise OperandError(f"operand {position} must be {wanted} but got {got}")


def binary_operand(value: AnyNumber) -> Binary:
    """The form to compute with; a Python float that is not finite, and a literal of a policy that
    is past `MAX_BITS`, is an error."""
    try:
        form = binary(value)
    except ValueError as error:
        raise BuiltinError(str(error)) from None
    if form[0].bit_length() > MAX_BITS + MANTISSA_BITS:
        raise LimitError("number is too large")
    return form


def exact_operand(value: AnyNumber) -> int | Fraction:
    """`binary_operand` as one number."""
    binary_operand(value)
    return exact(value)


def integer_operand(position: int, value: Value, wanted: str = "integer") -> int:
    """Operand `position` as an integer: `2.0` is one, `2.5` and what is not a number are not."""
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
    """Operand `position` as an integer that fits 64 bits and is written as one: no `2e0`."""
    if not is_number(value):
        refuse_operand(position, "number", kind_name(value))
    integer = integer_of(value)  # type: ignore[arg-type] # a number by now
    if integer is not None:
        return integer
    refuse_operand(position, "integer number", "floating-point number")


def integer_result(value: int) -> int:
    """A computed integer; past `MAX_BITS` it is an error, not more memory."""
    check_size(value, 0)
    return value


def binary_result(mantissa: int, exponent: int) -> int | Number:
    """The number for a computed form; past `MAX_BITS` it is an error, not more memory."""
    check_size(mantissa, exponent)
    return from_binary(mantissa, exponent)


def number_result(value: Fraction) -> int | Number:
    """The number for a computed fraction; past `MAX_BITS` it is an error, not more memory."""
    check_size(value.numerator, 1 - value.denominator.bit_length())
    return from_fraction(value)


def check_size(mantissa: int, exponent: int) -> None:
    """Refuse a computed form past `MAX_BITS`."""
    size = mantissa.bit_length() + exponent - 1
    if abs(size) > MAX_BITS and mantissa:
        raise LimitError(f"number is too {'large' if size > 0 else 'small'}")
