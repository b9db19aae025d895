"""The formats of JSON Schema, each a function that says whether a string has it.

Formats not named here are not checked, and neither are values that are not strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, time
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from doorward.rego.errors import BuiltinError
from doorward.rego.golang import urls as go_url
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
_EMAIL: Final = re.compile(r"[^\s@<>(),;:\\\"\[\]]+@[^\s@<>(),;:\\\"\[\]]+\Z")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(
    r"(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?\Z", re.IGNORECASE | re.ASCII
)
_ZONED: Final = re.compile(r".*(?:Z|[+-]\d\d:\d\d)\Z", re.IGNORECASE | re.ASCII)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~0|~1)*)*\Z")
_RELATIVE_POINTER: Final = re.compile(r"(?:0|[1-9]\d*)(?:#|(?:/(?:[^~/]|~0|~1)*)*)\Z", re.ASCII)


def _text_of(is_valid: Callable[[str], bool]) -> Callable[[object], bool]:
    """Return a check of any value: strings are passed to `is_valid`, all other values are valid."""

    def check(value: object) -> bool:
        return not isinstance(value, str) or is_valid(value)

    return check


def _is_address(version: type[IPv4Address] | type[IPv6Address]) -> Callable[[str], bool]:
    """Return a check for an IP address of this version; a zone such as `%eth0` is refused."""

    def is_valid(text: str) -> bool:
        """Return True for an address of the version without a zone."""
        try:
            version(text)
        except AddressValueError:
            return False
        return "%" not in text

    return is_valid


def _is_date(text: str) -> bool:
    """Return True for an existing date as `YYYY-MM-DD`."""
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    """Return True for a time of day as gojsonschema accepts it: `10:30:00`, with or without a
    fraction of a second and a zone.
    """
    match = _TIME.match(text)
    if not match:
        return False
    try:
        time.fromisoformat(match[1])
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    """Return True for a date and time separated by `T`, `t` or a space. After `T` or `t` a zone is
    required, after a space it is not.
    """
    day, middle, clock = text[:10], text[10:11], text[11:]
    return (
        _is_date(day)
        and middle in {"T", "t", " "}
        and _is_time(clock)
        and bool(_ZONED.match(clock) or middle == " ")
    )


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
    """Return True for a URI reference whose `{...}` expressions are closed and not nested; what is
    inside them is not checked.
    """
    return _is_uri_reference(re.sub(r"\{[^{}]*\}", "x", text)) and "{" not in re.sub(
        r"\{[^{}]*\}", "", text
    )


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
        "date": _is_date,
        "date-time": _is_date_time,
        "email": _fits(_EMAIL),
        "hostname": _fits(_HOST),
        "idn-email": _fits(_EMAIL),
        "ipv4": _is_address(IPv4Address),
        "ipv6": _is_address(IPv6Address),
        "iri": _is_uri,
        "iri-reference": _is_uri_reference,
        "json-pointer": _fits(_POINTER),
        "regex": _is_regex,
        "relative-json-pointer": _fits(_RELATIVE_POINTER),
        "time": _is_time,
        "uri": _is_uri,
        "uri-reference": _is_uri_reference,
        "uri-template": _is_uri_template,
        "uuid": _fits(_UUID),
    }.items()
}
