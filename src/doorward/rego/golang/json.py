"""JSON byte for byte as Go's `encoding/json` writes it, and read as Go reads it.

Differs from `values.to_json` in what Go's encoder does for the sake of HTML (`<`, `>`, `&`,
U+2028 and U+2029 are escaped) and in object keys: they are made text first and sorted after, and
of two keys with one text the last in Rego's order wins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from doorward.rego.clock import count_step
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json_decoder import (
    MAX_EXPLAINED,
    JSONError,
    JSONLimitError,
    end_of_value,
    read_again,
)
from doorward.rego.golang.octets import SURROGATES, scrub, to_bytes
from doorward.rego.json_text import from_json
from doorward.rego.numbers import Number, number_text
from doorward.rego.values import Key, Value, from_key, sorted_keys, sorted_values

__all__ = ["indent", "is_valid", "marshal", "quote", "unmarshal"]

_CONSTANTS: Final = {None: "null", True: "true", False: "false"}
_SPECIAL: Final = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_SIMPLE: Final = frozenset({str, int, bool, type(None)})
"""The classes of values that Python's encoder writes as Go does, except for the characters in
`_SPECIAL`.
"""


def quote(text: str) -> str:
    """Return `text` as a JSON string in quotes, with Go's escapes; a byte that is not UTF-8 becomes
    U+FFFD.
    """
    return _escape_text(_quoted(text))


def _escape_text(text: str) -> str:
    """Return a JSON text with the characters escaped that Go escapes besides: `<`, `>`, `&` and
    line separators; a byte that is not UTF-8 becomes the escape of U+FFFD. They occur in strings
    only.
    """
    return _SPECIAL.sub(_escape, text) if _SPECIAL.search(text) else text


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return "\\ufffd" if SURROGATES.match(character) else f"\\u{ord(character):04x}"


def marshal(value: Value) -> str:
    """Return the compact JSON text of a value, as Go writes it: sets as arrays in Rego's order,
    keys that are not strings as the string of their JSON.
    """
    try:
        return _escape_text(_WRITERS[type(value)](value))
    except RecursionError:
        return _escape_text(_deep_text(value))


class _Written(str):
    """A part of the JSON text that is already written; it marks such texts in the list of what is
    still to write, where a plain `str` is a value.
    """

    __slots__ = ()


def _deep_text(value: Value) -> str:
    """Return the JSON text of a value that nests deeper than Python's stack, by a list of what is
    still to write in place of recursion. Keys and sets are in Go's order; Go's escapes of `<`, `>`
    and `&` are left to the caller.
    """
    out: list[str] = []
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind is _Written:
            out.append(part)
        elif kind is dict:
            count_step()
            waiting.append(_Written("}"))
            for key, item in reversed(_pairs(part)):
                waiting += [item, _Written(f"{_quoted(key)}:"), _Written(",")]
            # On top is the comma before the first member, in whose place the bracket stands; an
            # empty object has none.
            waiting[-1:] = [_Written("{")] if part else [waiting[-1], _Written("{")]
        elif kind is list or kind is frozenset:
            count_step()
            waiting.append(_Written("]"))
            for item in reversed(part if kind is list else sorted_values(part)):
                waiting += [item, _Written(",")]
            waiting[-1:] = [_Written("[")] if part else [waiting[-1], _Written("[")]
        else:
            out.append(_WRITERS[kind](part))
    return "".join(out)


def _array_text(value: list[Value]) -> str:
    """Return the JSON text of an array; by Python's encoder in C if all items are scalars that it
    writes as Go does.
    """
    count_step()
    if _SIMPLE.issuperset(map(type, value)):
        return "".join(_encode(value, 0))
    texts = [_WRITERS[type(v)](v) for v in value]
    return "[" + ",".join(texts) + "]"


def _object_text(value: dict[Key, Value]) -> str:
    """Return the JSON text of an object, sorted by its keys as strings. Of two keys with the same
    string, such as `1` and `"1"`, the last in Rego's order stays. Python's encoder in C writes
    objects of simple keys and values.
    """
    count_step()
    if _TEXT.issuperset(map(type, value)) and _SIMPLE.issuperset(map(type, value.values())):
        return "".join(_encode(value, 0))
    pairs = [f"{_quoted(k)}:{_WRITERS[type(v)](v)}" for k, v in _pairs(value)]
    return "{" + ",".join(pairs) + "}"


def _pairs(value: dict[Key, Value]) -> list[tuple[str, Value]]:
    """Return the members of an object with their keys as strings, sorted. Of two keys with the same
    string the last in Rego's order stays.
    """
    if _TEXT.issuperset(map(type, value)):
        # By code points, which have the order of the UTF-8 bytes that Go compares.
        return sorted(value.items(), key=itemgetter(0))  # type: ignore[arg-type] # keys are texts
    texts: dict[str, Value] = {}
    for key in sorted_keys(value):
        texts[key if type(key) is str else marshal(from_key(key))] = value[key]
    return [(key, texts[key]) for key in sorted(texts)]


_TEXT: Final = frozenset({str})
_quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring
_encode: Final[Any] = json.encoder.c_make_encoder(  # type: ignore[attr-defined] # not in the stubs
    None, None, _quoted, None, ":", ",", True, False, True
)
"""Python's JSON encoder in C: compact, keys sorted, without a check for cycles."""

