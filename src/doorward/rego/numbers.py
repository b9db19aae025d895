"""Rego's numbers: text that is computed with as OPA computes.

Integers are plain `int`, exact at any size (OPA rounds them to 64 bits of mantissa; ours is
right). Everything else is a `Number`, which keeps the text it was written with until it is
computed with. Results that are not integers are rounded to a binary mantissa of 64 bits, half to
even, and printed with the fewest digits that read back to the same value: OPA's `big.Float`.

What a number *means* lives here; how it compares with other values lives in `values`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

__all__ = [
    "MAX_DIGITS",
    "AnyNumber",
    "Number",
    "exact",
    "from_fraction",
    "number_text",
    "parse_lean",
    "parse_literal",
    "parse_number",
    "round_mantissa",
]

MAX_DIGITS: Final = 4096
"""Longest number text, and largest decimal exponent, that data may have; more is an error."""

MANTISSA_BITS: Final = 64
_SHAPE: Final = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\Z", re.ASCII)


class Number(float):
    """A number that is not a plain integer text: `1.5`, `1.0`, `1e3`, `-0`.

    A `float` to Python's libraries (nearest value, `json.dumps` works), its own text to Rego.
    Equality and hash are by exact value, so that `Number("1.0") == 1`.
    """

    # One slot, since data may hold millions: the text, nothing if it is that of the float, and once
    # it was computed with the exact value, beside the text where that is not the float's.
    __slots__ = ("_known",)

    _known: str | int | Fraction | tuple[str, int | Fraction] | None

    def __new__(cls, text: str) -> Number:
        self = float.__new__(cls, text)
        self._known = text
        return self

    @property
    def text(self) -> str:
        """The text that it was written with."""
        known = self._known
        if type(known) is str:
            return known
        return known[0] if type(known) is tuple else float.__repr__(self)

    @property
    def exact(self) -> int | Fraction:
        """The value computed with: an `int` where integral, else rounded to the mantissa."""
        known = self._known
        if isinstance(known, tuple):
            return known[1]
        if isinstance(known, str):
            value = _read(known)
            self._known = known, value
        elif known is None:
            self._known = value = _read(float.__repr__(self))
        else:
            return known
        return value

    def __eq__(self, other: object) -> bool:
        return self.exact == (other.exact if type(other) is Number else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.exact)

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Number], tuple[str]]:
        return Number, (self.text,)

    __str__ = __repr__


AnyNumber: TypeAlias = int | float
"""`int` (never `bool`), `Number`, or a plain `float` that came in with Python data."""


def parse_number(text: str, max_exponent: int = MAX_DIGITS) -> int | Number:
    """The number that a JSON number text stands for; ValueError if it is none or too large.

    `-0` keeps its sign as text, as in OPA.
    """
    if len(text) > MAX_DIGITS:
        raise ValueError("number has too many digits")
    if text.isdecimal() and text.isascii():
        return int(text)
    if not _SHAPE.match(text):
        raise ValueError("not a number")
    mantissa, _, exponent = text.lower().partition("e")
    if exponent:
        if not mantissa.strip("-0."):
            return _zero(text)
        if len(exponent) > 6 or abs(int(exponent)) > max_exponent:
            raise ValueError("number exponent is out of range")
    elif "." not in mantissa and text != "-0":
        return int(text)
    return Number(text)


def _zero(text: str) -> Number:
    number = Number(text)
    number._known = text, 0  # whatever the exponent: 10 to its power is never computed
    return number


def parse_literal(text: str) -> int | Number:
    """`parse_number` for a policy's own text, which may be as large as OPA lets it be."""
    number = parse_number(text, _LITERAL_BITS // 3)
    if type(number) is Number and ("e" in text or "E" in text):
        value = Fraction(number.exact)
        size = value.numerator.bit_length() - value.denominator.bit_length()
        if abs(size) > _LITERAL_BITS:
            raise ValueError("number is out of range")
    return number


_LITERAL_BITS: Final = 100_000
"""Largest binary exponent of a number in a policy, and smallest, as in OPA."""


def parse_lean(text: str) -> int | Number:
    """As `parse_number`, of what JSON's grammar lets through with a point or an exponent.

    The text is not kept where Python would write the same: half the memory.
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
    """The exact value to compute with; ValueError for a float that is not finite."""
    if type(number) is int:
        return number
    if type(number) is Number:
        return number.exact
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("number is not finite")
    return _read(repr(number))


def from_fraction(value: int | Fraction) -> int | Number:
    """The number for a computed value: an `int` as it is; a `Fraction` rounded, shortest text."""
    if type(value) is int:
        return value
    rounded = round_mantissa(Fraction(value))
    if rounded.denominator == 1:
        whole = rounded.numerator
        small = whole.bit_length() <= MANTISSA_BITS
        return whole if small else int(Fraction(_shortest(rounded)))
    text = _shortest(rounded)
    number = Number(text)
    number._known = text, rounded
    return number


def number_text(number: AnyNumber) -> str:
    """The number as Rego and JSON print it."""
    if type(number) is int:
        return str(number)
    if type(number) is Number:
        return number.text
    value = exact(number)
    # A float's digits are fewer than what 64 bits tell apart, so they are the shortest here too.
    return repr(number) if type(value) is int else _laid_out(repr(number))


@lru_cache(maxsize=4096)
def _read(text: str) -> int | Fraction:
    value = Fraction(text)
    if value.denominator == 1:
        return value.numerator
    return round_mantissa(value)


def round_mantissa(value: Fraction) -> Fraction:
    """`value` rounded to 64 bits of mantissa, half to even."""
    n, d = abs(value.numerator), value.denominator
    if n == 0:
        return Fraction(0)
    shift = MANTISSA_BITS - (n.bit_length() - d.bit_length())
    mantissa = _divide(n, d, shift)
    if mantissa.bit_length() > MANTISSA_BITS:
        shift -= 1
        mantissa = _divide(n, d, shift)
    if value < 0:
        mantissa = -mantissa
    return Fraction(mantissa << -shift) if shift <= 0 else Fraction(mantissa, 1 << shift)


def _divide(n: int, d: int, shift: int) -> int:
    """n * 2**shift / d, rounded half to even."""
    if shift >= 0:
        n <<= shift
    else:
        d <<= -shift
    quotient, rest = divmod(n, d)
    if rest * 2 > d or (rest * 2 == d and quotient & 1):
        quotient += 1
    return quotient


def _shortest(value: Fraction) -> str:
    """Fewest digits that round back to `value`, laid out as Go's `Text('g', -1)`."""
    magnitude = abs(value)
    # exponent10 such that 10**exponent10 <= magnitude < 10**(exponent10 + 1)
    exponent10 = len(str(magnitude.numerator)) - len(str(magnitude.denominator))
    if magnitude < Fraction(10) ** exponent10:
        exponent10 -= 1
    count = 0
    while True:  # 21 digits tell apart what 64 bits do
        count += 1
        scale = count - 1 - exponent10
        scaled = magnitude * 10**scale if scale >= 0 else magnitude / 10**-scale
        mantissa = _divide(scaled.numerator, scaled.denominator, 0)
        back = Fraction(mantissa, 10**scale) if scale >= 0 else Fraction(mantissa * 10**-scale)
        if round_mantissa(back) == magnitude:
            break
    digits = str(mantissa)
    sign = "-" if value < 0 else ""
    return sign + _layout(digits.rstrip("0") or "0", exponent10 + len(digits) - count)


def _laid_out(text: str) -> str:
    """The text of a float that is no integer in the layout of `_shortest`."""
    mantissa, _, power = text.lstrip("-").partition("e")
    whole, _, rest = mantissa.partition(".")
    digits = (whole + rest).lstrip("0")
    exponent10 = len(whole) - 1 + int(power or 0) - (len(whole + rest) - len(digits))
    return ("-" if text[0] == "-" else "") + _layout(digits.rstrip("0"), exponent10)


def _layout(digits: str, exponent10: int) -> str:
    """Exponent form below 1e-4 and, since the digits are the shortest, from 1e6 on.

    What has no digit behind its point is an integer, and comes here from 2**64 on only.
    """
    if exponent10 < -4 or exponent10 >= 6:
        point = "." + digits[1:] if len(digits) > 1 else ""
        return f"{digits[0]}{point}e{'-' if exponent10 < 0 else '+'}{abs(exponent10):02d}"
    if exponent10 < 0:
        return "0." + "0" * (-exponent10 - 1) + digits
    return digits[: exponent10 + 1] + "." + digits[exponent10 + 1 :]
