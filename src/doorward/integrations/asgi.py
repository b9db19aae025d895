"""Middleware for ASGI: Starlette, FastAPI, Litestar, Quart and every other application.

    app = Authorization(app, from_folder("policies"))

HTTP requests and WebSocket handshakes are decided before the application gets them. Bytes of a body
that were read for the policy are passed to the application again. Headers that clients may not send
are removed for both. Below a root path both see the path with it (`below_root`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, NoReturn, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from doorward.enforcement.check import HttpCheck, HttpOptions
from doorward.enforcement.errors import AmbiguousRequestError, RequestError
from doorward.enforcement.http_input import HttpRequest, join_headers, text_of
from doorward.pdp import PDP, DecisionPoint
from doorward.verdicts import Verdict

__all__ = ["BODY", "VERDICT", "Authorization", "HttpOptions", "below_root", "request_of"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
# Frameworks have types of their own for the same three.
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

VERDICT: Final = "doorward"
"""The key in the scope of the `Verdict` on the request, for the application."""

BODY: Final = "doorward.body"
"""The key in the scope of the body as the policy has seen it, and True if it has more bytes."""
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_SCHEMES: Final = {"ws": "http", "wss": "https"}
# The constructor of a NamedTuple calls this one.
_to_request: Final[Callable[[type[HttpRequest], tuple[object, ...]], HttpRequest]] = tuple.__new__
_RESPONSE: Final = "websocket.http.response"


class _Gone(Exception):
    """The client disconnected before its request was complete."""


class Authorization:
    """Middleware that decides each request, answers denials, and passes allowed requests on with
    the headers that the policy sets or removes. A connection of a type other than HTTP, WebSocket
    and lifespan is a ValueError.

    `doorward_decides` tells `doorward.testing` that every route behind it is decided.
    """

    doorward_decides = True

    def __init__(
        self, app: App, point: DecisionPoint | PDP, options: HttpOptions | None = None
    ) -> None:
        self._app = app
        self._options = options or HttpOptions()
        pdp = point.pdp if isinstance(point, DecisionPoint) else point
        self._check = HttpCheck(pdp, self._options)
        # FastAPI puts its own in place of the server's; what Quart calls so is a folder, and Quart
        # takes no middleware.
        takes_middleware = hasattr(app, "add_middleware")
        self._root: str = getattr(app, "root_path", "") if takes_middleware else ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Decide a request or WebSocket handshake, then deny it or pass it on, with the verdict in
        its scope and the headers that the policy changes; lifespan events pass. Raise ValueError
        for any other type of connection.
        """
        kind = scope["type"]
        if kind == "lifespan":
            await self._app(scope, receive, send)
            return
        if kind not in ("http", "websocket"):
            raise ValueError(
                f"no policy decides on ASGI connections of type {kind}, only on http and websocket"
            )
        chunks: list[Message] = []
        options, check = self._options, self._check
        if root := self._root or scope.get("root_path"):
            scope = below_root(scope, root)
        try:
            if kind == "http" and not options.skip_body and _may_have_body(scope):
                body, is_cut = await _read_body(receive, chunks, options.max_body)
                request, has_stripped = request_of(scope, options, body, is_cut=is_cut)
            else:
                request, has_stripped = request_of(scope, options)
        except _Gone:
            return
        except RequestError as error:
            verdict = check.refuse(error)
        else:
            # `check_async`, written out: a coroutine costs as much as a part of the check.
            if check.history.is_slow:
                verdict = await check.check_async(request)
            else:
                verdict = check.check(request)
        if not verdict.allowed:
            await (_deny if kind == "http" else _deny_websocket)(scope, receive, send, verdict)
            return
        scope = {**scope, VERDICT: verdict}
        if chunks:
            scope[BODY] = body, is_cut
        if has_stripped or verdict.headers or verdict.removed:
            scope["headers"] = self._change_headers(scope["headers"], verdict)
        if verdict.response_headers:
            send = _add_headers(send, _encode_headers(verdict.response_headers))
        await self._app(scope, _replaying(chunks, receive) if chunks else receive, send)

    def _change_headers(self, headers: Iterable[tuple[bytes, bytes]], verdict: Verdict) -> Headers:
        """Return the request headers for the application: without headers that clients may not send
        or that the policy removes, and with those that the policy sets.
        """
        setting = _encode_headers(verdict.headers)
        gone = {name.encode("latin-1") for name in (*self._options.stripped, *verdict.removed)}
        gone.update(name for name, _ in setting)
        return [pair for pair in headers if pair[0].lower() not in gone] + setting


def below_root(scope: Scope, root: str) -> Scope:
    """Return the scope with the root path at the beginning of `path` and `raw_path`, as ASGI
    requires; unchanged if it is there.

    Some servers and FastAPI's `root_path` leave it out. Frameworks remove it where they find it,
    Litestar and Quart even in the middle: without this, one route would have several paths for a
    policy.
    """
    root = root.rstrip("/")
    path: str = scope["path"]
    if path == root or path.startswith(f"{root}/") or not path.startswith("/"):
        return scope
    raw = scope.get("raw_path")
    return {
        **scope,
        "path": root + path,
        "root_path": root,
        "raw_path": None if raw is None else _quote_path(root) + raw,
    }


