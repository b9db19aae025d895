"""Bitwise operations on integers of any size, negative ones in two's complement without an end.

A shift to the left that would give more than `MAX_BITS` bits is an error.
"""

from __future__ import annotations

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.operands import MAX_BITS, integer_operand, refuse_operand
from doorward.rego.builtins.registry.signature import number
from doorward.rego.errors import LimitError
from doorward.rego.values import Value

__all__: list[str] = []


@builtin("bits.and", number, number, returns=number, checked=False, inverse=inverse("bits", "and"))
def bits_and(x: Value, y: Value) -> int:
    """The bits that both `x` and `y` have. A number that is not an integer is an error."""
    return integer_operand(1, x) & integer_operand(2, y)


@builtin("bits.or", number, number, returns=number, checked=False, inverse=inverse("bits", "or"))
def bits_or(x: Value, y: Value) -> int:
    """The bits that `x` or `y` has. A number that is not an integer is an error."""
    return integer_operand(1, x) | integer_operand(2, y)


@builtin("bits.xor", number, number, returns=number, checked=False, inverse=inverse("bits", "xor"))
def bits_xor(x: Value, y: Value) -> int:
    """The bits that `x` or `y` has, not both. A number that is not an integer is an error."""
    return integer_operand(1, x) ^ integer_operand(2, y)


@builtin("bits.negate", number, returns=number, checked=False, inverse=inverse("bits", "negate"))
def bits_negate(x: Value) -> int:
    """`x` with every bit turned over: `-x - 1`. A number that is not an integer is an error."""
    return ~integer_operand(1, x)


@builtin("bits.lsh", number, number, returns=number, checked=False, inverse=inverse("bits", "lsh"))
def bits_lsh(x: Value, s: Value) -> int:
    """`x` shifted left by `s` bits. A negative `s`, or an operand that is not an integer, is an
    error; LimitError for a result of more than `MAX_BITS` bits.
    """
    value, shift = integer_operand(1, x), _shift(s)
    if value and value.bit_length() + shift > MAX_BITS:
        raise LimitError("number is too large")
    return value << shift if value else 0


@builtin("bits.rsh", number, number, returns=number, checked=False, inverse=inverse("bits", "rsh"))
def bits_rsh(x: Value, s: Value) -> int:
    """`x` shifted right by `s` bits, its sign kept. A negative `s`, or an operand that is not an
    integer, is an error.
    """
    return integer_operand(1, x) >> _shift(s)


def _shift(s: Value) -> int:
    """Return operand 2 as a number of bits; OperandError if it is negative or not an integer."""
    shift = integer_operand(2, s)
    if shift < 0:
        refuse_operand(2, "an unsigned integer number", "a negative integer")
    return shift
