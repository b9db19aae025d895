"""Arithmetic: the operators `+ - * / %`, rounding, ranges of integers, random integers.

Integers are exact at any size up to `MAX_BITS`. What is not an integer is rounded to OPA's 64 bits
of mantissa after every operation. A zero keeps the sign that floating point gives it, since OPA
prints it (`0 / -1` is `-0`). A range holds at most `MAX_RANGE` numbers.
"""

from __future__ import annotations

from typing import Any, Final

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import (
    MAX_BITS,
    binary_operand,
    binary_result,
    integer_operand,
    integer_result,
    is_number,
    machine_integer,
)
from doorward.rego.builtins.registry.signature import any_, any_of, array, number, set_, string
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.numbers import (
    AnyNumber,
    Number,
    add,
    divide,
    is_integer,
    multiply,
    number_text,
    rounded,
    whole_part,
)
from doorward.rego.values import Key, Value

__all__: list[str] = []

MAX_RANGE: Final = 4_000_000

_PIECE: Final = 1 << 15
"""The numbers of a range that are made between two checks of the deadline."""

_LARGE: Final = 1 << MAX_BITS
_HALF: Final = 1, -1
_NEGATIVE_ZERO: Final = "-0"


def _check(x: Value, y: Value) -> None:
    """Raise OperandError for the first operand that is not a number; return None if both are."""
    for position, operand in enumerate((x, y), start=1):
        if not is_number(operand):
            raise operand_error(position, operand, "number")


def _is_negative(x: AnyNumber) -> bool:
    return number_text(x).startswith("-")


@builtin("plus", number, number, returns=number, infix="+", checked=False, inverse=inverse("plus"))
def plus(x: Any, y: Any) -> int | Number:
    """The sum of two numbers: exact for integers, otherwise rounded to 64 bits of mantissa.
    LimitError for a result with too many digits.
    """
    if type(x) is int and type(y) is int:
        total = x + y
        if -_LARGE < total < _LARGE:
            return total
    _check(x, y)
    (m, e), (n, f) = a, b = binary_operand(x), binary_operand(y)
    if not e and not f:
        return integer_result(m + n)
    return binary_result(*add(rounded(*a), rounded(*b)))


@builtin(
    "minus",
    any_of(number, set_(any_)),
    any_of(number, set_(any_)),
    returns=any_of(number, set_(any_)),
    infix="-",
    checked=False,
    inverse=inverse("minus"),
)
def minus(x: Any, y: Any) -> int | Number | frozenset[Key]:
    """The difference of two numbers (exact for integers, otherwise rounded to 64 bits of mantissa),
    or the members of the first set that the second one lacks. A number and a set together are an
    error; LimitError for a result with too many digits.
    """
    if type(x) is int and type(y) is int:
        rest = x - y
        if -_LARGE < rest < _LARGE:
            return rest
    if type(x) is frozenset and type(y) is frozenset:
        return x - y
    if type(x) is not frozenset and not is_number(x):
        raise operand_error(1, x, "number", "set")
    if type(x) is frozenset or not is_number(y):
        raise operand_error(2, y, "set" if is_number(y) else "number")
    (m, e), (n, f) = a, _ = binary_operand(x), binary_operand(y)
    if not e and not f:
        return integer_result(m - n)
    return binary_result(*add(rounded(*a), rounded(-n, f)))


@builtin("mul", number, number, returns=number, infix="*", checked=False, inverse=inverse("mul"))
def mul(x: Any, y: Any) -> int | Number:
    """The product of two numbers: exact for integers, otherwise rounded to 64 bits of mantissa.
    LimitError for a result with too many digits.
    """
    if type(x) is int and type(y) is int:
        product = x * y
        if -_LARGE < product < _LARGE:
            return product
    _check(x, y)
    (m, e), (n, f) = a, b = binary_operand(x), binary_operand(y)
    if not e and not f:
        return integer_result(m * n)
    if not m or not n:
        return 0 if _is_negative(x) == _is_negative(y) else Number(_NEGATIVE_ZERO)
    return binary_result(*multiply(rounded(*a), rounded(*b)))


@builtin("div", number, number, returns=number, infix="/", checked=False, inverse=inverse("div"))
def div(x: Any, y: Any) -> int | Number:
    """The quotient of two numbers: exact if it is an integer, otherwise rounded to 64 bits of
    mantissa. Dividing by zero is an error; LimitError for a result with too many digits.
    """
    # Without 0, whose sign is found below.
    if type(x) is int and type(y) is int and x and y:
        quotient, rest = divmod(x, y)
        if not rest:
            return quotient
    _check(x, y)
    (m, e), (n, f) = a, b = binary_operand(x), binary_operand(y)
    if not n:
        raise BuiltinError("divide by zero")
    if not m:
        return Number(_NEGATIVE_ZERO) if _is_negative(x) != _is_negative(y) else 0
    # An integer is exact at any size; all else is a quotient of rounded operands.
    quotient, rest = divmod(m << e - f, n) if e > f else divmod(m, n << f - e)
    if not rest:
        return integer_result(quotient)
    return binary_result(*divide(rounded(*a), rounded(*b)))


