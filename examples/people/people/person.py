"""Bytes of a request body become a `NewPerson`, or a `BadBody` that says what is wrong.

All rules about what a person record may hold live here. This module knows no HTTP and no database.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

MAX_BODY: Final = 8192
MAX_NAME: Final = 200
FIELDS: Final = ("firstname", "lastname")


class BadBody(ValueError):
    """The body is not a person; the text is meant for the client."""


@dataclass(frozen=True, slots=True)
class NewPerson:
    """What a client supplies: a person that has no id yet."""

    firstname: str
    lastname: str


@dataclass(frozen=True, slots=True)
class Person:
    """A stored person."""

    id: str
    firstname: str
    lastname: str


def parse_person(body: bytes) -> NewPerson:
    """The person in a JSON body of exactly the fields `firstname` and `lastname`."""
    document = _parse_json(body)
    if not isinstance(document, dict):
        raise BadBody("the body must be a JSON object")
    if unknown := sorted(set(document) - set(FIELDS)):
        raise BadBody(f"unknown field {json.dumps(unknown[0][:MAX_NAME])}")
    return NewPerson(**{field: _check_name(field, document.get(field)) for field in FIELDS})


def _parse_json(body: bytes) -> Any:
    try:
        # Decoded here because json.loads would guess UTF-16 and UTF-32 from bytes.
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadBody("the body is not valid UTF-8") from error
    try:
        return json.loads(text, object_pairs_hook=_unique_fields, parse_constant=_refuse_constant)
    except BadBody:
        raise
    except json.JSONDecodeError as error:
        raise BadBody(
            f"the body is not valid JSON: line {error.lineno} column {error.colno}"
        ) from error
    except (ValueError, RecursionError) as error:  # a number too long, brackets too deep
        raise BadBody("the body is not JSON that a person can be read from") from error


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BadBody("a field is given twice")
    return fields


def _refuse_constant(name: str) -> Any:
    raise BadBody(f"the body is not valid JSON: `{name}`")


def _check_name(field: str, value: Any) -> str:
    if value is None:
        raise BadBody(f"`{field}` is required")
    if not isinstance(value, str):
        raise BadBody(f"`{field}` must be a string")
    if not 1 <= len(value) <= MAX_NAME:
        raise BadBody(f"`{field}` must have 1 to {MAX_NAME} characters")
    if value != value.strip():
        raise BadBody(f"`{field}` must not begin or end with white space")
    # Control characters and lone surrogates: databases refuse some of them, people all of them.
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in value):
        raise BadBody(f"`{field}` holds a character that no name has")
    return value
