"""Sessions of browsers: a token, kept by the server behind a random name in a cookie.

A browser sends no bearer token by itself. The user shows the token once; the server keeps it and
sets a cookie that no script and no other site can use. The policy decides on every request as if
the token came with it, so a token that is no longer allowed ends the session's rights. Sessions are
kept in memory, by a digest of their names; the workers ask each other for them.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from doorward.base.urls import split_url

__all__ = ["COOKIE", "SECONDS", "Sessions", "digest_of", "is_same_origin", "set_cookie"]

COOKIE: Final = "doorward_console"
SECONDS: Final = 3_600
"""The seconds after which a session ends."""
MOST: Final = 200
"""The most sessions of one worker; the oldest ends."""
LONGEST: Final = 16 << 10
"""The most characters of a token; a longer one cannot log in."""


class _Session(NamedTuple):
    """The bearer token of a session, and the time until which the session lasts."""

    token: str
    until: float


class Sessions:
    """The login sessions of the console that one worker began; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, token: str) -> str:
        """Keep a token for `SECONDS`, and return the random name of its session; above `MOST` the
        oldest session ends.
        """
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[digest_of(name)] = _Session(token, self._clock() + SECONDS)
            while len(self._sessions) > MOST:
                self._sessions.popitem(last=False)
        return name

    def token(self, digest: str) -> str | None:
        """Return the token of a session by its digest; None if it has ended or began in another
        worker.
        """
        with self._lock:
            session = self._sessions.get(digest)
            if session is not None and session.until <= self._clock():
                del self._sessions[digest]
                session = None
        return None if session is None else session.token

    def end(self, digest: str) -> None:
        """End a session; does nothing if it is not known."""
        with self._lock:
            self._sessions.pop(digest, None)


def digest_of(name: str) -> str:
    """Return the SHA-256 of a session's name in hexadecimal, by which the session is stored: the
    name itself, which is the cookie, stays out of memory.
    """
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def is_same_origin(request: Request, origins: Collection[str] = ()) -> bool:
    """Return True if a request comes from a page of this server: its `Origin` has the scheme and
    host of the request, or is one of `origins`, where a proxy in front of the server ends TLS.
    """
    origin = request.headers.get("origin", "")
    if origin in origins:
        return True
    parts = split_url(origin if len(origin) < 1_000 else "")
    host = request.headers.get("host", "")
    return bool(host) and parts.netloc == host and parts.scheme == request.url.scheme


def set_cookie(
    response: Response, request: Request, name: str, *, is_encrypted: bool = False
) -> Response:
    """Set the session's cookie on a response, for `SECONDS`, or remove it if `name` is "", and
    return the response. `is_encrypted`: the browser uses TLS, although the request does not show
    it.
    """
    is_encrypted = is_encrypted or request.headers.get("origin", "").startswith("https:")
    response.set_cookie(
        COOKIE,
        name,
        max_age=SECONDS if name else 0,
        path="/console",
        secure=is_encrypted or request.url.scheme == "https",
        httponly=True,
        # Not sent with a request that another site starts, even a navigation.
        samesite="strict",
    )
    return response
