"""JSON as Go's `encoding/json` has it: refused in its words, written in its order of fields.

OPA's clients and log searches know those words. Only the commonest are said exactly; the position
of the fault decides which. Nothing of the text is repeated but the one character at fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from doorward.rego.builtins.go_json import marshal
from doorward.rego.json_text import from_json
from doorward.rego.values import Value

__all__ = ["JSONError", "go_message", "object_text", "read_json"]

_SPACE: Final = " \t\r\n"


class JSONError(ValueError):
    """Not one JSON value; the message is Go's where Go has one."""


def read_json(text: str | bytes, *, trailing: bool = False) -> Value:
    """The value of `text`; JSONError otherwise.

    `trailing`: whatever follows the first value is left unread, as Go's decoder does.
    """
    if isinstance(text, bytes):
        # Go replaces what is not UTF-8, one mark for each byte that it cannot use.
        text = text.decode("utf-8", errors="replace")
    if trailing:
        text = text[: _end_of_value(text)]
    try:
        return from_json(text)
    except ValueError as error:
        raise JSONError(go_message(text, error)) from None


def go_message(text: str, error: ValueError) -> str:
    """What Go's decoder says about `text`, for which Python's said `error`."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if not text.strip(_SPACE):
        return "EOF"
    place = _fault(text, error)
    if place >= len(text):
        return "unexpected EOF"
    return f"invalid character {_quoted(text[place])} {_context(text, place, error)}"


def object_text(fields: Mapping[str, str]) -> str:
    """The JSON of an object with its fields in this order; their values are JSON already."""
    return "{" + ",".join([f"{marshal(name)}:{value}" for name, value in fields.items()]) + "}"


def _end_of_value(text: str) -> int:
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return len(text)


def _fault(text: str, error: json.JSONDecodeError) -> int:
    """Where Go stops: past white space, and at the end for a string that is never closed."""
    if error.msg.startswith("Unterminated string"):
        return len(text)
    place = error.pos
    if error.msg.startswith("Invalid control character"):
        # Python names the start of the string.
        return next(n for n in range(place, len(text)) if text[n] < " ")
    while place < len(text) and text[place] in _SPACE:
        place += 1
    return place


def _context(text: str, place: int, error: json.JSONDecodeError) -> str:
    if error.msg.startswith("Extra data"):
        return "after top-level value"
    if error.msg.startswith("Expecting property name"):
        return "looking for beginning of object key string"
    if error.msg.startswith("Expecting ':'"):
        return "after object key"
    if error.msg.startswith("Expecting ','"):
        return f"after {'array element' if _in_array(text, place) else 'object key:value pair'}"
    if error.msg.startswith("Invalid control character"):
        return "in string literal"
    if "escape" in error.msg:
        return "in string escape code"
    return "looking for beginning of value"


def _in_array(text: str, place: int) -> bool:
    """Whether the innermost open bracket before `place` is `[` (strings are well formed there)."""
    open_: list[str] = []
    in_string = escaped = False
    for char in text[:place]:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "[{":
            open_.append(char)
        elif char in "]}" and open_:
            open_.pop()
    return bool(open_) and open_[-1] == "["


def _quoted(char: str) -> str:
    """Go names the byte, not the character."""
    char = chr(char.encode("utf-8", errors="surrogatepass")[0])
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    if char == "\\":
        return r"'\\'"
    return f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'"
