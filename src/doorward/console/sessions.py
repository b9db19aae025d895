"""Sessions of browsers: a token that was shown once, behind a random name that a cookie holds.

A browser sends no bearer token by itself. It shows the token once; the server keeps it and gives a
cookie that no script and no other site can use. The policy is asked for every request as if the
token came with it, so that a token that is no longer allowed ends what its session may do.
Sessions are kept in memory, by a digest of their names; the workers ask each other.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["COOKIE", "SECONDS", "Sessions", "digest_of", "is_same_origin", "set_cookie"]

COOKIE: Final = "doorward_console"
SECONDS: Final = 3_600
"""How long a session lasts."""
MOST: Final = 200
"""Sessions of one worker; the oldest goes."""
LONGEST: Final = 16 << 10
"""Characters of a token."""


class _Session(NamedTuple):
    token: str
    until: float


class Sessions:
    """The sessions that one worker began; safe in any number of threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, token: str) -> str:
        """Keep a token, and return the name of its session."""
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[digest_of(name)] = _Session(token, self._clock() + SECONDS)
            while len(self._sessions) > MOST:
                self._sessions.popitem(last=False)
        return name

    def token(self, digest: str) -> str | None:
        """The token of a session; None for one that ended or began elsewhere."""
        with self._lock:
            session = self._sessions.get(digest)
            if session is not None and session.until <= self._clock():
                del self._sessions[digest]
                session = None
        return None if session is None else session.token

    def end(self, digest: str) -> None:
        """Forget a session."""
        with self._lock:
            self._sessions.pop(digest, None)


def digest_of(name: str) -> str:
    """The digest that a session is kept by: who reads memory of keys learns no cookie."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def is_same_origin(request: Request, origins: Collection[str] = ()) -> bool:
    """Return True if a request comes from a page of this server: its `Origin` says so, and is that
    of the request, or one of `origins` where something in front of it ends TLS."""
    origin = request.headers.get("origin", "")
    if origin in origins:
        return True
    parts = urlsplit(origin) if len(origin) < 1_000 else urlsplit("")
    host = request.headers.get("host", "")
    return bool(host) and parts.netloc == host and parts.scheme == request.url.scheme


def set_cookie(
    response: Response, request: Request, name: str, *, is_encrypted: bool = False
) -> Response:
    """Add the cookie of a session to an answer, or remove it where `name` is "".

    `is_encrypted`: the browser comes over TLS, though the request does not say so.
    """
    is_encrypted = is_encrypted or request.headers.get("origin", "").startswith("https:")
    response.set_cookie(
        COOKIE,
        name,
        max_age=SECONDS if name else 0,
        path="/console",
        secure=is_encrypted or request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response
