"""Freshness of responses (RFC 9111), and what renews them.

Knows no network and no clock: the caller says what time it is, in nanoseconds.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from doorward.rego.builtins.http_client.cache import StoredResponse
from doorward.rego.builtins.http_client.message import HTTPResponse

__all__ = ["keep", "revalidate"]

_SECOND: Final = 1_000_000_000
# OPA's `cacheableHTTPStatusCodes` (topdown/http.go).
_CACHEABLE: Final = frozenset({200, 203, 204, 206, 300, 301, 404, 405, 410, 414, 501})
_DIRECTIVE: Final = re.compile(r"([a-z-]+)(?:\s*=\s*(?:\"([^\"]*)\"|([^\s,]*)))?", re.ASCII)
MAX_AGE: Final = 10 * 365 * 24 * 3600
"""The seconds (10 years) to which longer lifetimes are cut, so that sums stay in range."""


def keep(response: HTTPResponse, now: int, forced_seconds: int | None) -> StoredResponse | None:
    """Return the entry to store for a response received at `now` (nanoseconds), or None if it must
    not or need not be stored. One that only a conditional request can renew is stored although it
    is stale at once. `forced_seconds` replaces the freshness that the server states and overrides
    `no-store`; only the status still decides. An entry is fresh for at most `MAX_AGE` seconds.
    """
    if response.status_code not in _CACHEABLE:
        return None
    directives = _directives(response)
    if forced_seconds is not None:
        return StoredResponse(response, now + min(forced_seconds, MAX_AGE) * _SECOND)
    if "no-store" in directives:
        return None
    validators = _validators(response)
    fresh = 0 if "no-cache" in directives else _lifetime(response, directives)
    if fresh <= 0 and not validators:
        return None
    return StoredResponse(response, now + fresh * _SECOND, validators)


def revalidate(stored: StoredResponse, answer: HTTPResponse, now: int) -> StoredResponse:
    """Return the stored entry with its headers updated by those of the 304 response `answer`,
    without Content-Length, and with a new lifetime from `now` on. If the response must not, or need
    not, be stored any more, the entry is stale at once and has no validators.
    """
    renewed = {**dict(stored.response.headers), **dict(answer.headers)}
    headers = tuple((name, value) for name, value in renewed.items() if name != "content-length")
    response = replace(stored.response, headers=headers)
    kept = keep(response, now, None)
    return kept or StoredResponse(response, now, ())


def _directives(response: HTTPResponse) -> dict[str, str]:
    """Return the directives of Cache-Control by lower-case name, with their arguments in lower case
    or ""; of one that is repeated, the last.
    """
    text = response.header("cache-control").lower()
    return {m[1]: m[2] or m[3] or "" for m in _DIRECTIVE.finditer(text)}


def _validators(response: HTTPResponse) -> tuple[tuple[str, str], ...]:
    """The headers of a conditional request for this response: If-None-Match if it has an ETag, and
    If-Modified-Since if it has Last-Modified.
    """
    pairs = [("if-none-match", "etag"), ("if-modified-since", "last-modified")]
    headers = [(asking, response.header(name)) for asking, name in pairs]
    return tuple((asking, value) for asking, value in headers if value)


def _lifetime(response: HTTPResponse, directives: dict[str, str]) -> int:
    """The seconds for which a response stays fresh, less its Age; may be negative. If there is a
    `max-age`, it counts alone, as 0 if it is invalid; otherwise the time from Date to Expires
    counts, and the result is 0 if one of them is missing or invalid. At most `MAX_AGE`.
    """
    age = response.header("age")
    aged = int(age) if age.isascii() and age.isdecimal() and len(age) < 10 else 0
    if "max-age" in directives:
        seconds = directives["max-age"]
        plain = seconds.isascii() and seconds.isdecimal() and len(seconds) < 12
        return (min(int(seconds), MAX_AGE) if plain else 0) - aged
    from email.utils import parsedate_to_datetime  # only responses with `expires` need it

    try:
        date = parsedate_to_datetime(response.header("date"))
        expires = parsedate_to_datetime(response.header("expires"))
        return min(int((expires - date).total_seconds()), MAX_AGE) - aged
    except (TypeError, ValueError):
        return 0
