"""Versions as Semantic Versioning 2.0.0 orders them; a `v` in front is allowed."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest
from typing import Final

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.signature import any_, boolean, number, string
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.strings import quote
from doorward.rego.values import Value

__all__: list[str] = []

_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION: Final = re.compile(
    r"v?(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)"
    rf"(?:-(?P<release>(?:{_IDENTIFIERS})?))?(?:\+(?:{_IDENTIFIERS})?)?",
    re.ASCII,
)
# Go's int64, in which its semver package keeps each number.
_MAX_NUMBER: Final = (1 << 63) - 1
_MAX_TEXT: Final = 4096

_Parts = tuple[tuple[int, int, int], list[str]]


@builtin("semver.is_valid", any_, returns=boolean, inverse=inverse("valid_semver"))
def semver_is_valid(vsn: Value) -> bool:
    """Return true if this is a string that holds a version."""
    return isinstance(vsn, str) and _parse(vsn) is not None


@builtin("semver.compare", string, string, returns=number, inverse=inverse("semver"))
def semver_compare(a: str, b: str) -> int:
    """-1, 0 or 1 if version `a` is lower than, equal to or higher than `b`; build metadata does not
    count. A text that is not a version is an error.
    """
    one, other = _version(1, a), _version(2, b)
    if one[0] != other[0]:
        return 1 if one[0] > other[0] else -1
    if not one[1] or not other[1]:
        # A version without a pre-release comes after those with one.
        return bool(other[1]) - bool(one[1])
    return _order(one[1], other[1])


def _version(position: int, text: str) -> _Parts:
    """The numbers and pre-release parts of a version; BuiltinError, naming operand `position`, if
    the text is not a semantic version. Build metadata is dropped.
    """
    parsed = _cached_parts(text) if len(text) <= _CACHED_TEXT else _parse(text)
    if parsed is None:
        raise BuiltinError(f"operand {position}: string {quote(text)} is not a valid SemVer")
    return parsed


def _parse(text: str) -> _Parts | None:
    """Parse a version to its three numbers and its pre-release parts ([] for a release); None if it
    is invalid or a number exceeds 63 bits. LimitError if it is longer than `_MAX_TEXT`.
    """
    if len(text) > _MAX_TEXT:
        raise LimitError(f"version is longer than {_MAX_TEXT} characters")
    release = ""
    major, _, rest = text.partition(".")
    minor, _, patch = rest.partition(".")
    if not (major.isdigit() and minor.isdigit() and patch.isdigit() and text.isascii()):
        match = _VERSION.fullmatch(text)
        if not match:
            return None
        major, minor, patch, release = match.groups()
    numbers = int(major), int(minor), int(patch)
    if max(numbers) > _MAX_NUMBER:
        return None
    return numbers, release.split(".") if release else []


_CACHED_TEXT: Final = 64


@lru_cache(maxsize=256)
def _cached_parts(text: str) -> _Parts | None:
    """Parse a version to its three numbers and its pre-release parts; None if it is invalid.
    Cached: policies compare many versions with the same few.
    """
    return _parse(text)


def _order(one: list[str], other: list[str]) -> int:
    """Compare the pre-release parts of two versions by rule 11 of Semantic Versioning: -1, 0 or 1.
    Where all parts before are equal, the shorter list comes first; the caller handles releases,
    which have no parts.
    """
    for a, b in zip_longest(one, other):
        if a is None or b is None:
            return -1 if a is None else 1
        left, right = _rank(a), _rank(b)
        if left != right:
            return 1 if left > right else -1
    return 0


def _rank(identifier: str) -> tuple[bool, int, str]:
    """The key to order a pre-release part by: numbers by value, and before names, which are ordered
    by their characters.
    """
    if identifier.isascii() and identifier.isdecimal():
        return False, int(identifier), ""
    return True, 0, identifier