_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    str: _quoted,
    int: str,
    float: number_text,
    Number: number_text,
    bool: _CONSTANTS.__getitem__,
    type(None): _CONSTANTS.__getitem__,
    list: _array_text,
    dict: _object_text,
    frozenset: lambda value: _array_text(sorted_values(value)),
}


def unmarshal(text: str) -> Value:
    """Parse a JSON text, after which one `null` may follow, as in OPA. BuiltinError, in Go's words,
    if it is invalid, without a position if it is longer than `MAX_EXPLAINED` bytes; LimitError if
    it nests too deeply or has a number that is too large.
    """
    try:
        return from_json(text if text.isascii() else scrub(text))
    except ValueError as error:
        why = error
    try:
        return read_again(to_bytes(text), why)
    except JSONLimitError as error:
        raise LimitError(str(error)) from None
    except JSONError as error:
        raise BuiltinError(str(error)) from None


def is_valid(text: str) -> bool:
    """Return True if `text` is exactly one JSON value, with or without white space around it.
    LimitError if it nests deeper than Python's stack and is longer than `MAX_EXPLAINED` characters;
    shorter texts are checked at any depth.
    """
    text = scrub(text)
    try:
        try:
            if _scan_value(text, 0)[1] == len(text):
                return True
        except StopIteration:
            # The scanner does not skip blanks; the decoder below does.
            if text[:1] not in _SPACES:
                return False
        _VALIDATOR.decode(text)
    except ValueError:
        return False
    except RecursionError:
        if len(text) <= MAX_EXPLAINED:
            return _is_whole(to_bytes(text))
        raise LimitError("JSON is nested too deeply") from None
    return True


_SPACES: Final = " \t\n\r"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_VALIDATOR: Final = json.JSONDecoder(
    parse_int=len, parse_float=len, parse_constant=_refuse_constant
)
"""A decoder that only validates; it makes no numbers, which may be large."""
_scan_value: Final[Any] = _VALIDATOR.scan_once  # type: ignore[attr-defined]  # not in the stubs


def _is_whole(octets: bytes) -> bool:
    """Return True if the bytes are one JSON value and nothing else, for any depth of nesting that
    Go accepts.
    """
    try:
        return not octets[end_of_value(octets) :].strip()
    except JSONError:
        return False


_TOKENS: Final = re.compile(
    r'("(?:[^"\\]|\\.)*+":)|((?:"(?:[^"\\]|\\.)*+"?|[^\s\[\]{},:"]++),?)|([\[{])|([\]}],?)'
)
"""Matches a key, a scalar, or an opening or closing bracket, with the comma after it."""


def indent(compact: str, prefix: str, step: str, most: int | None = None) -> str:
    """Indent compact JSON as Go's `MarshalIndent` does: each new line begins with `prefix` and one
    `step` for each level; the first line has no prefix. LimitError if the white space is more than
    `most` characters; None for no limit.
    """
    out: list[str] = []
    line = f"\n{prefix}"
    after_open = False
    space, width = 0, len(prefix)
    for match in _TOKENS.finditer(compact):
        key, _, opening, closing = match.groups()
        if closing:
            line = line[: len(line) - len(step)]
            width -= len(step)
            out += (closing,) if after_open else (line, closing)
            after_open = False
            token = closing
        else:
            token = match[0]
            if after_open:
                out.append(line)
            after_open = bool(opening)
            if key:
                token = f"{key} "
            elif opening:
                line += step
                width += len(step)
            out.append(token)
            if most is not None:
                space += width
                if space > most:
                    raise LimitError(f"indentation of the JSON is longer than {most} characters")
        if token[-1] == ",":
            out.append(line)
    return "".join(out)
