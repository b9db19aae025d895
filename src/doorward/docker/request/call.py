"""The bytes of an AuthZReq or AuthZRes become an `AuthzRequest`, and its target its parts.

Reading is strict: the daemon writes this JSON itself, so whatever is not as it writes it comes from
someone else, or was cut on the way (a daemon that is cut off repeats its call without a body).
Nothing is decided and nothing is read into the engine API here.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from doorward.docker.request.archives import Archive
from doorward.docker.request.errors import AmbiguousRequestError, MalformedRequestError
from doorward.docker.request.schema import read_compact
from doorward.docker.request.solves import Solve
from doorward.rego import from_json

__all__ = ["AuthzRequest", "Caller", "Target", "parse_request", "parse_target"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?]*)?")
_VERSION: Final = re.compile(r"/v([0-9.]+)(?=/)")
_DOTS: Final = re.compile(r"/\.\.?(?:/|\Z)")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# By the daemon's handlers: `r.Form["t"]` is a list there, `FormValue` the first value.
_REPEATED: Final = frozenset({"names", "t", "changes", "extrahosts", "securityopt"})
"""Parameters that the daemon reads as lists; of any other it reads the first."""

MAX_TARGET: Final = 64 * 1024
_SHORT: Final = 128
"""Characters of a path that is remembered."""
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Caller(NamedTuple):
    """The client of a request that came through the proxy, which knows more of it than a daemon."""

    name: str
    """The user, or `socket:NAME` for a socket of its own; "" for one that has no name."""
    method: str
    """How it is known: `peer`, `socket`, `container` or `TLS`."""
    groups: tuple[str, ...] = ()
    uid: int = -1
    container: str = ""
    """The identifier of the container in which it runs, as far as its control group tells."""


class AuthzRequest(NamedTuple):
    """The daemon's description of one request. `body` is None if it shows none."""

    method: str
    uri: str
    user: str = ""
    auth_method: str = ""
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes | None = None
    status: int | None = None
    """The status of the daemon's answer, in the response phase; None if the daemon does not send
    it."""
    caller: Caller | None = None
    """The sender, if a proxy identified it; None for a call of the plugin API."""
    solve: Solve | None = None
    """The BuildKit call in this request, if a proxy read it; None otherwise."""
    archive: Archive | None = None
    """The archive in the body, if a proxy reads it; None otherwise."""

    @property
    def identified(self) -> bool:
        """True if a certificate or the proxy identifies `user`."""
        return bool(self.user) and (self.auth_method == "TLS" or self.caller is not None)


class Target(NamedTuple):
    """A request target with its path and query decoded once."""

    path: str
    """The whole path, decoded: what other plugins call `PathPlain`."""
    route: str
    """The path without its version."""
    version: str
    query: dict[str, list[str]]


def parse_request(content: bytes) -> AuthzRequest:
    """Parse the JSON body of a call of Docker's authorization plugin API, in either phase;
    `caller`, `solve` and `archive` of the result stay None. Raise MalformedRequestError if it is
    empty, is not a JSON object, or has no method or target or a field of another type.
    """
    # dockerd repeats a call without its body when its connection broke: nothing says what it was.
    if not content:
        raise MalformedRequestError(
            "the Docker daemon's call has no content: the daemon lost a connection "
            "to the plugin; try again"
        )
    document = read_compact(content)
    if document is None:
        try:
            document = from_json(content, unique_keys=True)
        except ValueError:
            raise MalformedRequestError("the Docker daemon's call is not one JSON value") from None
    if type(document) is not dict:
        raise MalformedRequestError("the Docker daemon's call is not a JSON object")
    method, uri = _text(document, "RequestMethod"), _text(document, "RequestUri")
    if not method or not uri:
        raise MalformedRequestError("the Docker daemon's call has no method or no target")
    headers = document.get("RequestHeaders") or {}
    if type(headers) is not dict:
        raise MalformedRequestError("the Docker daemon's call has headers that are not strings")
    for value in headers.values():
        if type(value) is not str:
            raise MalformedRequestError("the Docker daemon's call has headers that are not strings")
    status = document.get("ResponseStatusCode")
    return AuthzRequest(
        method,
        uri,
        _text(document, "User"),
        _text(document, "UserAuthNMethod"),
        headers,
        _body(document),
        status if type(status) is int else None,
    )


