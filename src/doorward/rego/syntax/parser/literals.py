"""Numbers, strings and constants: the tokens that are values by themselves."""

from __future__ import annotations

import json
import re
from typing import Final

from doorward.rego.numbers import parse_literal
from doorward.rego.syntax.lexer import NUMBER
from doorward.rego.syntax.nodes import Scalar
from doorward.rego.syntax.parser.cursor import Cursor

__all__ = ["parse_constant", "parse_number", "parse_string", "plain_text"]

_FAR_TOO_BIG: Final = re.compile(r"[eE][+-]?\d{10}")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


def parse_constant(cursor: Cursor) -> Scalar:
    """constant = "true" | "false" | "null"

    Leaves the cursor at the word.
    """
    return Scalar(_CONSTANTS[cursor.kind], cursor.here())


def parse_number(cursor: Cursor) -> Scalar | None:
    """number = [ "-" ] ( digits [ "." digits ] | "." digits ) [ exponent ]

    Leaves the cursor at the last token of the number. None after recording an error, also for a
    leading zero (`01`) and a number out of range.
    """
    start = cursor.token.start
    prefix = ""
    for mark, expected in (("-", (NUMBER, ".")), (".", (NUMBER,))):
        if cursor.kind == mark:
            prefix += mark
            cursor.scan()
            if cursor.kind not in expected:
                cursor.illegal("expected number")
                return None
    text = cursor.token.text
    if not prefix.endswith(".") and text[0] == "0" and text[1:2] not in ("", ".", "e", "E"):
        cursor.illegal("expected number without leading zero")
        return None
    try:
        value = parse_literal(prefix + text)
    except ValueError:
        if _FAR_TOO_BIG.search(text):
            cursor.illegal("invalid float")
        else:
            cursor.error("number too big")
        return None
    return Scalar(value, cursor.through(start))


def parse_string(cursor: Cursor) -> Scalar | None:
    """string = '"' { character | escape } '"' | "`" { character } "`"

    Leaves the cursor at the string. None after recording an error for an invalid escape.
    """
    text = cursor.token.text
    raw = text[0] == "`"
    value = plain_text(cursor, text[1:-1], "string literal", text, raw=raw)
    return None if value is None else Scalar(value, cursor.here(), raw)


def plain_text(cursor: Cursor, text: str, what: str, literal: str, *, raw: bool) -> str | None:
    """Decode the inside of a string; `raw` has no escapes. For an invalid escape, record the error
    `illegal WHAT: LITERAL` and return None. Lone surrogates become U+FFFD.
    """
    if raw or "\\" not in text:
        return text
    try:
        value: str = json.loads(f'"{text}"')
    except ValueError:
        cursor.error(f"illegal {what}: {literal}")
        return None
    # As Go's `json.Unmarshal`; in Python such a string could not be encoded as UTF-8.
    return _LONE_SURROGATE.sub("\ufffd", value) if "\\u" in text else value
