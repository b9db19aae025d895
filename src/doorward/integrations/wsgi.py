"""Middleware for WSGI: Flask, Django, Pyramid and every other application.

    app = Authorization(app, from_folder("policies"))

WSGI has less information about a request than a proxy has: docs/frameworks.md has the table. Strict
mode refuses requests for which it would have to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from io import BytesIO, RawIOBase
from typing import Any, Final, NoReturn, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from doorward.base.digits import parse_digits
from doorward.enforcement.check import HttpCheck, HttpOptions
from doorward.enforcement.errors import AmbiguousRequestError, RequestError
from doorward.enforcement.http_input import HttpRequest, join_headers
from doorward.pdp import PDP, DecisionPoint
from doorward.verdicts import Verdict

__all__ = ["VERDICT", "Authorization", "apply", "denial", "read_request"]

Environ: TypeAlias = dict[str, Any]
Start: TypeAlias = Callable[..., Any]
App: TypeAlias = Callable[[Environ, Start], Iterable[bytes]]

VERDICT: Final = "doorward.verdict"
"""The key in the environ of the `Verdict` on the request, for the application."""
_FALSE_HEADERS: Final = ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH")
"""Keys that no application reads; servers create them from header names with underscores."""
TARGETS: Final = ("RAW_URI", "REQUEST_URI")
"""Keys under which servers pass the request target as it was sent; no standard defines one."""


class Authorization:
    """Middleware that decides each request, answers denials, and passes allowed requests on.

    With `derive_target`, if the server does not pass on the request target, the policy gets the
    application's path, encoded again; without it, strict mode refuses such requests.
    """

    doorward_decides = True

    def __init__(
        self,
        app: App,
        point: DecisionPoint | PDP,
        options: HttpOptions | None = None,
        *,
        derive_target: bool = False,
    ) -> None:
        self._app = app
        self._options = options or HttpOptions()
        self._derive_target = derive_target
        pdp = point.pdp if isinstance(point, DecisionPoint) else point
        self._check = HttpCheck(pdp, self._options)

    def __call__(self, environ: Environ, start_response: Start) -> Iterable[bytes]:
        """Decide a request, and return the denial or the application's response with the headers
        that the policy adds.
        """
        verdict = self.decide(environ)
        if not verdict.allowed:
            status, headers, body = denial(verdict)
            start_response(status, headers)
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
        start = start_response
        if verdict.response_headers:
            start = _adding(start_response, list(verdict.response_headers))
        return self._app(environ, start)

    def decide(self, environ: Environ) -> Verdict:
        """Return the verdict on a request, and store it in the environ. Headers that clients may
        not send are removed, and the policy's set.

        A request that cannot be read, or that strict mode refuses, is denied with 400.
        """
        try:
            request = read_request(environ, self._options, derive_target=self._derive_target)
        except RequestError as error:
            verdict = self._check.refuse(error)
        else:
            verdict = self._check.check(request)
        apply(verdict, environ)
        return verdict


def apply(verdict: Verdict, environ: Environ) -> None:
    """Store a verdict in the environ, and set or remove the request headers that it names; a header
    that it names twice gets both values, joined by a comma.
    """
    environ[VERDICT] = verdict
    # A header that the policy sets replaces the client's, so that clients cannot add to it.
    for name in (*verdict.removed, *[name for name, _ in verdict.headers]):
        environ.pop(_variable(name), None)
    for name, value in verdict.headers:
        variable = _variable(name)
        environ[variable] = f"{environ[variable]},{value}" if variable in environ else value


def read_request(
    environ: Environ, options: HttpOptions, *, derive_target: bool = False
) -> HttpRequest:
    """Return the request of an environ. Headers in `stripped`, and those that look like others, are
    removed from `environ` as well. The application can read the body again.

    Raise AmbiguousRequestError for a Content-Length that is not a number, for a root path that a
    header of the client has set and, with `strict`, for a request that the application may read
    differently. `derive_target`: the target may be built from the path.
    """
    root = environ.get("SCRIPT_NAME", "")
    target = _read_target(environ, options, derive_target=derive_target)
    headers: dict[str, str] = {}
    stripped = options.stripped
    if "script-name" in stripped and environ.get("HTTP_SCRIPT_NAME", "") == root != "":
        # Too late to strip it: gunicorn has believed it.
        _refuse("a header of the client sets the root path of the application (SCRIPT_NAME)")
    for key in [key for key in environ if key[:5] == "HTTP_"]:
        name = key[5:].replace("_", "-").lower()
        if name in stripped or key in _FALSE_HEADERS:
            del environ[key]
        else:
            value = environ[key]
            headers[name] = value if value.isascii() else _text(value)
    for key, name in (("CONTENT_TYPE", "content-type"), ("CONTENT_LENGTH", "content-length")):
        if value := environ.get(key):
            headers[name] = value
    host = headers.pop("host", "")
    # WSGI servers join the values of a repeated header by commas.
    if options.strict and "," in host:
        _refuse("more than one host header")
    body, is_cut = (b"", False) if options.skip_body else _read_body(environ, headers, options)
    return HttpRequest(
        environ["REQUEST_METHOD"],
        target,
        headers,
        host,
        environ["wsgi.url_scheme"],
        environ.get("SERVER_PROTOCOL", "HTTP/1.1"),
        body,
        is_cut,
        _source(environ),
    )


def _refuse(reason: str) -> NoReturn:
    raise AmbiguousRequestError(reason)


def _text(value: str) -> str:
    """Return a header value, whose bytes WSGI passes as Latin-1, as the text that other servers
    pass.
    """
    joined, _, _ = join_headers([(b"v", value.encode("latin-1"))], frozenset(), strict=False)
    return joined["v"]


def _read_target(environ: Environ, options: HttpOptions, *, derive_target: bool) -> str:
    """Return the request target as it was sent, if the server passes it on; else build it from the
    path.

    With `strict`, raise AmbiguousRequestError if the target disagrees with the path, or is missing
    without `derive_target`.
    """
    root, path = environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", "")
    if root and path and path[0] != "/" and options.strict:
        _refuse("the root path of the application ends within a segment of the path")
    decoded = root + path
    for key in TARGETS:
        target: str | None = environ.get(key)
        if target:
            sent = target.partition("?")[0].encode("latin-1")
            sent = unquote_to_bytes(sent) if b"%" in sent else sent
            if sent == decoded.encode("latin-1"):
                return target
            if root and sent == path.encode("latin-1"):
                # A root path of the settings (Django's FORCE_SCRIPT_NAME), which was not sent.
                return _quote_path(root) + target
            if options.strict:
                # Such as `//a`: waitress makes `/a` of it in the path, and leaves the target.
                _refuse(f"the path differs from {key}, the path that was sent")
            return target
    if options.strict and not derive_target:
        _refuse("the server does not pass on the path as it was sent (RAW_URI, REQUEST_URI)")
    path = _quote_path(decoded)
    query = environ.get("QUERY_STRING", "")
    return f"{path}?{query}" if query else path


def _quote_path(path: str) -> str:
    return quote(path.encode("latin-1"), safe="/:@!$&'()*+,;=-._~")


def _source(environ: Environ) -> tuple[str, int] | None:
    """Return address and port of the client (0 if the port is not known); None without an
    address.
    """
    address, port = environ.get("REMOTE_ADDR"), str(environ.get("REMOTE_PORT", ""))
    return (address, parse_digits(port) or 0) if address else None


def _read_body(
    environ: Environ, headers: dict[str, str], options: HttpOptions
) -> tuple[bytes, bool]:
    """Read the body up to `max_body` bytes; return them, and True if it was cut. `wsgi.input` is
    replaced, so that the application can read all of it. Without a length, and unless the server
    marks its end, the body is not read: b"".

    Raise AmbiguousRequestError for a Content-Length that is not a number; with `strict`, also for a
    Transfer-Encoding without a length, if the server does not mark the end.
    """
    stream = environ["wsgi.input"]
    length = headers.get("content-length")
    if length is not None:
        content_length = parse_digits(length)
        if content_length is None:
            _refuse("content-length is not a number")
    elif environ.get("wsgi.input_terminated"):
        content_length = options.max_body + 1
    else:
        # Without a length, reading could wait for ever.
        if options.strict and "transfer-encoding" in headers:
            _refuse("body of undeclared length")
        return b"", False
    # One byte more than the limit tells that the body is cut.
    size = min(content_length, options.max_body + 1)
    if not size:
        return b"", False
    body = b""
    while len(body) < size and (part := stream.read(size - len(body))):
        body += part
    if len(body) > options.max_body:
        environ["wsgi.input"] = _Rest(body, stream, content_length if length is not None else None)
        return body[: options.max_body], True
    environ["wsgi.input"] = BytesIO(body)
    return body, False


class _Rest(RawIOBase):
    """A stream for the application: the bytes of the body that were read for the policy (`begin`),
    then the rest of the body. It ends after `length` bytes, if the length is known.
    """

    def __init__(self, begin: bytes, stream: Any, length: int | None) -> None:
        self._begin = begin
        self._stream = stream
        self._left = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read first the bytes that the policy has seen, then the rest of the body; return 0 at the
        end.
        """
        size = len(buffer) if self._left is None else min(len(buffer), self._left)
        part, self._begin = self._begin[:size], self._begin[size:]
        if not part and size:
            part = self._stream.read(size)
        buffer[: len(part)] = part
        if self._left is not None:
            self._left -= len(part)
        return len(part)


def _variable(name: str) -> str:
    """Return the key of a header in the environ: `HTTP_` and the name in capitals with underscores,
    except `CONTENT_TYPE` and `CONTENT_LENGTH`.
    """
    variable = name.upper().replace("-", "_")
    return variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"


def _adding(start_response: Start, headers: list[tuple[str, str]]) -> Start:
    """Return a `start_response` that adds headers to each response."""

    def start(status: str, sent: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*sent, *headers], *rest)

    return start


def denial(verdict: Verdict) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return status line, headers and body of the response to a denied request; a body without
    `content-type` is plain text.
    """
    body = verdict.body.encode("utf-8", "replace")
    headers = [pair for pair in verdict.headers if pair[0].lower() != "content-length"]
    if body and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("content-type", "text/plain; charset=utf-8"))
    headers.append(("content-length", str(len(body))))
    try:
        phrase = HTTPStatus(verdict.status).phrase
    except ValueError:
        phrase = "Denied"
    return f"{verdict.status} {phrase}", headers, body