@builtin("rem", number, number, returns=number, infix="%", checked=False, inverse=inverse("rem"))
def rem(x: Any, y: Any) -> int:
    """The remainder of an integer division, with the sign of `x`; an error if one is not an integer
    or `y` is 0.
    """
    if type(x) is int and type(y) is int:
        dividend, divisor = x, y
    else:
        _check(x, y)
        one, other = binary_operand(x), binary_operand(y)
        if not is_integer(*one) or not is_integer(*other):
            raise BuiltinError("modulo on floating-point number")
        dividend, divisor = whole_part(*one), whole_part(*other)
    if divisor == 0:
        raise BuiltinError("modulo by zero")
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


@builtin("abs", number, returns=number, inverse=inverse("abs"))
def abs_(x: AnyNumber) -> int | Number:
    """The absolute value of a number: exact for an integer, otherwise rounded to 64 bits of
    mantissa.
    """
    mantissa, exponent = binary_operand(x)
    if exponent:
        return binary_result(*rounded(abs(mantissa), exponent))
    return integer_result(abs(mantissa))


@builtin("round", number, returns=number, inverse=inverse("rounding"))
def round_(x: AnyNumber) -> int:
    """The nearest integer, exact at any size; a half goes away from zero."""
    mantissa, exponent = form = binary_operand(x)
    if not exponent:
        return mantissa
    mantissa, exponent = add((abs(mantissa), exponent), _HALF)
    nearest = whole_part(mantissa, exponent)
    return -nearest if form[0] < 0 else nearest


@builtin("ceil", number, returns=number, inverse=inverse("rounding"))
def ceil(x: AnyNumber) -> int:
    """The smallest integer not below the number; but as in OPA, 1 for a number between -1 and 0."""
    form = binary_operand(x)
    integral = whole_part(*form)
    return integral if integral < 0 or is_integer(*form) else integral + 1


@builtin("floor", number, returns=number, inverse=inverse("rounding"))
def floor(x: AnyNumber) -> int:
    """The largest integer not above the number; but as in OPA, 0 for a number between -1 and 0."""
    form = binary_operand(x)
    integral = whole_part(*form)
    return integral - 1 if integral < 0 and not is_integer(*form) else integral


@builtin(
    "numbers.range",
    number,
    number,
    returns=array(number),
    checked=False,
    context=True,
    inverse=inverse("range"),
)
def numbers_range(context: Context, a: Value, b: Value) -> list[int]:
    """The integers from `a` to `b`, both included, upwards or downwards. Operands that are not
    integers are an error; LimitError for more than `MAX_RANGE` numbers.
    """
    return _range(context, integer_operand(1, a), integer_operand(2, b), 1)


@builtin(
    "numbers.range_step", number, number, number, returns=array(number), checked=False, context=True
)
def numbers_range_step(context: Context, a: Value, b: Value, step: Value) -> list[int]:
    """The integers from `a` up or down to `b`, at intervals of `step`; `b` is included if a step
    meets it. A `step` that is not above 0, or an operand that is not an integer, is an error;
    LimitError for more than `MAX_RANGE` numbers.
    """
    start, stop = integer_operand(1, a), integer_operand(2, b)
    distance = integer_operand(3, step)
    if distance <= 0:
        raise BuiltinError("numbers.range_step: step must be a positive integer")
    return _range(context, start, stop, distance)


def _range(context: Context, start: int, stop: int, step: int) -> list[int]:
    """The integers from `start` to `stop` (included, if a step meets it), up or down, `step` (above
    0) apart. LimitError for more than `MAX_RANGE`. Checks the deadline on the way.
    """
    count = abs(stop - start) // step + 1
    if count > MAX_RANGE:
        raise LimitError(f"range holds more than {MAX_RANGE} numbers")
    numbers = range(start, stop + 1, step) if start <= stop else range(start, stop - 1, -step)
    if count <= _PIECE:
        return list(numbers)
    items: list[int] = []
    for first in range(0, count, _PIECE):
        context.check_deadline()
        items += numbers[first : first + _PIECE]
    return items


@builtin("rand.intn", string, number, returns=number, pure=False, context=True)
def rand_intn(context: Context, name: str, n: AnyNumber) -> int:
    """A random integer from 0 up to, not including, the absolute value of `n`; 0 if `n` is 0. The
    same for equal `name` and `n` within one decision. An `n` that is not an integer of 64 bits is
    an error.
    """
    bound = abs(machine_integer(2, n))
    if bound == 0:
        return 0
    key = ("rand.intn", name, bound)
    drawn = context.drawn.get(key)
    if type(drawn) is int:
        return drawn
    # 16 bytes more than the bound has: the bias of the remainder is below 2**-128.
    size = bound.bit_length() // 8 + 17
    value = int.from_bytes(context.environment.random(size), "big") % bound
    context.drawn[key] = value
    return value
