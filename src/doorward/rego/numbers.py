"""Rego's numbers: text that is computed with as OPA computes.

Integers are plain `int`, exact at any size (OPA rounds them to 64 bits of mantissa; ours is
right). Everything else is a `Number`, which keeps the text it was written with until it is
computed with. Results that are not integers are rounded to a binary mantissa of 64 bits, half to
even, and printed with the fewest digits that read back to the same value: OPA's `big.Float`.

Arithmetic works on the *binary form* of a number: the integers `(m, e)` of `m * 2**e`, with `e` 0
for an integer of any size, else `e` below 0 and `m` odd, of at most 64 bits. Where a text that is
not an integer rounds to one, `m` is even and `e` -1: it is computed with as what is not an integer.
The text of a computed number is made when it is printed.

What a number *means* lives here; how it compares with other values lives in `values`.
"""

from __future__ import annotations

import math
import re
import sys
from functools import lru_cache
from math import ldexp
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "CLASSES",
    "DOUBLE_BITS",
    "HASH_MODULUS",
    "MANTISSA_BITS",
    "MAX_DIGITS",
    "AnyNumber",
    "Binary",
    "Number",
    "add",
    "binary",
    "compare_numbers",
    "divide",
    "exact",
    "from_binary",
    "from_double",
    "from_fraction",
    "hash_integer",
    "integer_of",
    "is_integer",
    "is_large",
    "multiply",
    "number_text",
    "parse_lean",
    "parse_literal",
    "parse_number",
    "quotient",
    "rounded",
    "whole_part",
]

MAX_DIGITS: Final = 4096
"""The most characters of a number in data, and its largest decimal exponent; a longer one is an
error.
"""

MANTISSA_BITS: Final = 64
DOUBLE_BITS: Final = 53
_SHAPE: Final = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\Z", re.ASCII)

Binary: TypeAlias = tuple[int, int]
"""A number as two integers: `(m, e)` stands for `m * 2**e`."""


class Number(float):
    """A number that is not written as a plain integer: `1.5`, `1.0`, `1e3`, `-0`. For Python's
    libraries it is a `float` (the nearest value, `json.dumps` works), for Rego it is its own text.
    Equality, order and hash are by exact value, so that `Number("1.0") == 1`.
    """

    # One slot, since data may hold millions: the text, or None if it is that of the float; once it
    # was computed with `(m, e, text)`, where the text of a result is None until it is printed.
    __slots__ = ("_known",)

    _known: str | tuple[int, int, str | None] | None

    def __new__(cls, text: str) -> Number:
        self = float.__new__(cls, text)
        self._known = text
        return self

    @property
    def text(self) -> str:
        """The text as it was written; of a computed number, the fewest digits that read back to
        it.
        """
        known = self._known
        if type(known) is str:
            return known
        if type(known) is not tuple:
            return _repr(self)
        mantissa, exponent, text = known
        if text is None:
            text = _shortest(mantissa, exponent)
            self._known = mantissa, exponent, text
        return text

    @property
    def binary(self) -> Binary:
        """The binary form `(m, e)` for computing, read from the text at the first access."""
        known = self._known
        if isinstance(known, tuple):
            return known[:2]
        text = _repr(self) if known is None else known
        mantissa, exponent = _read(text)
        self._known = mantissa, exponent, text
        return mantissa, exponent

    @property
    def exact(self) -> int | Fraction:
        """The value used for computing: an `int` if it is integral, else a Fraction rounded to 64
        bits of mantissa.
        """
        return exact(self)

    def __eq__(self, other: object) -> bool:
        kind = type(other)
        if kind is Number or kind is int:
            return compare_numbers(self, other) == 0  # type: ignore[arg-type] # of these by now
        if kind is float:
            return math.isfinite(other) and compare_numbers(self, other) == 0  # type: ignore[arg-type]
        return self.exact == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: float) -> bool:
        return (
            compare_numbers(self, other) < 0
            if type(other) in CLASSES
            else float.__lt__(self, other)
        )

    def __le__(self, other: float) -> bool:
        return (
            compare_numbers(self, other) <= 0
            if type(other) in CLASSES
            else float.__le__(self, other)
        )

    def __gt__(self, other: float) -> bool:
        return (
            compare_numbers(self, other) > 0
            if type(other) in CLASSES
            else float.__gt__(self, other)
        )

    def __ge__(self, other: float) -> bool:
        return (
            compare_numbers(self, other) >= 0
            if type(other) in CLASSES
            else float.__ge__(self, other)
        )

    def __hash__(self) -> int:
        integer = _integer(self)
        # Not that of the float, which thousands of numbers may share.
        return hash(self.binary) if integer is None else hash_integer(integer)

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Number], tuple[str]]:
        return Number, (self.text,)

    __str__ = __repr__


