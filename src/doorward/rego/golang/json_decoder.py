"""Texts that Python's JSON decoder refused, as Go reads them: an error in Go's words, or a value
after all.

All code that reads JSON from outside reports its errors in these words, which OPA's clients and log
searches know; of the text an error repeats only the character at fault. Only refused texts come
here, so the scanner is written to be followed, not to be fast: one state machine over the bytes
with a stack of what is open, as in Go's `encoding/json`. It builds no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecodeError
from typing import Final, TypeAlias

from doorward.rego.golang.octets import from_bytes, scrub
from doorward.rego.golang.strings import quote
from doorward.rego.json_text import from_json
from doorward.rego.values import Value

__all__ = [
    "MAX_EXPLAINED",
    "JSONError",
    "JSONLimitError",
    "end_of_only_value",
    "end_of_value",
    "read_again",
]

MAX_EXPLAINED: Final = 8 * 1024
"""The most bytes of a client's invalid text whose error is located; that takes a microsecond or two
for each byte.
"""

MAX_DEPTH: Final = 10_000
"""The most brackets that may be open, as in Go's decoder; more is a JSONError."""

_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_STRING: Final = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_LITERALS: Final = {0x74: b"true", 0x66: b"false", 0x6E: b"null"}
_DIGITS: Final = re.compile(rb"[0-9]*")


_Step: TypeAlias = Callable[[int], "tuple[int, _Step]"]


class JSONError(ValueError):
    """The text is not JSON as Go reads it; the message is Go's."""


class JSONLimitError(JSONError):
    """The text exceeds a limit of Doorward: it nests too deeply, or has a number that is too
    large.
    """


def read_again(
    text: bytes, why: ValueError, *, first: bool = False, most: int = MAX_EXPLAINED
) -> Value:
    """Parse a text that Python's decoder refused with `why`. JSONError, in Go's words, if it is
    invalid; JSONLimitError if it exceeds a limit of Doorward. With `first`, text after the first
    value is ignored, as Go's decoder does; otherwise only a `null` may follow, as in OPA's own
    function. A text of more than `most` bytes is not read again: JSONError with `invalid JSON` and
    no position, or JSONLimitError with the text of `why` if that is not a JSONDecodeError.
    """
    if len(text) > most:
        if isinstance(why, JSONDecodeError):
            raise JSONError("invalid JSON")
        raise JSONLimitError(str(why))
    end = end_of_value(text) if first else end_of_only_value(text)
    try:
        return from_json(scrub(from_bytes(text[:end])))
    except ValueError as error:
        raise JSONLimitError(str(error)) from None


def end_of_value(text: bytes) -> int:
    """Return the byte offset after the first value; JSONError, in Go's words, if there is no valid
    one.
    """
    return _Scanner(text).scan(0)


def end_of_only_value(text: bytes) -> int:
    """Return the byte offset after the first value if OPA accepts the text: nothing or a `null`
    follows, after which the text is not read further. JSONError, in Go's words, for any other text.
    """
    end = end_of_value(text)
    start = _skip(text, end)
    if start == len(text):
        return end
    first = text[start : start + 1]
    if first in (b"]", b"}", b":", b","):
        raise _unexpected_error(text, start, "looking for beginning of value")
    if first in (b"[", b"{"):
        raise _trailing_error(first.decode())
    stop = _Scanner(text).scan(start)
    token = text[start:stop]
    # OPA's util.UnmarshalJSON asks for a next token and takes Go's nil for none, which is null as
    # well.
    if token == b"null":
        return end
    if token in (b"true", b"false"):
        # OPA prints the token by `%s`, which Go's fmt has not for a boolean.
        raise _trailing_error(f"%!s(bool={token.decode()})")
    raise _trailing_error(token.decode("utf-8", "replace").strip('"'))


def _trailing_error(trailing: str) -> JSONError:
    return JSONError(f"error: invalid character '{trailing}' after top-level value")


