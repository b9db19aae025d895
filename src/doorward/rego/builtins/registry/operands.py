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
"""A computed integer has at most this many bits, and a computed fraction is at least 2 to the power
of minus this: as many digits as a number in a text may have. More is a LimitError.
"""


def is_number(value: object) -> bool:
    """Return True if `value` is a Rego number (a boolean is not)."""
    return type(value) in CLASSES


def refuse_operand(position: int, expected: str, got: str) -> NoReturn:
    """Raise OperandError in OPA's words: `operand 2 must be string but got number`. `position`
    counts from 1.
    """
    raise OperandError(f"operand {position} must be {expected} but got {got}")


def binary_operand(value: AnyNumber) -> Binary:
    """The number as `(mantissa, exponent)` of a power of 2. BuiltinError for infinity and NaN,
    LimitError for a literal beyond `MAX_BITS`.
    """
    try:
        form = binary(value)
    except ValueError as error:
        raise BuiltinError(str(error)) from None
    if form[0].bit_length() > MAX_BITS + MANTISSA_BITS:
        raise LimitError("number is too large")
    return form


def exact_operand(value: AnyNumber) -> int | Fraction:
    """The exact value of a number operand, an int if it has no fraction. BuiltinError for infinity
    and NaN, LimitError for a literal beyond `MAX_BITS`.
    """
    binary_operand(value)
    return exact(value)


def integer_operand(position: int, value: Value, expected: str = "integer") -> int:
    """Return operand `position` (from 1) as an integer; `2.0` counts as one. OperandError for a
    fraction, or for another kind of value; its text then names `expected`. BuiltinError for
    infinity and NaN, LimitError for a literal beyond `MAX_BITS`.
    """
    if type(value) is int:
        return value
    if not is_number(value):
        refuse_operand(position, expected, kind_name(value))
    number: Any = value
    exact = exact_operand(number)
    if type(exact) is not int:
        refuse_operand(position, "integer number", "floating-point number")
    return exact


def machine_integer(position: int, value: Value) -> int:
    """Return operand `position` (from 1) as an integer of 64 bits; `2.0` counts as one.
    OperandError for a number that has a fraction or an exponent (`2e0`) or does not fit, and for
    other kinds.
    """
    if not is_number(value):
        refuse_operand(position, "number", kind_name(value))
    integer = integer_of(value)  # type: ignore[arg-type] # a number by now
    if integer is not None:
        return integer
    refuse_operand(position, "integer number", "floating-point number")


def integer_result(value: int) -> int:
    """Return a computed integer unchanged; LimitError if it is beyond `MAX_BITS`."""
    check_size(value, 0)
    return value


def binary_result(mantissa: int, exponent: int) -> int | Number:
    """The number `mantissa * 2**exponent`; LimitError beyond `MAX_BITS`."""
    check_size(mantissa, exponent)
    return from_binary(mantissa, exponent)


def number_result(value: Fraction) -> int | Number:
    """The number for a computed fraction; LimitError beyond `MAX_BITS`."""
    check_size(value.numerator, 1 - value.denominator.bit_length())
    return from_fraction(value)


def check_size(mantissa: int, exponent: int) -> None:
    """Raise LimitError if the number `mantissa * 2**exponent` is too large, or too close to 0, for
    `MAX_BITS`.
    """
    size = mantissa.bit_length() + exponent - 1
    if abs(size) > MAX_BITS and mantissa:
        raise LimitError(f"number is too {'large' if size > 0 else 'close to 0'}")
