"""A request that a user pastes becomes the policy's `input`.

    curl …              the command line of curl
    GET /people …       HTTP, with headers and a body
    docker run …        a command of docker
    {"input": …}        an input itself, with or without its name

An HTTP request becomes the input that the sidecar and the middleware build of it
(`enforcement/http_input`), a command of docker that of the plugin (`docker.commands`). Nothing is
sent, and a file that a command names is not read.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from doorward.console.curl_command import CommandError, read_curl
from doorward.enforcement.errors import RequestError
from doorward.enforcement.http_input import HttpRequest, to_input
from doorward.rego import RegoError, from_json

__all__ = ["MAX_PASTED", "PastedError", "read_pasted"]

MAX_PASTED: Final = 256 << 10
"""The most characters of a pasted text; more is a PastedError."""
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE")


class PastedError(ValueError):
    """A pasted text is not a request; the message says why in one line."""


def read_pasted(text: str, user: str = "") -> Any:
    """Return the input that a text means; `user` is the caller of a command of `docker`.
    PastedError if it cannot be read, is too long, or is a request that is refused before the
    policy.
    """
    text = text.strip()
    if len(text) > MAX_PASTED:
        raise PastedError(f"the pasted request is longer than {MAX_PASTED} characters")
    if text.startswith("{"):
        return _read_json(text)
    if text.split(None, 1)[:1] == ["docker"]:
        return _read_docker(text, user)
    try:
        if text.split(None, 1)[:1] in (["curl"], ["curl.exe"]):
            return to_input(read_curl(text))
        if text.partition(" ")[0].upper() in _METHODS:
            return to_input(_read_http(text))
    except CommandError as error:
        raise PastedError(str(error)) from None
    except RequestError as error:
        raise PastedError(
            f"the pasted HTTP request is refused before any policy is evaluated: {error}"
        ) from None
    raise PastedError("paste a command of curl or docker, an HTTP request, or an input as JSON")


def _read_json(text: str) -> Any:
    """Parse pasted JSON as an input; of an object with `input` alone the inner document.
    PastedError if it is not JSON.
    """
    try:
        document = from_json(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RegoError) as error:
        raise PastedError(f"the pasted text is not JSON: {error}") from None
    if isinstance(document, dict) and list(document) == ["input"]:
        return document["input"]
    return document


def _read_docker(text: str, user: str) -> Any:
    """Return the input that the Docker plugin would give the policy for a pasted docker command of
    `user` (`""`: without a certificate).

    PastedError if the command cannot be read, for example because of an unknown option, or if the
    plugin denies its request before any policy is evaluated.
    """
    # The engine API, which few need.
    from doorward.docker.commands.calls import read_docker
    from doorward.docker.commands.options import CommandError as DockerCommandError
    from doorward.docker.request.errors import RequestError as DockerRequestError

    try:
        return read_docker(text, user)
    except DockerCommandError as error:
        raise PastedError(str(error)) from None
    except DockerRequestError as error:
        raise PastedError(
            f"the Docker plugin denies this request before any policy is evaluated: {error}"
        ) from None


def _read_http(text: str) -> HttpRequest:
    """Parse a pasted HTTP request: request line, headers, an empty line, body. PastedError if its
    URL cannot be read.
    """
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    first, *lines = head.split("\n")
    method, _, rest = first.partition(" ")
    target = rest.split(" ")[0] if rest else "/"
    headers = _read_headers(lines)
    return _request(method.upper(), target, headers, body)


def _read_headers(lines: list[str]) -> dict[str, str]:
    """Return the headers by lower-case name, repeated ones joined by commas; a line without a colon
    is ignored.
    """
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            continue
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def _request(method: str, target: str, headers: dict[str, str], body: str) -> HttpRequest:
    """Return the request for a URL or a path. The host is that of the URL unless `headers` has
    `host`, which is removed from it.
    PastedError if the URL cannot be read.
    """
    with_scheme = target if "://" in target or target.startswith("/") else f"http://{target}"
    try:
        parts = urlsplit(with_scheme)
    except ValueError as error:
        raise PastedError(f"the URL of the pasted request is invalid: {error}") from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = headers.pop("host", "") or parts.netloc.rpartition("@")[2]
    return HttpRequest(
        method,
        path,
        headers,
        host=host,
        scheme=parts.scheme or "http",
        body=body.encode("utf-8", "surrogatepass"),
    )
