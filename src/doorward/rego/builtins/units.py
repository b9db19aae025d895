"""Amounts with a unit: `10Ki`, `1.5G`, `500m`, and the same for bytes (`10KiB`)."""

from __future__ import annotations

import re
from typing import Final

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.signature import number, string
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.strings import lower
from doorward.rego.numbers import MAX_DIGITS, Number, multiply, quotient, whole_part

__all__: list[str] = []

# OPA's `FloatString(10)`.
_PLACES: Final = 10
_AMOUNT: Final = re.compile(
    r"[+-]?(?:\d++\.?\d*|\.\d+)(?:e(?P<exponent>[+-]?\d+))?", re.ASCII | re.IGNORECASE
)
MAX_TEXT: Final = 1 << 16
_LETTERS: Final = "kmgtpe"
_DECIMAL: Final[dict[str, int]] = {c: 1000**n for n, c in enumerate(_LETTERS, start=1)}
_BINARY: Final[dict[str, int]] = {c + "i": 1024**n for n, c in enumerate(_LETTERS, start=1)}
_MILLI: Final = (0.001).as_integer_ratio()  # the double, not the decimal: what OPA multiplies by
_PLAIN: Final = 16
_EXACT: Final = 1 << 63
"""Products below this are integers that need no rounding."""
_BYTES: Final = {
    "": 1,
    **_DECIMAL,
    **_BINARY,
    **{unit + "b": factor for unit, factor in (_DECIMAL | _BINARY).items()},
}


@builtin("units.parse", string, returns=number, inverse=inverse("units"))
def units_parse(x: str) -> int | Number:
    """The number that an amount with an SI or binary unit states, with ten decimal places if it has
    a fraction; `m` means milli and `M` means mega. A space, an unknown unit, and a missing or
    invalid number are errors; LimitError for a text or exponent that is too large.
    """
    text = x.replace('"', "")
    amount, unit = _split(text, "units.parse", "amount")
    unit = unit[:1] + lower(unit[1:])
    numerator, denominator = _amount(amount, "units.parse", "amount")
    times, parts = _factor(unit)
    numerator *= times
    denominator *= parts
    integer, rest = divmod(numerator, denominator)
    return Number(_decimal(numerator, denominator)) if rest else integer


def _factor(unit: str) -> tuple[int, int]:
    """The factor of an SI or binary unit as numerator and denominator; "" is 1, `m` a thousandth.
    The first letter of other units may be of either case. BuiltinError for an unknown unit.
    """
    if unit == "m":
        return _MILLI
    factor = ({"": 1} | _DECIMAL | _BINARY).get(unit[:1].lower() + unit[1:])
    if factor is None:
        raise BuiltinError(f"units.parse: unit {unit} not recognized")
    return factor, 1


def _decimal(numerator: int, denominator: int) -> str:
    """A fraction as text with ten decimal places, `0.5000000000`; halves are rounded away from
    zero.
    """
    integer, rest = divmod(abs(numerator) * 10**_PLACES, denominator)
    integer += 2 * rest >= denominator
    digits = str(integer).zfill(_PLACES + 1)
    sign = "-" if numerator < 0 else ""
    return f"{sign}{digits[:-_PLACES]}.{digits[-_PLACES:]}"


@builtin("units.parse_bytes", string, returns=number, inverse=inverse("units"))
def units_parse_bytes(x: str) -> int:
    """The number of bytes that an amount states, rounded down; units in any case. A space, an
    unknown unit, and a missing or invalid number are errors; LimitError for a text or exponent that
    is too large.
    """
    text = lower(x).replace('"', "")
    amount, unit = _split(text, "units.parse_bytes", "byte amount")
    factor = _BYTES.get(unit)
    if factor is None:
        raise BuiltinError(f"units.parse_bytes: byte unit {unit} not recognized")
    is_plain = len(amount) < _PLAIN and amount.isascii() and amount.isdecimal()
    if is_plain and (integer := int(amount) * factor) < _EXACT:
        return integer
    value = quotient(*_amount(amount, "units.parse_bytes", "byte amount"))
    return whole_part(*multiply(value, (factor, 0)))


def _split(text: str, name: str, part_name: str) -> tuple[str, str]:
    """Split an amount such as `10Ki` into the texts of its number and its unit ("" if none).
    BuiltinError if there is no number or a space; LimitError above `MAX_TEXT` characters. `name` is
    the built-in in these errors.
    """
    if len(text) > MAX_TEXT:
        raise LimitError(f"text is longer than {MAX_TEXT} characters")
    if " " in text:
        raise BuiltinError(f"{name}: spaces not allowed in resource strings")
    # An `e` is part of the number only where digits follow: `1e3`, but `1e` and `1ei`.
    match = re.match(r"(?:[\d.+-]|[eE](?=[\d+-])[+-]?)*", text, re.ASCII)
    end = match.end() if match else 0
    if end == 0:
        raise BuiltinError(f"{name}: no {part_name} provided")
    return text[:end], text[end:]


def _amount(text: str, name: str, part: str) -> tuple[int, int]:
    """Return the number of an amount without its unit, `1.5` or `1e3`, as numerator and
    denominator, which may have common factors. `name` and `part` are for the message. BuiltinError
    if the text is not a number, LimitError for an exponent above `MAX_DIGITS` or more than
    `MAX_DIGITS` characters.
    """
    if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
        return int(text), 1
    match = _AMOUNT.fullmatch(text)
    if not match:
        raise BuiltinError(f"{name}: could not parse {part} to a number")
    if len(text) > MAX_DIGITS:
        raise LimitError(f"number is longer than {MAX_DIGITS} characters")
    exponent = match["exponent"] or "0"
    if len(exponent) > 7 or abs(int(exponent)) > MAX_DIGITS:
        raise LimitError("exponent is too large")
    integer, _, rest = text.lower().partition("e")[0].partition(".")
    scale = int(exponent) - len(rest)
    digits = int(integer + rest)
    return (digits * 10**scale, 1) if scale >= 0 else (digits, 10**-scale)