def _skip(text: bytes, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _unexpected_error(text: bytes, at: int, context: str) -> JSONError:
    """Build, but do not raise, the error for the byte at `at`: `invalid character 'x' CONTEXT`; at
    the end of the text, `unexpected EOF` or, if it is blank, `EOF`.
    """
    if at >= len(text):
        return JSONError("unexpected EOF" if text.strip(b" \t\r\n") else "EOF")
    # Go names the byte, not the character that it belongs to.
    named = quote(chr(text[at]), mark="'")
    return JSONError(f"invalid character {named} {context}")


class _Scanner:
    """Finds the end of one value. Its steps take an offset and return the offset after what they
    read and the next step; `open` holds the open brackets. They raise JSONError for invalid text.
    """

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.open: list[int] = []

    def scan(self, at: int) -> int:
        """Return the offset after the value that begins at or after `at`, its nested values
        included; JSONError if it is invalid. What follows it is not read.
        """
        step: _Step = self._value
        # Not `is not`: each access makes another bound method.
        while step != self._after or self.open:
            at, step = step(_skip(self.text, at))
        return at

    def _value(self, at: int) -> tuple[int, _Step]:
        """Scan a scalar, or the opening bracket of a collection, at the offset `at`, where blanks
        must have been skipped; return the offset behind it and the next step. JSONError, in Go's
        words, if no value begins here, it is invalid, or brackets are nested too deeply.
        """
        text = self.text
        first = text[at] if at < len(text) else 0
        if first in (0x5B, 0x7B):
            return self._opening(at)
        if first == 0x22:
            return self._string(at + 1), self._after
        if first in _LITERALS:
            return self._literal(at, _LITERALS[first]), self._after
        if first == 0x2D or 0x30 <= first <= 0x39:
            return self._number(at), self._after
        raise _unexpected_error(text, at, "looking for beginning of value")

    def _opening(self, at: int) -> tuple[int, _Step]:
        """Scan an opening bracket and the white space after it; return the offset after them and
        the next step: the first item or key, or for an empty array or object the step that closes
        it. JSONError above `MAX_DEPTH` open brackets.
        """
        if len(self.open) >= MAX_DEPTH:
            raise _unexpected_error(self.text, at, "exceeded max depth")
        array = self.text[at] == 0x5B
        self.open.append(self.text[at])
        at = _skip(self.text, at + 1)
        if self.text[at : at + 1] == (b"]" if array else b"}"):
            return at, self._after
        return at, self._value if array else self._key

    def _key(self, at: int) -> tuple[int, _Step]:
        """Scan a key, its colon and the white space between them; return the offset after the colon
        and the step for the value. JSONError if either is missing or invalid.
        """
        if self.text[at : at + 1] != b'"':
            raise _unexpected_error(self.text, at, "looking for beginning of object key string")
        at = _skip(self.text, self._string(at + 1))
        if self.text[at : at + 1] != b":":
            raise _unexpected_error(self.text, at, "after object key")
        return at + 1, self._value

    def _after(self, at: int) -> tuple[int, _Step]:
        """Scan the comma or closing bracket after a value inside the innermost open array or
        object, where blanks must have been skipped; a bracket closes it in `open`. Return the
        offset behind it and the next step; JSONError if neither is there.
        """
        array = self.open[-1] == 0x5B
        following = self.text[at : at + 1]
        if following == b",":
            return at + 1, self._value if array else self._key
        if following == (b"]" if array else b"}"):
            self.open.pop()
            return at + 1, self._after
        where = "array element" if array else "object key:value pair"
        raise _unexpected_error(self.text, at, f"after {where}")

    def _string(self, at: int) -> int:
        """Scan a string after its opening quote; return the offset after its closing quote.
        JSONError, in Go's words for the place, if it is not closed, or has an invalid escape or
        character.
        """
        match = _STRING.match(self.text, at)
        at = match.end() if match else at
        following = self.text[at : at + 1]
        if following == b'"':
            return at + 1
        if following != b"\\":
            raise _unexpected_error(self.text, at, "in string literal")
        if self.text[at + 1 : at + 2] != b"u":
            raise _unexpected_error(self.text, at + 1, "in string escape code")
        at += 2
        # The second condition is for the end of the text, where the slice is empty, and so in any
        # bytes.
        while self.text[at : at + 1] in b"0123456789abcdefABCDEF" and at < len(self.text):
            at += 1
        raise _unexpected_error(self.text, at, "in \\u hexadecimal character escape")

    def _literal(self, at: int, literal: bytes) -> int:
        """Scan `literal` (`true`, `false` or `null`) at the offset `at` and return the offset
        behind it. JSONError, in Go's words, names the first byte that differs.
        """
        for n, expected in enumerate(literal):
            if self.text[at + n : at + n + 1] != bytes([expected]):
                context = f"in literal {literal.decode()} (expecting '{chr(expected)}')"
                raise _unexpected_error(self.text, at + n, context)
        return at + len(literal)

    def _number(self, at: int) -> int:
        """Scan a number, whose first byte is `-` or a digit; return the offset after it. JSONError
        if it is invalid; the text after it, such as a second digit after 0, is checked by the next
        step.
        """
        text = self.text
        if text[at] == 0x2D:
            at += 1
            at = at + 1 if text[at : at + 1] == b"0" else self._digits(at, "in numeric literal")
        else:
            at = at + 1 if text[at] == 0x30 else self._digits(at, "in numeric literal")
        if text[at : at + 1] == b".":
            at = self._digits(at + 1, "after decimal point in numeric literal")
        if text[at : at + 1] in (b"e", b"E"):
            at += 1
            if text[at : at + 1] in (b"+", b"-"):
                at += 1
            at = self._digits(at, "in exponent of numeric literal")
        return at

    def _digits(self, at: int, context: str) -> int:
        """Scan one or more digits; return the offset after them. JSONError, whose message ends with
        `context`, if there are none.
        """
        match = _DIGITS.match(self.text, at)
        if match is None or match.end() == at:
            raise _unexpected_error(self.text, at, context)
        return match.end()
