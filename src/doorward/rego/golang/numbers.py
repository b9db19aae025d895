"""Numbers as Go reads and writes them outside JSON: `strconv.ParseInt`, `%v`, protojson."""

from __future__ import annotations

import math
import re
from typing import Final

from doorward.rego.golang.strings import quote
from doorward.rego.numbers import Number, parse_number

__all__ = ["from_float", "json_float", "parse_int"]

_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)


def parse_int(text: str) -> int:
    """Parse an integer as `strconv.ParseInt(text, 10, 64)` does; ValueError, in Go's words, for
    another text or one beyond 64 bits.
    """
    if not _INTEGER.match(text) or len(text) > 4096:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return value


def from_float(value: float) -> int | Number | str:
    """Return a float as a number with the text that Go's `%v` prints: `1e+06`, but 100 for 100.0.
    Infinity and NaN become the strings of protojson.
    """
    # For the fewest digits Go's `%g` decides about the exponent as for a precision of six.
    return _special_name(value) or parse_number(_layout(value, low=-4, high=6, pad=True))


def json_float(value: float) -> int | Number | str:
    """Return a float as a number with the text that Go's JSON has: plain digits from 1e-6 up to,
    not including, 1e21. Infinity and NaN become the strings of protojson.
    """
    return _special_name(value) or parse_number(_layout(value, low=-6, high=21, pad=False))


def _special_name(value: float) -> str:
    """Return "NaN", "Infinity" or "-Infinity" for a float that is not finite, as protojson writes
    it; "" for a finite one.
    """
    if math.isfinite(value):
        return ""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _layout(value: float, *, low: int, high: int, pad: bool) -> str:
    """Return a finite float in the fewest digits that read back to it: plain, but below 1e`low` and
    from 1e`high` on with an exponent, which has two digits or more if `pad` (`1e+06`). Zero is `0`
    or `-0`.
    """
    mantissa, _, exponent_text = f"{value!r}".partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    integer, _, fraction = mantissa.partition(".")
    digits = (integer + fraction).lstrip("0")
    if not digits:
        return sign + "0"
    exponent = int(exponent_text or 0) + len(integer) - 1
    exponent -= len(integer + fraction) - len(digits)
    digits = digits.rstrip("0")
    if exponent < low or exponent >= high:
        point = "." + digits[1:] if len(digits) > 1 else ""
        width = 2 if pad else 1
        return f"{sign}{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    integer, fraction = digits[: exponent + 1], digits[exponent + 1 :]
    integer += "0" * (exponent + 1 - len(integer))
    return f"{sign}{integer}.{fraction}" if fraction else sign + integer
