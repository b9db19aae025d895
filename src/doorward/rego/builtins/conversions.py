"""Values made into another kind: `to_number`, and OPA's old `cast_…`, which only check.

OPA keeps a text like `+1` or `1_000` as the number and then cannot print it; here the number is
the same, in a text that is JSON.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.operands import number_result
from doorward.rego.builtins.registry.signature import (
    any_,
    any_of,
    array,
    boolean,
    null,
    number,
    object_,
    set_,
    string,
)
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.strings import quote
from doorward.rego.numbers import AnyNumber, Number, number_text, parse_number
from doorward.rego.values import Key, Value, sorted_values, to_key

__all__: list[str] = []

_DIGITS: Final = r"\d+(?:_\d+)*"
_DECIMAL: Final = re.compile(
    rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?\Z", re.ASCII
)
_PLAIN_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,30})\.[0-9]{1,30}")
"""Matches decimal numbers that JSON writes in the same way and that need no check of their
range.
"""
_HEX_DIGITS: Final = r"[\da-fA-F]+(?:_[\da-fA-F]+)*"
_HEX: Final = re.compile(
    rf"(?P<sign>[+-]?)0[xX]_?(?P<whole>{_HEX_DIGITS})?(?:\.(?P<rest>{_HEX_DIGITS})?)?"
    r"[pP](?P<power>[+-]?\d{1,6})\Z",
    re.ASCII,
)
_MAX_FLOAT: Final = Fraction(2) ** 1024 - Fraction(2) ** 970  # what rounds to more is infinite
# The largest double has 309 digits before its point.
_SAFE: Final = 300
"""A number with fewer characters than this and no exponent is always in range."""

_MAX_TEXT: Final = 4096
"""The most characters of a number that to_number parses; more is a LimitError."""
_PLAIN: Final = 16
"""A text of fewer decimal digits than this, the first not 0, is converted without further checks.
"""


@builtin(
    "to_number",
    any_of(number, string, boolean, null),
    returns=number,
    checked=False,
    inverse=inverse("to_number"),
)
def to_number(x: Value) -> AnyNumber:
    """The number that a string spells, hexadecimal floats and `_` between digits included; 0 for
    null and false, 1 for true, a number unchanged. Other strings, such as `inf`, numbers beyond a
    double's range, and other kinds are an error; LimitError for too many digits or a number too
    close to 0.
    """
    if isinstance(x, str):
        plain = x.isdecimal() and x.isascii() and len(x) < _PLAIN and not x.startswith("0")
        if plain:
            return int(x)
        return Number(x) if _PLAIN_DECIMAL.fullmatch(x) else _parse(x)
    if x is None or isinstance(x, bool):
        return int(x or 0)
    if isinstance(x, (int, float)):
        return x
    raise operand_error(1, x, "null", "boolean", "number", "string")


def _parse(text: str) -> AnyNumber:
    """Parse a number as Go's ParseFloat does, hexadecimal floats and `_` between digits included,
    but keep its exact value. OperandError for `inf` and `nan`; BuiltinError for invalid syntax or a
    number beyond a double's range; LimitError for too many digits, or for an exponent so small that
    only Go reads it, as 0.
    """
    if text.lstrip("+-").lower() in {"inf", "infinity", "nan"}:
        raise operand_error(1, text, "valid number string")
    hexadecimal = _HEX.match(text)
    if hexadecimal and (hexadecimal["whole"] or hexadecimal["rest"]):
        _check_length(text)
        return number_result(_in_range(text, _hexadecimal(hexadecimal)))
    if not _DECIMAL.match(text):
        raise BuiltinError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    _check_length(text)
    try:
        value = parse_number(_as_json(text))
    except ValueError as error:
        # What Go takes for 0 has a text that is kept all the same.
        kind = LimitError if "-" in text[1:] else BuiltinError
        raise kind(str(error)) from None
    if len(text) > _SAFE or "e" in text or "E" in text:
        _in_range(text, Fraction(number_text(value)))
    return value


def _check_length(text: str) -> None:
    """Raise LimitError for a number text of more than `_MAX_TEXT` characters."""
    if len(text) > _MAX_TEXT:
        raise LimitError("number has too many digits")


def _as_json(text: str) -> str:
    """Respell a number that Go accepts as JSON does: without `_`, `+` and leading zeros, and with
    digits after the point. A text that OPA does not take for an integer, such as `1_000`, gets a
    fraction: `1000.0`.
    """
    plain = text.replace("_", "").lstrip("+")
    sign = "-" if plain.startswith("-") else ""
    mantissa, mark, exponent = plain.lstrip("-").partition("e" if "e" in plain else "E")
    integer_digits, point, rest = mantissa.partition(".")
    if point:
        rest = rest or "0"
    elif "_" in text and not mark:
        point, rest = ".", "0"
    return f"{sign}{integer_digits.lstrip('0') or '0'}{point}{rest}{mark}{exponent}"


def _in_range(text: str, value: Fraction) -> Fraction:
    """Return the value unchanged; BuiltinError, which names `text`, if it rounds to infinity as a
    double.
    """
    if abs(value) >= _MAX_FLOAT:
        raise BuiltinError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
    return value


def _hexadecimal(match: re.Match[str]) -> Fraction:
    """Return the exact value of a matched hexadecimal float: `0x1.8p3` is 12. An exponent that is
    too large in size is LimitError if it is negative, BuiltinError if positive.
    """
    integer = (match["whole"] or "").replace("_", "")
    rest = (match["rest"] or "").replace("_", "")
    power = int(match["power"]) - 4 * len(rest)
    if abs(power) > _MAX_TEXT:
        kind = LimitError if power < 0 else BuiltinError
        raise kind("number exponent is out of range")
    value = Fraction(int(integer + rest, 16)) * Fraction(2) ** power
    return -value if match["sign"] == "-" else value


@builtin(
    "cast_array",
    any_,
    returns=array(any_),
    deprecated="use a comprehension",
    inverse=inverse("same"),
)
def cast_array(x: Value) -> list[Value]:
    """The array itself, or the members of a set as an array in Rego's order; anything else is an
    error.
    """
    if isinstance(x, list):
        return x
    if isinstance(x, frozenset):
        return sorted_values(x)
    raise operand_error(1, x, "array", "set")


@builtin(
    "cast_set",
    any_,
    returns=set_(any_),
    deprecated="use a comprehension",
    inverse=inverse("same"),
)
def cast_set(x: Value) -> frozenset[Key]:
    """The set itself, or the items of an array as a set; anything else is an error."""
    if isinstance(x, frozenset):
        return x
    if isinstance(x, list):
        return frozenset(map(to_key, x))
    raise operand_error(1, x, "array", "set")


def _same(x: Value, kind: type, name: str) -> Value:
    """Return `x` unchanged if its Python type is exactly `kind`; otherwise raise OperandError,
    which names the expected kind as `name`.
    """
    if type(x) is not kind:
        raise operand_error(1, x, name)
    return x


@builtin("cast_string", any_, returns=string, deprecated="use `is_string`", inverse=inverse("same"))
def cast_string(x: Value) -> Value:
    """The string; anything else is an error."""
    return _same(x, str, "string")


@builtin(
    "cast_boolean",
    any_,
    returns=boolean,
    deprecated="use `is_boolean`",
    inverse=inverse("same"),
)
def cast_boolean(x: Value) -> Value:
    """The boolean; anything else is an error."""
    return _same(x, bool, "boolean")


@builtin("cast_null", any_, returns=null, deprecated="use `is_null`", inverse=inverse("same"))
def cast_null(x: Value) -> Value:
    """Null; anything else is an error."""
    return _same(x, type(None), "null")


@builtin(
    "cast_object",
    any_,
    returns=object_(any_, any_),
    deprecated="use `is_object`",
    inverse=inverse("same"),
)
def cast_object(x: Value) -> Value:
    """The object; anything else is an error."""
    return _same(x, dict, "object")