def _text(document: dict[Any, Any], name: str) -> str:
    """Return a field of the call as text, "" if it is missing; MalformedRequestError for
    another type.
    """
    value = document.get(name, "")
    if type(value) is not str:
        raise MalformedRequestError(f"the Docker daemon's call has a {name} that is not a string")
    return value


def _body(document: dict[Any, Any]) -> bytes | None:
    """Return the decoded body of the call; None if it is empty or was not sent.

    Raise MalformedRequestError if it is not base64.
    """
    text = _text(document, "RequestBody")
    if not text:
        return None
    try:
        # Strict: other decoders skip bytes that are not base64, and would read another body.
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise MalformedRequestError(
            "the Docker daemon's call has a body that is not base64"
        ) from None


def parse_target(uri: str) -> Target:
    """Return path, route, API version and query of a request target, as the daemon's router reads
    them.

    Raise MalformedRequestError if the target is too long or badly escaped, AmbiguousRequestError if
    the daemon may read it in another way.
    """
    if len(uri) > MAX_TARGET:
        raise MalformedRequestError(f"request target is longer than {MAX_TARGET} characters")
    rest, _, query = uri.partition("?")
    # RFC 9112, 3.2.2: dockerd serves the absolute form too, and looks at its path alone.
    if not rest.startswith("/") and (scheme := _SCHEME.match(rest)):
        rest = rest[scheme.end() :] or "/"
    path, route, version = (_known_path if len(rest) <= _SHORT else _parse_path)(rest)
    return Target(path, route, version, _query(query) if path.startswith("/") else {})


def _parse_path(text: str) -> tuple[str, str, str]:
    """Return the decoded path, the path without its version, and the version: `/v1.43/info` ->
    `("/v1.43/info", "/info", "1.43")`.

    The version is `""` if there is none, and the route too if the path is not absolute. Raise
    AmbiguousRequestError for empty or dot segments and control characters, MalformedRequestError
    for a broken escape or bytes that are not UTF-8.
    """
    # Decoded before it is divided, as in dockerd's router, to which `%2F` is a slash.
    path = _decode(text, "path")
    if not path.startswith("/"):
        return path, "", ""
    if "//" in path or ("/." in path and _DOTS.search(path)):
        # The daemon answers these with a redirect and asks nobody: this is not the daemon.
        raise AmbiguousRequestError("path has empty or dot segments")
    version = _VERSION.match(path)
    if version is None:
        return path, path, ""
    return path, path[version.end() :], version[1]


_known_path: Final = lru_cache(512)(_parse_path)
"""The same for paths as clients send them with every request."""


def _decode(text: str, subject: str) -> str:
    """Return a text with its percent escapes decoded.

    Raise MalformedRequestError for a broken escape or bytes that are not UTF-8,
    AmbiguousRequestError for control characters. `subject` names the text in the message.
    """
    if "%" in text:
        if _BAD_ESCAPE.search(text):
            raise MalformedRequestError(f"{subject} has a broken escape")
        try:
            text = unquote_to_bytes(text).decode()
        except UnicodeDecodeError:
            raise MalformedRequestError(f"{subject} is not UTF-8") from None
    if not text.isprintable() and any(c < " " or c == "\x7f" for c in text):
        raise AmbiguousRequestError(f"{subject} has control characters")
    return text


def _query(text: str) -> dict[str, list[str]]:
    """Return all parameters with their values in order, empty values included.

    Raise AmbiguousRequestError for a semicolon and for a repeated parameter that the daemon does
    not read as a list, MalformedRequestError for a broken escape or bytes that are not UTF-8.
    """
    parameters: dict[str, list[str]] = {}
    if not text:
        return parameters
    # Go's parser drops such a pair since 1.17, and split it there before.
    if ";" in text:
        raise AmbiguousRequestError("query has a semicolon")
    for pair in text.split("&"):
        if not pair:
            continue
        name, _, value = pair.partition("=")
        parameters.setdefault(_form(name), []).append(_form(value))
    for name, values in parameters.items():
        if len(values) > 1 and name not in _REPEATED:
            raise AmbiguousRequestError("query names a parameter twice")
    return parameters


def _form(text: str) -> str:
    """Return a name or value of a query decoded; `+` is a space.

    Raise MalformedRequestError for a broken escape or bytes that are not UTF-8.
    """
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    if _BAD_ESCAPE.search(text):
        raise MalformedRequestError("query has a broken escape")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise MalformedRequestError("query is not UTF-8") from None
