"""Responses that outlive a decision: how long one is fresh (RFC 9111), and where it is kept.

Knows no network and no clock: the caller says what time it is, in nanoseconds.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from doorward.rego.builtins.http_client.message import HTTPResponse

__all__ = ["ResponseCache", "StoredResponse", "keep", "revalidated"]

_SECOND: Final = 1_000_000_000
_CACHEABLE: Final = frozenset({200, 203, 204, 206, 300, 301, 404, 405, 410, 414, 501})
_DIRECTIVE: Final = re.compile(r"([a-z-]+)(?:\s*=\s*(?:\"([^\"]*)\"|([^\s,]*)))?", re.ASCII)
MAX_AGE: Final = 10 * 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response, fresh until `fresh_until`; after that its `validators` may renew it."""

    response: HTTPResponse
    fresh_until: int
    validators: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        head = sum([len(name) + len(value) + 64 for name, value in self.response.headers])
        return len(self.response.body) + head + 512


def keep(response: HTTPResponse, now: int, forced_seconds: int | None) -> StoredResponse | None:
    """How to store a response that came just now; None: not at all.

    `forced_seconds` overrides what the server says of freshness.
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


def revalidated(stored: StoredResponse, answer: HTTPResponse, now: int) -> StoredResponse:
    """`stored`, renewed by a 304 answer."""
    renewed = {**dict(stored.response.headers), **dict(answer.headers)}
    headers = tuple((name, value) for name, value in renewed.items() if name != "content-length")
    response = replace(stored.response, headers=headers)
    kept = keep(response, now, None)
    return kept or StoredResponse(response, now, ())


def _directives(response: HTTPResponse) -> dict[str, str]:
    text = response.header("cache-control").lower()
    return {m[1]: m[2] or m[3] or "" for m in _DIRECTIVE.finditer(text)}


def _validators(response: HTTPResponse) -> tuple[tuple[str, str], ...]:
    pairs = [("if-none-match", "etag"), ("if-modified-since", "last-modified")]
    headers = [(asking, response.header(given)) for asking, given in pairs]
    return tuple((asking, value) for asking, value in headers if value)


def _lifetime(response: HTTPResponse, directives: dict[str, str]) -> int:
    """Seconds from now; what the response has aged on its way is taken off."""
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


class ResponseCache:
    """Responses by request, at most `capacity` bytes of them; safe in any number of threads.

    The one stored first goes first.
    """

    def __init__(self, capacity: int = 16 * 1024 * 1024) -> None:
        self._capacity = capacity
        self._used = 0
        self._entries: OrderedDict[Hashable, StoredResponse] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> StoredResponse | None:
        """What was stored, fresh or not."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: Hashable, stored: StoredResponse) -> None:
        """Store a response, unless it alone is more than the capacity."""
        with self._lock:
            self._remove(key)
            if stored.size > self._capacity:
                return
            while self._used + stored.size > self._capacity:
                self._remove(next(iter(self._entries)))
            self._entries[key] = stored
            self._used += stored.size

    def _remove(self, key: Hashable) -> None:
        stored = self._entries.pop(key, None)
        if stored is not None:
            self._used -= stored.size

    def __len__(self) -> int:
        return len(self._entries)
