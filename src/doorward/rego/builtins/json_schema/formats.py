"""The formats of JSON Schema, each a function that says whether a string has it.

Formats not named here are not checked, and neither are values that are not strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from doorward.rego.errors import BuiltinError
from doorward.rego.golang import urls as go_url
from doorward.rego.golang.addresses import parse_ip
from doorward.rego.golang.layouts import parse_time
from doorward.rego.golang.mail import is_address
from doorward.rego.golang.regexp import matcher

__all__ = ["FORMATS"]

# `\Z` here and below, since `$` also matches before a line break at the end.
_UUID: Final = re.compile(
    r"[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}\Z", re.IGNORECASE | re.ASCII
)
_HOST: Final = re.compile(
    r"(?=.{1,255}\Z)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\Z",
    re.ASCII,
)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~0|~1)*)*\Z")
_RELATIVE_POINTER: Final = re.compile(r"(?:0|[1-9]\d*)(?:#|(?:/(?:[^~/]|~0|~1)*)*)\Z", re.ASCII)


def _text_of(is_valid: Callable[[str], bool]) -> Callable[[object], bool]:
    """Return a check of any value: strings are passed to `is_valid`, all other values are valid."""

    def check(value: object) -> bool:
        return not isinstance(value, str) or is_valid(value)

    return check


def _has_address(mark: str) -> Callable[[str], bool]:
    """Return a check for an IP address with `mark` in its text, as in OPA: an IPv6 address that
    ends in an IPv4 one has a point as well.
    """

    def is_valid(text: str) -> bool:
        return mark in text and parse_ip(text) is not None

    return is_valid


def _has_layout(*layouts: str) -> Callable[[str], bool]:
    """Return a check for a time in one of Go's layouts."""

    def is_valid(text: str) -> bool:
        """Return True for an existing time as one of the layouts has it."""
        for layout in layouts:
            try:
                parse_time(layout, text)
            except BuiltinError:
                continue
            return True
        return False

    return is_valid


_DATE: Final = "2006-01-02"
_CLOCK: Final = ("15:04:05", "15:04:05Z07:00")
_MOMENT: Final = "2006-01-02T15:04:05Z07:00"


def _is_uri(text: str) -> bool:
    """Return True for a URI with a scheme, as Go parses it, and no backslash."""
    try:
        return "\\" not in text and "scheme" in go_url.parse(text)
    except BuiltinError:
        return False


def _is_uri_reference(text: str) -> bool:
    """Return True for a URI or relative reference, as Go parses it, and no backslash."""
    try:
        go_url.parse(text)
    except BuiltinError:
        return False
    return "\\" not in text


def _is_uri_template(text: str) -> bool:
    """Return True for a URI reference without a backslash in whose path a `}` comes after the last
    `{`, if there is one; braces need not be in pairs, and what is between them is not checked.
    """
    try:
        path = go_url.parse(text).get("path", "")
    except BuiltinError:
        return False
    return "\\" not in text and path.rfind("{") <= path.rfind("}")


def _is_regex(text: str) -> bool:
    """Return True for a regular expression that RE2 accepts; LimitError for one that is too long or
    too large.
    """
    try:
        matcher(text)
    except BuiltinError:
        return False
    return True


def _fits(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.match(text) is not None


FORMATS: Final[dict[str, Callable[[object], bool]]] = {
    name: _text_of(is_valid)
    for name, is_valid in {
        "date": _has_layout(_DATE),
        "date-time": _has_layout(*_CLOCK, _DATE, _MOMENT),
        "email": is_address,
        "hostname": _fits(_HOST),
        "idn-email": is_address,
        "ipv4": _has_address("."),
        "ipv6": _has_address(":"),
        "iri": _is_uri,
        "iri-reference": _is_uri_reference,
        "json-pointer": _fits(_POINTER),
        "regex": _is_regex,
        "relative-json-pointer": _fits(_RELATIVE_POINTER),
        "time": _has_layout(*_CLOCK),
        "uri": _is_uri,
        "uri-reference": _is_uri_reference,
        "uri-template": _is_uri_template,
        "uuid": _fits(_UUID),
    }.items()
}
