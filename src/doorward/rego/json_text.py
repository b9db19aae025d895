"""JSON text to values; the way out is `values.to_json`.

Of much text equal strings and equal fractions are kept once: data repeats itself (names of groups,
of cities, of kinds), and what Python's decoder makes a second time would stay in memory beside the
first. Nothing here knows where a text came from.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from doorward.rego.numbers import MAX_DIGITS, Number, parse_lean, parse_number
from doorward.rego.values import Value, scrub

__all__ = ["KEPT", "MUCH", "Numbers", "Strings", "from_json", "refuse_constant", "scrub_value"]

MUCH: Final = 1 << 20
"""Equal parts of a text of at least this many characters are shared."""
KEPT: Final = 1 << 14
"""The most strings, and the most numbers, that are remembered at a time."""


def from_json(text: str | bytes, *, unique_keys: bool = False) -> Value:
    """Parse a JSON text to a value. Numbers keep their text, lone surrogates become U+FFFD, and of
    repeated keys the last wins.

    Raise ValueError if it is not exactly one JSON value, for NaN and Infinity, for numbers beyond
    `MAX_DIGITS`, for too deep nesting, for bytes that are not UTF-8 and, with `unique_keys`, for
    repeated keys.
    """
    text = text if isinstance(text, str) else text.decode("utf-8")
    value: Value
    # Too short for a number past `MAX_DIGITS`: Python reads its integers, but for `-0`.
    is_short = len(text) <= MAX_DIGITS and not unique_keys
    # One character is looked for by `memchr`. Two take longer than the patterns, which begin so.
    if is_short and not ("-" in text and _SIGNED_ZERO.search(text)):
        try:
            value, end = _scan_short(text, 0)
            if end == len(text) or not text[end:].strip(" \t\n\r"):
                is_plain = "\\" not in text or not _SURROGATE_ESCAPE.search(text)
                return value if is_plain else scrub_value(value)
        except (StopIteration, ValueError, RecursionError):
            pass  # read again in the way that says what is wrong
    try:
        if len(text) >= MUCH:
            # Large texts are data that stays; in small ones the sharing costs more than it saves.
            decoder = _sharing_decoder(unique_keys=unique_keys)
        else:
            decoder = _UNIQUE_DECODER if unique_keys else _DECODER
        value = decoder.decode(text)
        return scrub_value(value) if _SURROGATE_ESCAPE.search(text) else value
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


class Numbers(dict[str, "int | Number"]):
    """Maps the texts of recently read numbers to the numbers."""

    def __missing__(self, text: str) -> int | Number:
        number = parse_lean(text)
        if len(self) >= KEPT:
            self.clear()
        self[text] = number
        return number


class Strings(dict[str, str]):
    """Maps recently read strings to one copy of each."""

    def share(self, obj: dict[str, Value]) -> dict[str, Value]:
        """Replace the strings in `obj`, and in arrays directly in it that begin with one, by equal
        ones met before; changes and returns `obj`. All are forgotten when more than `KEPT` are
        remembered.
        """
        self.forget_if_full()
        once = self.setdefault
        for key, value in obj.items():
            if type(value) is str:
                obj[key] = once(value, value)
            elif type(value) is list:
                obj[key] = self.share_value(value)
        return obj

    def share_value(self, value: Value) -> Value:
        """Return a string that was met before in place of an equal one, and an array that begins
        with a string with such strings in it; any other value as it is. Nothing is forgotten.
        """
        if type(value) is str:
            return self.setdefault(value, value)
        if type(value) is list and value and type(value[0]) is str:
            return [self.setdefault(item, item) if type(item) is str else item for item in value]
        return value

    def forget_if_full(self) -> None:
        """Drop all strings if more than `KEPT` are remembered."""
        if len(self) > KEPT:
            self.clear()

    def share_unique(self, pairs: list[tuple[str, Value]]) -> dict[str, Value]:
        return self.share(_unique(pairs))


def _sharing_decoder(*, unique_keys: bool) -> json.JSONDecoder:
    """Return a decoder that saves memory: most equal strings, and most equal numbers with a point
    or exponent, become one object. With `unique_keys`, it raises ValueError for repeated keys.
    """
    strings, numbers = Strings(), Numbers()
    return json.JSONDecoder(
        parse_int=parse_number,
        parse_float=numbers.__getitem__,
        parse_constant=refuse_constant,
        object_hook=strings.share,
        object_pairs_hook=strings.share_unique if unique_keys else None,
    )


def scrub_value(value: Value) -> Value:
    """Return a value that was just parsed with U+FFFD in place of lone surrogates, at any depth, in
    keys too. Arrays and objects are changed in place, so nobody else may have seen them; an object
    whose keys change is a new one.
    """
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        for index, item in enumerate(value):
            value[index] = scrub_value(item)
        return value
    if isinstance(value, dict):
        for key, item in value.items():
            # In place: the value was just parsed, and nobody else has seen it.
            value[key] = scrub_value(item)
        if all(type(key) is not str or key.isascii() or scrub(key) == key for key in value):
            return value
        return {scrub(key) if type(key) is str else key: item for key, item in value.items()}
    return value


_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def refuse_constant(name: str) -> None:
    """Raise ValueError: `NaN`, `Infinity` and `-Infinity` are not JSON."""
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of the pairs of a JSON object in the text; ValueError, which names the key,
    if one comes twice.
    """
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {json.dumps(twice)} in a JSON object")
    return result


_DECODER: Final = json.JSONDecoder(
    parse_int=parse_number, parse_float=parse_number, parse_constant=refuse_constant
)
_SIGNED_ZERO: Final = re.compile(r"-0(?:(?<=^-0)|(?<=[\s:\[,]-0))(?![.eE])")
"""Matches the integer `-0`, which keeps its sign as text."""
_scan_short: Final[Any] = json.JSONDecoder(
    parse_int=int, parse_float=parse_number, parse_constant=refuse_constant
).scan_once  # type: ignore[attr-defined]  # not in the stubs
_UNIQUE_DECODER: Final = json.JSONDecoder(
    parse_int=parse_number,
    parse_float=parse_number,
    parse_constant=refuse_constant,
    object_pairs_hook=_unique,
)
