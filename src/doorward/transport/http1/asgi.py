"""A request as a call of an ASGI application: its scope, its body in pieces, its response."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import unquote

from httptools import HttpParserInvalidURLError, parse_url

from doorward.base.cancellation import Cancellation
from doorward.edge import FAULTS, Edge
from doorward.transport.http1.messages import Request, Response, response_head

__all__ = ["CANCELLATION", "AsgiApp", "AsgiCall", "Carrier"]

_EDGE: Final = Edge("asgi", "an application failed")

Message: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]

CANCELLATION: Final = "doorward.base.cancellation"
"""The key under which an ASGI scope has the `Cancellation` of its request."""
_FULL: Final = 64 * 1024
"""Above this number of waiting body bytes no more is read until the application takes them."""
# RFC 9110, 15.3.5 and 15.4.5: a body would be read as the next response.
_NO_BODY: Final = frozenset({204, 304})
_TEXT: Final = b"content-type: text/plain; charset=utf-8\r\n"
_FAILED: Final = Response(500, _TEXT, b"500 Internal Server Error\n")
_BAD_TARGET: Final = Response(400, _TEXT, b"400 Bad Request: invalid request target\n")
_NO_APPLICATION: Final = Response(404, _TEXT, b"404 page not found\n")


class Carrier(Protocol):
    """The part of a connection that a call needs (`connection.HttpConnection`)."""

    loop: asyncio.AbstractEventLoop

    @property
    def ends(self) -> bool:
        """True if the connection ends after the response that is due now."""

    @property
    def date(self) -> bytes:
        """The `date` header of a response, as a line."""

    @property
    def can_write(self) -> bool:
        """True if the write buffer has room; also if the connection is gone, so that nobody waits
        for it.
        """

    @property
    def tls(self) -> Any:
        """The TLS object (`ssl.SSLObject`) of the connection; None without TLS."""

    @property
    def addresses(self) -> tuple[Any, Any]:
        """The socket addresses of client and server; (None, None) if the connection is gone."""

    def respond(self, request: Request, response: Response) -> None:
        """Write the response to `request` and begin the next one. Does nothing if the connection is
        gone or the request was answered.
        """

    def write(self, data: bytes) -> None:
        """Write bytes of a response, or queue them; dropped if the connection is gone."""

    def finish_call(self, call: AsgiCall, *, ends: bool) -> None:
        """Begin the next request after a call has written its response. Ends the connection instead
        with `ends`, or if the request is not complete yet.
        """

    def read_on(self) -> None:
        """Resume reading after the call has taken the bytes it was fed; restarts the body's time
        limit.
        """

    def abort(self) -> None:
        """End the connection at once; what is not sent yet is lost."""


class AsgiCall:
    """A request that an ASGI application answers: `start` runs it, `feed` and `end` bring the
    body.
    """

    def __init__(self, connection: Carrier, request: Request) -> None:
        self._connection = connection
        self._request = request
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._is_whole = False
        self._was_told = False
        """True once the application got the last part of the body."""
        self._is_gone = False
        self._cancellation = Cancellation()
        self._arrived = asyncio.Event()
        self._may_write = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._is_complete = False
        self._is_chunked = False
        self._ends = False
        self._head = b""
        self._left: int | None = None
        """The bytes of the response's announced length that are not written yet; None if it has no
        length."""

    @property
    def is_full(self) -> bool:
        """True if so much of the body waits for the application that no more should be read."""
        return self._size > _FULL

    @property
    def has_begun(self) -> bool:
        """True once the application has sent the start of its response."""
        return self._has_begun

    def feed(self, part: bytes) -> None:
        """Add a part of the request's body, and wake an application that waits for it."""
        self._parts.append(part)
        self._size += len(part)
        self._arrived.set()

    def end(self) -> None:
        """Note that the body is complete."""
        self._is_whole = True
        self._arrived.set()

    def disconnect(self) -> None:
        """Note that the client is gone: cancel the request's work and wake the application."""
        self._is_gone = True
        self._cancellation.cancel()
        self._arrived.set()
        # A sender waits for the client to read, which never happens now.
        self._may_write.set()

    def wake_writer(self) -> None:
        self._may_write.set()

    def start(self, app: AsgiApp | None) -> None:
        """Start the application in a task and return at once. Without an application the request is
        answered with 404, with a malformed target with 400, and no task is started.
        """
        if app is None:
            self._connection.respond(self._request, _NO_APPLICATION)
            return
        try:
            scope = _scope(self._request, self._connection.addresses)
            scope[CANCELLATION] = self._cancellation
            if (tls := self._connection.tls) is not None:
                scope |= {"scheme": "https", "extensions": {"tls": _tls_extension(tls)}}
        except (HttpParserInvalidURLError, ValueError):
            self._connection.respond(self._request, _BAD_TARGET)
            return
        self._task = self._connection.loop.create_task(self._run(app, scope))

    async def _run(self, app: AsgiApp, scope: dict[str, Any]) -> None:
        """Run the application; an exception of it is reported.

        If it ends without a response, 500 is sent; after half of one the connection is aborted.
        Neither is done if the client is gone.
        """
        try:
            await app(scope, self._receive, self._send)
        except FAULTS as fault:
            _EDGE.report(fault)
        # A fault after the whole response is the application's own; the client has its answer.
        if self._is_complete or self._is_gone:
            return
        if self._has_begun:
            # Half of a response was written: to close is the only way to say that it is not whole.
            self._connection.abort()
        else:
            self._connection.respond(self._request, _FAILED)

    async def _receive(self) -> Message:
        """Return the next ASGI event, waiting for body bytes, the end of the body or the
        disconnect.

        Sends `100 Continue` first if the client waits for it (RFC 9110, 10.1.1). Once the response
        is complete or the client is gone, the event is a disconnect.
        """
        if self._request.expects_continue and not self._is_whole and not self._has_begun:
            # 100 is sent once, even where the application reads the body in several steps.
            self._request.expects_continue = False
            # Only when the application reads: a request that is refused by its head sends no body.
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._parts and not self._ended and (self._was_told or not self._is_whole):
            self._arrived.clear()
            await self._arrived.wait()
        if self._ended:
            return {"type": "http.disconnect"}
        body = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        # Before reading on: the next `_receive` must wait for a disconnect, not repeat
        # an empty end.
        self._was_told = self._is_whole
        self._connection.read_on()
        return {"type": "http.request", "body": body, "more_body": not self._is_whole}

    @property
    def _ended(self) -> bool:
        return self._is_gone or self._is_complete

    async def _send(self, message: Message) -> None:
        """Write an ASGI event of the response, and wait while the client reads too slowly.

        Ignored once the client is gone. Raise RuntimeError for an event out of order, a part of the
        body that exceeds the announced length, or a body that ends before it. A part behind a
        complete body is dropped.
        """
        # ASGI: a server ignores what an application sends after the disconnect.
        if self._is_gone:
            return
        if message["type"] == "http.response.start":
            if self._has_begun:
                raise RuntimeError("http.response.start was sent twice")
            self._begin(message)
            return
        if not self._has_begun or self._is_complete:
            raise RuntimeError(
                f"{message['type']} was sent before http.response.start, or after the last part "
                "of the body"
            )
        self._write_body(message.get("body", b""), more=message.get("more_body", False))
        while not self._connection.can_write and not self._is_gone:
            self._may_write.clear()
            await self._may_write.wait()

    def _begin(self, message: Message) -> None:
        """Build the head of the response from the event `http.response.start`. It is only stored
        here, and written with the first part of the body.

        Without `content-length` the body is chunked, or in HTTP/1.0 ends with the connection. Of
        the application's `connection` headers only `close` has an effect: the connection ends.
        """
        self._has_begun = True
        status = message["status"]
        # Asked now, not at the end of the body: what the head says must hold.
        self._ends = self._connection.ends
        lines = [response_head(status), self._connection.date]
        has_body = self._request.method != b"HEAD" and status not in _NO_BODY
        for name, value in message.get("headers", ()):
            lowered = name.lower()
            if lowered == b"content-length":
                self._left = int(value)
            elif lowered == b"connection":
                # The header itself is written below, once, whatever the application says.
                self._ends = self._ends or value.lower() == b"close"
                continue
            lines.append(b"%s: %s\r\n" % (lowered, value))
        # The announced length of a HEAD response stays in the head, but no byte may follow.
        if not has_body:
            self._left = 0
        elif self._left is None and self._request.version == "1.0":
            # HTTP/1.0 has no chunks: the end of the connection is the end of the body.
            self._ends = True
        elif self._left is None:
            self._is_chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if self._ends:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)

    def _write_body(self, body: bytes, *, more: bool) -> None:
        """Write a part of the body, the first one with the head, and finish the call with the last
        one (`more` is False).

        Raise RuntimeError if this part exceeds the announced length, or is the last and leaves the
        body shorter. Once the length is complete, further parts are dropped, and so is any body of
        a response that must not have one, such as one to HEAD.
        """
        out, self._head = self._head, b""
        if self._is_chunked:
            # A chunk of no bytes is the end of the body (RFC 9112, section 7.1).
            if body:
                out += b"%x\r\n%s\r\n" % (len(body), body)
            if not more:
                out += b"0\r\n\r\n"
        elif self._left is None:
            out += body
        elif self._left:
            # Bytes too many would be read as the next response on this connection.
            if len(body) > self._left:
                raise RuntimeError("the application sent a longer body than its content-length")
            self._left -= len(body)
            out += body
        if out:
            self._connection.write(out)
        if not more:
            if self._left:
                raise RuntimeError("the application sent a shorter body than its content-length")
            self._is_complete = True
            # An application that waits in `_receive` gets its disconnect.
            self._arrived.set()
            self._connection.finish_call(self, ends=self._ends)