CLASSES: Final = frozenset({int, float, Number})
"""The Python classes of Rego's numbers; a boolean is not a number."""

AnyNumber: TypeAlias = int | float
"""A Rego number: `int` (never `bool`), `Number`, or a plain `float` from Python data."""


def _integer(number: AnyNumber) -> int | None:
    """Return the integer that the number equals once it is rounded to 64 bits of mantissa; None if
    there is none.
    """
    mantissa, exponent = binary(number)
    if not exponent:
        return mantissa
    return None if mantissa & 1 else mantissa >> 1


def is_large(number: AnyNumber) -> bool:
    """Return True if the number is an integer, in any notation, of at least `HASH_MODULUS` in
    magnitude: Python gives such integers the hashes of smaller ones.
    """
    integer = number if type(number) is int else _integer(number)
    return integer is not None and not -HASH_MODULUS < integer < HASH_MODULUS


def hash_integer(integer: int) -> int:
    """Return a hash of an integer for which a client cannot construct collisions: Python's own
    below `HASH_MODULUS` in magnitude, otherwise that of its bytes, since Python's is a remainder.
    """
    if -HASH_MODULUS < integer < HASH_MODULUS:
        return hash(integer)
    return hash(integer.to_bytes(integer.bit_length() // 8 + 1, "big", signed=True))


HASH_MODULUS: Final = sys.hash_info.modulus
"""Integers below this are their own hashes in Python."""


def compare_numbers(a: float, b: float) -> int:
    """Return a negative integer if `a` is less than `b`, 0 if they are equal, a positive one if `a`
    is greater.
    """
    (m, e), (n, f) = binary(a), binary(b)
    # Different signs need no shifting, which would be expensive for large exponents.
    if (m < 0) != (n < 0) or e == f:
        return m - n
    return (m << e - f) - n if e > f else m - (n << f - e)


def parse_number(text: str, max_exponent: int = MAX_DIGITS) -> int | Number:
    """Parse a JSON number: an `int` if it has no point or exponent, otherwise a `Number` with its
    text; `-0` is a `Number` too. Leading zeros, `1.` and `.5` are accepted. ValueError if it is
    invalid or longer than `MAX_DIGITS` characters, or if the exponent of a number other than 0
    exceeds `max_exponent` in magnitude.
    """
    if len(text) > MAX_DIGITS:
        raise ValueError(f"number is longer than {MAX_DIGITS} characters")
    if text.isdecimal() and text.isascii():
        return int(text)
    if not _SHAPE.match(text):
        raise ValueError("not a number")
    mantissa, _, exponent = text.lower().partition("e")
    if exponent:
        if not mantissa.strip("-0."):
            return _zero(text)
        if abs(int(exponent)) > max_exponent:
            raise ValueError("number exponent is out of range")
    elif "." not in mantissa and text != "-0":
        return int(text)
    return Number(text)


def _zero(text: str) -> Number:
    """Return the number zero written as `text`, such as `0e999`; its power of ten is never
    computed.
    """
    number = Number(text)
    number._known = 0, 0, text  # whatever the exponent: 10 to its power is never computed
    return number


def parse_literal(text: str) -> int | Number:
    """Parse a number in a policy's text, whose exponent may be as large as OPA allows. ValueError
    if it is invalid, too large, or too close to 0.
    """
    number = parse_number(text, _LITERAL_BITS // 3)
    if type(number) is Number and ("e" in text or "E" in text):
        mantissa, exponent = number.binary
        size = mantissa.bit_length() + exponent - 1
        if abs(size) > _LITERAL_BITS:
            raise ValueError("number literal is out of range")
    return number


_LITERAL_BITS: Final = 100_000
"""The largest binary exponent of a number in a policy, and minus the smallest one, as in OPA."""


def parse_lean(text: str) -> int | Number:
    """Return the number for a valid JSON number with a point or exponent. The text of a short one
    is not stored if Python's `repr` gives the same, which halves the memory. ValueError if it is
    longer than `MAX_DIGITS` characters or its exponent is out of range.
    """
    if len(text) > _SHORT or "e" in text or "E" in text:
        return parse_number(text)
    number = _new(Number, text)
    number._known = None if _repr(number) == text else text
    return number


_SHORT: Final = 17
_new: Final = float.__new__
_repr: Final = float.__repr__


def exact(number: AnyNumber) -> int | Fraction:
    """Return the value that is computed with: an `int` if the number is integral, otherwise a
    Fraction rounded to 64 bits of mantissa. ValueError for a float that is not finite.
    """
    if type(number) is int:
        return number
    mantissa, exponent = binary(number)
    if not exponent:
        return mantissa
    from fractions import Fraction  # and `decimal`: few policies compute with fractions

    return Fraction(mantissa, 1 << -exponent)


def binary(number: AnyNumber) -> Binary:
    """Return the binary form `(m, e)` of a number, which stands for `m * 2**e`. ValueError for a
    float that is not finite.
    """
    if type(number) is int:
        return number, 0
    if type(number) is Number:
        known = number._known
        return (known[0], known[1]) if type(known) is tuple else number.binary
    if not math.isfinite(number):
        raise ValueError("NaN and infinite floats are not numbers of Rego")
    return _read(_repr(number))


def from_fraction(value: int | Fraction) -> int | Number:
    """Return the number for a computed value: an `int` itself, a `Fraction` rounded to 64 bits of
    mantissa.
    """
    if type(value) is int:
        return value
    return from_binary(*quotient(value.numerator, value.denominator))


def from_binary(mantissa: int, exponent: int) -> int | Number:
    """Return `mantissa * 2**exponent` as a number. An integer of more than `MANTISSA_BITS` bits is
    rounded to the digits that OPA prints.
    """
    if exponent >= 0:
        if mantissa.bit_length() + exponent <= MANTISSA_BITS:
            return mantissa << exponent
        return _integer_part(_shortest(*rounded(mantissa, exponent)))
    size = mantissa.bit_length()
    # The float is the one nearest to the text. That is also nearest to the mantissa, but where the
    # mantissa lies between two floats, or the float has fewer bits than others.
    if size == 54 or size + exponent < -1000:
        text = _shortest(mantissa, exponent)
        number = _new(Number, text)
        number._known = mantissa, exponent, text
    else:
        number = _new(Number, ldexp(mantissa, exponent))
        number._known = mantissa, exponent, None
    return number


def from_double(mantissa: int, exponent: int) -> int | Number:
    """Return `mantissa * 2**exponent`, which must be rounded to `DOUBLE_BITS` of mantissa already,
    as the number with the fewest digits; an `int` if `exponent` is not negative.
    """
    if exponent >= 0 and mantissa.bit_length() + exponent <= DOUBLE_BITS:
        return mantissa << exponent
    text = _shortest(mantissa, exponent, DOUBLE_BITS)
    return _integer_part(text) if exponent >= 0 else Number(text)


def _integer_part(text: str) -> int:
    """Return the integer part, rounded towards zero, of a number that may be written with a point
    or exponent.
    """
    from fractions import Fraction

    return int(Fraction(text))


def integer_of(number: AnyNumber) -> int | None:
    """Return the number as an index: the integer of 64 bits that it is written as, None if it is
    not one. As in OPA `1.0` and `-0` are indices, `1e0` is not, nor `1.0` with more than 18 digits.
    """
    if type(number) is int:
        return number if -_INT64 <= number < _INT64 else None
    written = _WRITTEN_INTEGER.fullmatch(number_text(number))
    if written is None or len(written[2] + (written[3] or "")) > _MAX_WRITTEN:
        return None
    return int(written[1] + written[2])


_WRITTEN_INTEGER: Final = re.compile(r"(-?)([0-9]++)(?:\.(0*+))?")
_MAX_WRITTEN: Final = 18
_INT64: Final = 1 << 63


def number_text(number: AnyNumber) -> str:
    """Return the number as Rego and JSON print it: the text that it was written with, or for a
    computed one the fewest digits that read back.
    """
    if type(number) is int:
        return str(number)
    if type(number) is Number:
        return number.text
    exponent = binary(number)[1]
    # A float's digits are fewer than what 64 bits tell apart, so they are the shortest here too.
    return _lay_out(_repr(number)) if exponent else _repr(number)


@lru_cache(maxsize=4096)
def _read(text: str) -> Binary:
    """Return the binary form `(m, e)`, of `m * 2**e`, of a number text: `e` is 0 for what is an
    integer, of any size; other numbers are rounded to 64 bits, and have `e` below 0. Cached. The
    text must be a number of JSON, with a bounded exponent.
    """
    digits, _, power = text.lower().partition("e")
    integer, _, rest = digits.partition(".")
    scaled = int(integer + rest)
    scale = int(power or 0) - len(rest)
    if scale >= 0 or not scaled:
        return scaled * 10 ** max(scale, 0), 0
    power_of_ten = 10**-scale
    value, remainder = divmod(scaled, power_of_ten)
    if not remainder:
        return value, 0
    mantissa, exponent = quotient(scaled, power_of_ten)
    return (mantissa, exponent) if exponent < 0 else (mantissa << exponent + 1, -1)


# Arithmetic on binary forms. Results are rounded to the mantissa, integers too; where the value is
# an integer the exponent is at least 0, and `from_binary` makes the integer of it.


def add(a: Binary, b: Binary) -> Binary:
    """Return the sum of two numbers in binary form, rounded to the mantissa."""
    (m, e), (n, f) = a, b
    if e > f:
        return rounded((m << e - f) + n, f)
    return rounded(m + (n << f - e), e)


def multiply(a: Binary, b: Binary) -> Binary:
    """Return the rounded product of two forms."""
    return rounded(a[0] * b[0], a[1] + b[1])


def divide(a: Binary, b: Binary) -> Binary:
    """Return the rounded quotient of two forms; `b` is not zero."""
    mantissa, exponent = quotient(a[0], b[0])
    return rounded(mantissa, exponent + a[1] - b[1])


def rounded(mantissa: int, exponent: int, bits: int = MANTISSA_BITS) -> Binary:
    """Return `mantissa * 2**exponent` rounded to `bits` of mantissa, half to even, with an odd
    mantissa, so that `exponent` may grow; (0, 0) for 0.
    """
    if not mantissa:
        return 0, 0
    excess = mantissa.bit_length() - bits
    if excess > 0:
        rest = mantissa & (1 << excess) - 1
        half = 1 << excess - 1
        mantissa >>= excess
        exponent += excess
        if rest > half or (rest == half and mantissa & 1):
            mantissa += 1
    if mantissa & 1:
        return mantissa, exponent
    zeros = (mantissa & -mantissa).bit_length() - 1
    return mantissa >> zeros, exponent + zeros


def quotient(n: int, d: int, bits: int = MANTISSA_BITS) -> Binary:
    """Return n / d in binary form, rounded to `bits` of mantissa; `d` is not zero."""
    # Two bits more than the mantissa has, and one for all that follow, say how to round.
    shift = bits + 2 - n.bit_length() + d.bit_length()
    if shift >= 0:
        integer, rest = divmod(n << shift, d)
    else:
        integer, rest = divmod(n, d << -shift)
    return rounded(integer << 1 | (rest != 0), -shift - 1, bits)


def is_integer(mantissa: int, exponent: int) -> bool:
    """Return True if the form, of a number or a result, stands for an integer."""
    return exponent >= 0 or not mantissa & 1


def whole_part(mantissa: int, exponent: int) -> int:
    """Return the integer part of `mantissa * 2**exponent`, truncated toward zero."""
    if exponent >= 0:
        return mantissa << exponent
    integral = abs(mantissa) >> -exponent
    return -integral if mantissa < 0 else integral


def _shortest(mantissa: int, exponent: int, bits: int = MANTISSA_BITS) -> str:
    """Return the fewest digits that round back to `mantissa * 2**exponent`, a value other than zero
    that is already rounded to `bits` bits, in the layout of Go's `Text('g', -1)`; `bits` are 64 by
    default.
    """
    magnitude = abs(mantissa)
    n, d = (magnitude << exponent, 1) if exponent >= 0 else (magnitude, 1 << -exponent)
    # exponent10 such that 10**exponent10 <= n / d < 10**(exponent10 + 1)
    exponent10 = (n.bit_length() - d.bit_length()) * 30103 // 100_000
    while n < d * 10**exponent10 if exponent10 >= 0 else n * 10**-exponent10 < d:
        exponent10 -= 1
    while n >= d * 10 ** (exponent10 + 1) if exponent10 >= -1 else n * 10 ** (-exponent10 - 1) >= d:
        exponent10 += 1
    form = magnitude, exponent
    # 21 digits tell apart what 64 bits do. What fewer digits do more do as well, but for a power of
    # two, where values lie closer together below than above.
    low, high = 1, 21
    while low < high and magnitude != 1:
        middle = (low + high) // 2
        scale = middle - 1 - exponent10
        if _reads_back(_digits(n, d, scale), scale, form, bits):
            high = middle
        else:
            low = middle + 1
    while True:
        scale = low - 1 - exponent10
        digits = _digits(n, d, scale)
        if _reads_back(digits, scale, form, bits):
            break
        low += 1
    text = str(digits)
    sign = "-" if mantissa < 0 else ""
    return sign + _layout(text.rstrip("0"), exponent10 + len(text) - low)


def _digits(n: int, d: int, scale: int) -> int:
    """Return n / d * 10**scale rounded half to even to an integer."""
    if scale >= 0:
        n *= 10**scale
    else:
        d *= 10**-scale
    digits, rest = divmod(n, d)
    if rest * 2 > d or (rest * 2 == d and digits & 1):
        digits += 1
    return digits


def _reads_back(digits: int, scale: int, form: Binary, bits: int) -> bool:
    """Return True if digits / 10**scale, rounded to `bits` bits of mantissa, equals `form`."""
    if scale >= 0:
        return quotient(digits, 10**scale, bits) == form
    return rounded(digits * 10**-scale, 0, bits) == form


def _lay_out(text: str) -> str:
    """Return the text of a float that is not an integer in the layout of Go's `Text('g', -1)`: with
    an exponent below 1e-4 and from 1e6 on.
    """
    mantissa, _, power = text.lstrip("-").partition("e")
    integer_digits, _, rest = mantissa.partition(".")
    digits = (integer_digits + rest).lstrip("0")
    exponent10 = (
        len(integer_digits) - 1 + int(power or 0) - (len(integer_digits + rest) - len(digits))
    )
    return ("-" if text[0] == "-" else "") + _layout(digits.rstrip("0"), exponent10)


def _layout(digits: str, exponent10: int) -> str:
    """Return the significant digits `d.ddd * 10**exponent10` as text without a sign: in exponent
    form below 1e-4 and from 1e6 on. Integers come here only from 2**64 on.
    """
    if exponent10 < -4 or exponent10 >= 6:
        point = "." + digits[1:] if len(digits) > 1 else ""
        return f"{digits[0]}{point}e{'-' if exponent10 < 0 else '+'}{abs(exponent10):02d}"
    if exponent10 < 0:
        return "0." + "0" * (-exponent10 - 1) + digits
    return digits[: exponent10 + 1] + "." + digits[exponent10 + 1 :]