def request_of(
    scope: Scope, options: HttpOptions, body: bytes = b"", *, is_cut: bool = False
) -> tuple[HttpRequest, bool]:
    """Return the request of a scope, and True if headers in `stripped` were removed.

    With `strict`, raise `AmbiguousRequestError` for a request that servers may read differently,
    such as one whose path is not the one that was sent. `is_cut`: `body` is only the first part of
    the body.
    """
    path = scope.get("raw_path")
    if path is None:
        if options.strict:
            _refuse("the server does not pass on the path as it was sent (`raw_path`)")
        path = _quote_path(scope["path"])
    elif (
        options.strict
        and (unquote_to_bytes(path) if b"%" in path else path) != scope["path"].encode()
    ):
        _refuse("the path differs from `raw_path`, the path that was sent")
    query: bytes = scope.get("query_string", b"")
    target: bytes = path + b"?" + query if query else path
    headers, host, has_stripped = join_headers(
        scope["headers"], options.stripped, strict=options.strict
    )
    scheme: str = scope.get("scheme", "http")
    client, server = scope.get("client"), scope.get("server")
    fields = (
        scope.get("method", "GET"),
        target.decode() if target.isascii() else text_of(target),
        headers,
        host,
        _SCHEMES.get(scheme, scheme),
        f"HTTP/{scope.get('http_version', '1.1')}",
        body,
        is_cut,
        (client[0], client[1]) if client else None,
        (server[0], server[1]) if server and server[1] is not None else None,
    )
    return _to_request(HttpRequest, fields), has_stripped


def _refuse(reason: str) -> NoReturn:
    raise AmbiguousRequestError(reason)


def _quote_path(path: str) -> bytes:
    return quote(path, safe="/:@!$&'()*+,;=-._~").encode()


def _may_have_body(scope: Scope) -> bool:
    """Return True if the request can have a body: with HTTP/1 its headers tell, other versions
    always can.
    """
    if not scope.get("http_version", "").startswith("1"):
        return True
    for name, value in scope["headers"]:  # noqa: SIM110  # a generator costs more than the loop
        if name in _FRAMING and value != b"0":
            return True
    return False


async def _read_body(receive: Receive, chunks: list[Message], limit: int) -> tuple[bytes, bool]:
    """Return the first `limit` bytes of the body, and True if it is longer.

    Adds the received messages to `chunks`. Raise `_Gone` if the client disconnects.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _Gone
        part = message.get("body", b"")
        has_more = message.get("more_body", False)
        if part or not has_more:  # frames of HTTP/2 without bytes come in any number
            chunks.append(message)
            parts.append(part)
        size += len(part)
        # The rest stays with the server: the application receives it after the chunks.
        if size > limit or not has_more:
            body = b"".join(parts)
            return body[:limit], size > limit


def _replaying(chunks: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that first repeats the received messages."""
    waiting = iter(chunks)

    async def replay() -> Message:
        """Return the next message that was received before; when none is left, receive one."""
        for message in waiting:
            return message
        return await receive()

    return replay


def _encode_headers(pairs: Iterable[tuple[str, str]]) -> Headers:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


def _add_headers(send: Send, headers: Headers) -> Send:
    """Return a `send` that adds headers to the start of the response, or to the acceptance of a
    WebSocket.
    """

    async def send_with_headers(message: Message) -> None:
        """Send a message; the start of a response, or the acceptance of a WebSocket, gets the
        additional headers.
        """
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return send_with_headers


def denial(verdict: Verdict) -> tuple[int, Headers, bytes]:
    """Return status, headers and body of the response to a denied request; a body without
    `content-type` is plain text.
    """
    body = verdict.body.encode("utf-8", "replace")
    headers = [pair for pair in _encode_headers(verdict.headers) if pair[0] != b"content-length"]
    if body and not any(name == b"content-type" for name, _ in headers):
        headers.append((b"content-type", b"text/plain; charset=utf-8"))
    headers.append((b"content-length", b"%d" % len(body)))
    return verdict.status, headers, body


async def _deny(scope: Scope, _receive: Receive, send: Send, verdict: Verdict) -> None:
    """Send the response of a denial; for HEAD without its body."""
    status, headers, body = denial(verdict)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    is_head = scope["method"] == "HEAD"
    await send({"type": "http.response.body", "body": b"" if is_head else body})


async def _deny_websocket(scope: Scope, receive: Receive, send: Send, verdict: Verdict) -> None:
    """Deny a WebSocket handshake with the verdict's response; if the server does not support one,
    close the WebSocket, which clients get as 403.
    """
    # ASGI: the handshake must be received before it can be denied.
    if (await receive())["type"] != "websocket.connect":
        return
    if _RESPONSE not in (scope.get("extensions") or {}):
        # RFC 6455, section 7.4.1: 1008 says that a policy is violated.
        await send({"type": "websocket.close", "code": 1008, "reason": _phrase(verdict.status)})
        return
    status, headers, body = denial(verdict)
    await send({"type": f"{_RESPONSE}.start", "status": status, "headers": headers})
    await send({"type": f"{_RESPONSE}.body", "body": body})


def _phrase(status: int) -> str:
    """Return the reason phrase of a status; `Denied` for one that HTTP does not define."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Denied"