def _tls_extension(tls: Any) -> dict[str, Any]:
    """Return ASGI's TLS extension: the client's certificate in PEM, or an empty chain without
    one.
    """
    certificate = tls.getpeercert(True)
    chain = [] if certificate is None else [ssl.DER_cert_to_PEM_cert(certificate)]
    return {"client_cert_chain": chain}


def _scope(request: Request, addresses: tuple[Any, Any]) -> dict[str, Any]:
    """Return the ASGI scope of a request, always with the scheme `http`; `addresses` are those of
    client and server. Raise ValueError, or HttpParserInvalidURLError of the parser, if the target
    is malformed.
    """
    target = request.target
    if target.startswith(b"/"):
        # As in Go, `#` is a character like any other: what is sent to servers has no fragment.
        raw, _, query = target.partition(b"?")
    else:
        url = parse_url(target)
        raw, query = url.path or b"/", url.query or b""
        if not raw.startswith(b"/") or url.fragment is not None:
            raise ValueError("not a path")
    path = raw.decode("ascii")
    client, server = addresses
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.version,
        "method": request.method.decode("ascii"),
        "scheme": "http",
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw,
        "query_string": query,
        "root_path": "",
        "headers": request.headers,
        "server": server[:2] if isinstance(server, tuple) else (server, None),
        "client": client[:2] if isinstance(client, tuple) else None,
    }
