"""Segments of a path become tokens: a word, a type of values, or an attribute of the subject.

    "orders" ─▶ "orders"      "17" ─▶ INT      "alice" of alice ─▶ (("claims", "sub"),)
    "INV-000123" ─▶ Numbered("INV-")

Tokens are decided by the segment and its subject alone, so that they depend on nothing else in a
log. The types are those that the policy tests, with the same patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeGuard

from doorward.learn.access import Attribute, Subject

__all__ = [
    "DATE",
    "HEX",
    "INT",
    "LONGEST",
    "MOST",
    "PADDED",
    "PATTERNS",
    "TYPES",
    "ULID",
    "UUID",
    "Kind",
    "Numbered",
    "Shape",
    "Token",
    "is_plain",
    "is_typed",
    "owners_in",
    "sort_key",
    "tokens_of",
    "type_of",
]

INT: Final = 1
UUID: Final = 2
DATE: Final = 3
HEX: Final = 4
ULID: Final = 5
PADDED: Final = 6

TYPES: Final[Mapping[int, str]] = {
    INT: "int",
    UUID: "uuid",
    DATE: "date",
    HEX: "hex",
    ULID: "ulid",
    PADDED: "padded",
}

PATTERNS: Final[Mapping[str, str]] = {
    "int": r"^(0|[1-9][0-9]{0,18})$",
    "uuid": r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "date": r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$",
    "hex": r"^[0-9a-f]{16,128}$",
    "padded": r"^0[0-9]{2,18}$",
    "ulid": r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$",
}
"""By the name of a type of segment, the regular expression that `policy.rego` uses, without an
optional line break at the end.
"""


class Numbered(NamedTuple):
    """A type of segment: letters and then a number of three digits or more, such as
    `INV-2027-000123`.
    """

    prefix: str


Kind: TypeAlias = int | Numbered
"""The type of a value in a path."""

Token: TypeAlias = str | Kind | tuple[Attribute, ...]
"""A part of a shape: a word, a type, or the attributes of the subject whose value the segment
is.
"""

Shape: TypeAlias = tuple[str, str, tuple[Token, ...]]
"""The host, the method and the tokens of the path of a request."""

LONGEST: Final = 200
"""A segment of a path may have at most this many characters."""
MOST: Final = 32
"""A path may have at most this many segments."""

_COMPILED: Final = [(number, re.compile(PATTERNS[name])) for number, name in TYPES.items()]
_NUMBERED: Final = re.compile(r"([A-Za-z](?:[A-Za-z0-9._-]{0,30}[A-Za-z._-])?)[0-9]{3,18}\Z")
_SEGMENT: Final = (
    # What readers of a path disagree about: dots, control characters and white space, backslashes,
    # `;` parameters, `?` and `#`, escapes, bytes that were not UTF-8 (U+FFFD).
    r"(?!\.{1,2}(?:/|\Z))[^\x00-\x20\x7f-\xa0\\/;?#%\u2028\u2029\ufffd]{1," + str(LONGEST) + "}"
)
_PLAIN: Final = re.compile(rf"(?:{_SEGMENT}/)*(?:{_SEGMENT})?\Z")


def is_typed(token: Token) -> TypeGuard[Kind]:
    """Return True if a token is a type, and not a word or the attributes of a subject."""
    return type(token) is int or type(token) is Numbered


def type_of(text: str) -> Kind:
    """Return the type of a segment, such as the number that stands for UUIDs; 0 for a word.

    A text that begins with a letter and ends in at least three digits, such as `INV-2027-000123`,
    gives a `Numbered` with the text before these digits.
    """
    # The `$` of Python's patterns also matches before a line break at the end, RE2's does not.
    if not text.isascii() or text.endswith("\n"):
        return 0
    # Most words have no digit, and every type but few values of `hex` has one.
    if text.isalpha() and len(text) < 16:
        return 0
    for number, pattern in _COMPILED:
        if pattern.match(text):
            return number
    numbered = _NUMBERED.match(text)
    return Numbered(numbered[1]) if numbered else 0


def is_plain(segments: Sequence[str]) -> bool:
    """Return True if every reader of the path gets the same segments, at most `MOST` with at most
    `LONGEST` characters each. Only the last may be empty (a slash at the end, or the root).
    """
    number = len(segments)
    if not 0 < number <= MOST:
        return False
    text = "/".join(segments)
    return text.count("/") == number - 1 and _PLAIN.match(text) is not None


def owners_in(subject: Subject) -> dict[str, tuple[Attribute, ...]]:
    """Return, by value, the attributes of a subject with this value. Lists, even of one value, and
    empty values are left out.
    """
    owners: dict[str, list[Attribute]] = {}
    for attribute, values in subject.values:
        if attribute not in subject.lists and values and values[0]:
            owners.setdefault(values[0], []).append(attribute)
    return {value: tuple(attributes) for value, attributes in owners.items()}


def tokens_of(
    segments: Iterable[str], owners: Mapping[str, tuple[Attribute, ...]]
) -> tuple[Token, ...]:
    """Return the token of each segment: a word, a type, or the attributes in `owners` with its
    value.
    """
    return tuple([owners.get(each) or _kind(each) for each in segments])


def _kind(text: str) -> Token:
    return _KINDS.get(text) or _KINDS.add(text)


class _Kinds(dict[str, Token]):
    """Remembers the tokens of recently seen segments."""

    def add(self, text: str) -> Token:
        """Compute and store the token of a segment."""
        token: Token = type_of(text) or text
        if len(self) >= 1 << 14:
            self.clear()
        self[text] = token
        return token


_KINDS: Final = _Kinds()


def sort_key(shape: Shape) -> tuple[str, str, tuple[str, ...]]:
    """Return a key that gives shapes a total order."""
    host, method, tokens = shape
    return host, method, tuple([f"{type(each).__name__}:{each}" for each in tokens])
