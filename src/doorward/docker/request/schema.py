"""The classes of the engine API's bodies, and JSON as the daemon reads it.

Go finds a struct's field by folding the case of the key (ASCII letters, and U+017F and U+212A,
which fold to `s` and `k`); the keys of a map stay as they are. What a struct does not know is kept
under its own name and reported, since a newer daemon may know it. `model.readers` brings a value
into its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

import orjson

from doorward.base.records import record
from doorward.docker.request.errors import AmbiguousRequestError, MalformedRequestError
from doorward.rego import Value, from_json

__all__ = [
    "BOOLEAN",
    "INTEGER",
    "LOOSE",
    "STRING",
    "WORDS",
    "Array",
    "FractionError",
    "Map",
    "Scalar",
    "Struct",
    "Type",
    "fold",
    "parse_json",
    "read_compact",
]

Scalar: TypeAlias = Literal["string", "boolean", "integer", "words", "loose"]
STRING: Final = "string"
BOOLEAN: Final = "boolean"
INTEGER: Final = "integer"
WORDS: Final = "words"
"""An array of strings that may be given as one string."""
LOOSE: Final = "loose"
"""Whatever it is: kept as it is, after a check that no reader could confuse two of its keys."""


_CLASS: Final[Mapping[str, type]] = {STRING: str, BOOLEAN: bool, INTEGER: int}


@record
class Array:
    """A JSON array of one type."""

    item: Type


@record
class Map:
    """The type of an object whose keys the user chooses; they keep their spelling."""

    item: Type


@record
class Struct:
    """The type of an object with known fields; `fields` maps Go's name to each field's type.

    `refused` are names, with their case folded, that the daemon reads there and policies would not
    see.
    """

    name: str
    fields: Mapping[str, Type]
    refused: frozenset[str] = frozenset()
    by_fold: Mapping[str, str] = field(init=False)
    classes: Mapping[str, type] = field(init=False)
    """The JSON class of each field that accepts only one."""

    def __post_init__(self) -> None:
        classes = {name: _class_of(type_) for name, type_ in self.fields.items()}
        object.__setattr__(self, "classes", {n: c for n, c in classes.items() if c is not None})
        object.__setattr__(self, "by_fold", {fold(name): name for name in self.fields})


Type: TypeAlias = Scalar | Array | Map | Struct


def _class_of(type_: Type) -> type | None:
    """Return Python's class for values of a type: list or dict for arrays and objects; None if
    several classes fit.
    """
    if isinstance(type_, str):
        return _CLASS.get(type_)
    return list if isinstance(type_, Array) else dict


_FOLD: Final = str.maketrans({"\u017f": "s", "\u212a": "k"})
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def fold(key: str) -> str:
    """Return a key with its case folded as Go's decoder does it to compare keys."""
    if key.isascii():
        return key.lower()
    return "".join([c.lower() if c.isascii() else c for c in key.translate(_FOLD)])


def parse_json(body: bytes) -> Value:
    """Return the JSON value in `body`.

    Raise MalformedRequestError unless it is one value in strict UTF-8 without lone surrogates,
    AmbiguousRequestError if an object has a key twice.
    """
    try:
        value = from_json(body, unique_keys=True)
        if _SURROGATE.search(body):
            # A lone surrogate is not a character: Go puts a mark in its place, others fail.
            json.dumps(json.loads(body), ensure_ascii=False).encode()
        return value
    except UnicodeError:
        raise MalformedRequestError("body is not UTF-8") from None
    except ValueError as error:
        if "duplicate key" in str(error):
            raise AmbiguousRequestError("body names a key twice") from None
        raise MalformedRequestError("body is not one JSON value") from None


_HTML: Final = tuple(
    (chr(code).encode(), b"\\u%04x" % code) for code in (0x3C, 0x3E, 0x26, 0x2028, 0x2029)
)


class FractionError(Exception):
    """A parsed body has a fraction, of which the spelling is lost; the caller must parse the body
    again in the slower way that keeps it.
    """


def read_compact(content: bytes) -> Any:
    """Return the value of a JSON text in the form that Go's encoder writes; None for any other
    text.

    A text that encodes to itself again has no duplicate key, no number beyond 64 bits and no
    whitespace, and needs no slower check. Only the spelling of fractions and exponents is lost.
    """
    try:
        value = orjson.loads(content)
        text = orjson.dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    # Go's encoder writes a line feed behind the value.
    if text == content or text == content.removesuffix(b"\n"):
        return value
    return value if b"\\u" in content and _escape(text) == content.removesuffix(b"\n") else None


def _escape(text: bytes) -> bytes:
    """Return a JSON text with the characters escaped that Go's encoder escapes for use in HTML."""
    for plain, escaped in _HTML:
        text = text.replace(plain, escaped)
    return text
