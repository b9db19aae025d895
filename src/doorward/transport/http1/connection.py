"""One HTTP/1.1 connection: bytes become requests, each is answered in turn, within bounds.

A complete request with a short body goes to `Application.answer`, which answers it at once, later,
or not at all: then it becomes a call of the ASGI application, as every request with a longer body
does from its head on. Framing is strict (RFC 9112): what two servers could read differently is
refused, and the connection ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from doorward.base.records import record
from doorward.edge import FAULTS, Edge
from doorward.transport.direct import DirectTransport
from doorward.transport.http1.asgi import AsgiApp, AsgiCall
from doorward.transport.http1.bodies import BodyBudget, Share
from doorward.transport.http1.limits import Limits
from doorward.transport.http1.messages import Request, Response, response_head
from doorward.transport.http1.states import LIFE, READING
from doorward.transport.loop import Connections

__all__ = ["LATER", "Answer", "Application", "HttpConnection", "Respond", "no_answer"]

_EDGE: Final = Edge("http1", "an HTTP/1.1 connection failed")

LATER: Final = Response(0, b"", b"")
"""The result of an `Application.answer` that will call `respond` later."""
LINGER: Final = 2.0
"""Seconds in which a client may read the last response before the connection is aborted. They count
from the first sweep that finds the connection ending."""
# Sweeps come ten times as often while the server drains, so that its end is not held up.
_DRAINED: Final = 3
"""The sweep without a request in which a draining connection is closed."""
_DRAINED_NEW: Final = 40
"""The same for a new connection. Its client may have sent its first request, and not repeat it: on
a busy machine that takes more than the 150 ms of the others.
"""
_CLOSE: Final = b"connection: close\r\n"
_TEXT: Final = b"content-type: text/plain; charset=utf-8\r\n"

Respond: TypeAlias = Callable[[Request, Response], None]
"""Answers a request, on the loop; does nothing if its connection is gone."""
Answer: TypeAlias = Callable[[Request, Respond], Response | None]


def no_answer(_request: Request, _respond: Respond) -> None:
    """Return None: the `answer` that leaves every request to the ASGI application."""


@record
class Application:
    """The application that HTTP/1.1 connections serve.

    `answer` sees complete requests first: it returns a response, `LATER` if it will call `respond`,
    or None to leave the request to `asgi`.
    """

    answer: Answer = no_answer
    asgi: AsgiApp | None = None
    on_refused: Callable[[str], object] = lambda _reason: None
    """Called with the reason why a connection was refused."""
    keeps_alive: bool = True
    """False if every connection ends after one request."""


class _RefusedError(Exception):
    """A request that is answered with `status` and ends the connection."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpConnection(asyncio.Protocol):
    """An HTTP/1.1 connection: parses requests, answers them in order and enforces the limits."""

    def __init__(
        self,
        connections: Connections,
        application: Application,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        bodies: BodyBudget | None = None,
    ) -> None:
        """Prepare a connection among `connections` that `application` answers. `bodies`: the budget
        of the bodies of all connections, None for no limit.
        """
        self.loop = loop
        self._connections = connections
        self._bodies = bodies
        self._application = application
        self._limits = limits
        self._parser: Any = HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._client: Any = None
        # The message that is read
        self._message = "head"
        """The state of `states.READING`."""
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._request: Request | None = None
        self._body: list[bytes] = []
        self._share: Share | None = None
        self._stream: AsgiCall | None = None
        self._messages = 0
        self._head_size = 0
        self._body_size = 0
        self._framing_size = 0
        self._upgrades = False
        # The request that is answered, and those that wait for it
        self._current: Request | None = None
        self._call: AsgiCall | None = None
        self._queue: deque[Request] = deque()
        # The connection
        self._since = connections.now
        self._write_since: float | None = None
        self._reading = True
        self._life = "open"
        """The state of `states.LIFE`."""
        self._unread = 0
        self._draining = False
        self._sweeps_left = 0
        """The sweeps without a request after which the draining connection is closed."""
        self._ending_since: float | None = None

    # As the loop calls it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Limit the write buffer and add this connection to those of the server, which refuses one
        that is too many.
        """
        self._transport = transport  # type: ignore[assignment]  # uvloop's has no common base
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer)
        self._client = transport.get_extra_info("peername")
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; a fault of ours aborts the connection.

        Once the connection is ending, bytes are counted and discarded, and too many abort it.
        """
        if self._life != "open":
            self._unread += len(data)
            if self._unread > self._limits.unread:
                self.abort()
            return
        try:
            self._feed(data)
        except FAULTS as fault:
            _EDGE.report(fault)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, which the loop reports as closed: free its slot, cancel the
        request that is being answered, drop the queued ones and the bodies, and tell the ASGI calls
        of the disconnect. Nothing is written.
        """
        # First: whatever fails below, the slot of the connection is free again.
        self._connections.remove(self)
        self._transport = None
        self._life = LIFE[self._life]["lose"]
        if self._current is not None and self._current.cancellation is not None:
            self._current.cancellation.cancel()
        self._current = self._request = None
        self._queue.clear()
        # The parser knows this object: without it both are freed at once, with what was read.
        self._parser = None
        self._drop_body()
        for call in (self._call, self._stream):
            if call is not None:
                call.disconnect()

    def pause_writing(self) -> None:
        self._write_since = self._connections.now
        self._update_reading()

    def resume_writing(self) -> None:
        """Read requests again, and wake a response that waited for the client to read."""
        self._write_since = None
        self._update_reading()
        if self._call is not None:
            self._call.wake_writer()

    @property
    def can_write(self) -> bool:
        """True if the write buffer has room; also if the connection is gone, so that nobody waits
        for it.
        """
        return self._write_since is None or self._transport is None

    # As the server calls it

    @property
    def idle_since(self) -> float | None:
        """The time since which the client is silent, in monotonic seconds; None while we work on a
        request whose body has arrived.
        """
        # Who sends a body slowly counts as silent, so that it can be replaced by a new connection.
        return None if self._current is not None and self._message != "body" else self._since

    def expire(self) -> None:
        """End the connection if a time limit has passed; called in each sweep.

        An idle connection and one with a late head are closed; a body that is late is answered with
        408. A client that does not read its response, or is still there `LINGER` seconds after the
        last one, is aborted. While draining, an idle connection is closed after some sweeps.
        """
        if self._transport is None:
            return
        limits, now = self._limits, self._connections.now
        waited = now - self._since
        # The order is that of importance: an ending connection has no other time limit, and one
        # whose client does not read is not silent, it is blocked.
        if self._transport.is_closing() or self._life == "ending":
            if self._ending_since is None:
                self._ending_since = now
            elif now - self._ending_since >= LINGER:
                self._transport.abort()
        elif self._write_since is not None:
            if now - self._write_since > limits.write_timeout:
                self._transport.abort()
        elif self._draining and self._is_between_requests:
            self._sweeps_left -= 1
            if self._sweeps_left <= 0:
                self._close_idle()
        elif self._message == "head" and waited > limits.head_timeout:
            self._close_idle()
        # While we do not read, the client cannot send, and its time does not count.
        elif self._message == "body" and self._reading and waited > limits.body_timeout:
            message = f"the body did not arrive within {limits.body_timeout:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, message)
        elif self._is_between_requests and waited > limits.keep_alive:
            self._close_idle()

    @property
    def _is_between_requests(self) -> bool:
        """True if no request is being read or answered; a new connection counts as well."""
        is_reading = self._message == "body" or (self._message == "head" and self._messages > 0)
        return self._current is None and not is_reading

    def shutdown(self) -> None:
        """Begin to drain: the connection ends with its next response, or soon if it is idle.

        A new connection stays open for its first request, which no client repeats, for two seconds.
        With a successor process an idle connection is retired, so that no request is lost.
        """
        self._draining = True
        self._sweeps_left = _DRAINED if self._messages else _DRAINED_NEW
        if self._messages == 0:
            return  # nobody repeats the first request of a connection
        if self._connections.has_successor:
            self._retire()
        elif isinstance(self._transport, DirectTransport) and self._is_between_requests:
            self._transport.close()

    def close(self) -> None:
        self.abort()

    def _close_idle(self) -> None:
        """Retire an idle connection if that is possible, else close it."""
        if self._transport is not None and not self._retire():
            self._transport.close()

    def _retire(self) -> bool:
        """End reading so that the client sends its next request elsewhere; close some sweeps later.

        Return False, and do nothing, if the transport cannot do that or a request is open. A
        request that is written while a connection closes would be lost.
        """
        transport = self._transport
        if not isinstance(transport, DirectTransport) or transport.is_retired:
            return False
        if not self._is_between_requests:
            return False
        self._draining = True
        self._sweeps_left = _DRAINED
        # Last: what has arrived already is read in here, and may become the current request.
        transport.retire()
        return True

    def refuse(self) -> None:
        self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections: try again later")

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Bytes

    def _feed(self, data: bytes) -> None:
        """Pass received bytes to the parser, whose callbacks handle the requests in them.

        Malformed bytes, a head over the limits and too much framing around small chunks are
        answered with an error that ends the connection. Raises only what a callback raises by a
        defect.
        """
        # The parser's callbacks change all of this in `feed_data`, so it is noted before.
        message = self._messages if self._message == "body" else 0
        head, body_size = self._head_size if self._message == "head" else 0, self._body_size
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            # llhttp stops behind the head of an upgrade, and says how far it came.
            self._ignore_upgrade(data[upgrade.args[0] :])
        except HttpParserError as error:
            self._refuse_for(error)
            return
        # The callbacks may have refused or answered the last request: sizes no longer matter.
        if self._life != "open":
            return
        if self._message == "head":
            # A head of which a part came before was not begun in these bytes.
            self._head_size = head + len(data)
            self._check_head(self._head_size)
        # Only bytes that all belong to one body can be told into body and framing.
        elif message == self._messages and self._message == "body":
            self._framing_size += len(data) - (self._body_size - body_size)
            if self._framing_size > self._limits.head_bytes + self._limits.framing * (
                self._body_size
            ):
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    "chunks are too small: send larger ones, or a content-length",
                )

    def _check_head(self, size: int) -> None:
        """Refuse the request (431) if its head has too many bytes or headers."""
        if size > self._limits.head_bytes or len(self._headers) > self._limits.headers:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _describe_head_limits(self._limits)
            )

    def _refuse_for(self, error: HttpParserError) -> None:
        """Answer the request with an error because the parser raised `error`: with the status of
        our own check if that failed in one of the parser's callbacks, else with 400. If a callback
        failed by a defect, raise that exception.

        Does nothing once the connection is ending.
        """
        if self._life != "open":
            return  # what follows a request that ends the connection is nobody's
        # httptools wraps what a callback raised; the cause tells our refusals from llhttp's errors.
        cause = error.__context__
        if isinstance(cause, _RefusedError):
            self._refuse(cause.status, str(cause))
        elif cause is not None and not isinstance(cause, HttpParserError):
            raise cause
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error).lower())

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the body of a request whose upgrade is ignored, with a new parser.

        The first parser took the body for another protocol. `rest` is what followed the head; the
        connection ends with this request.
        """
        request = self._request
        if request is None:
            return
        length = dict(request.headers).get(b"content-length")
        # RFC 9110, 7.8: an upgrade may be ignored, and then the request is one like any other.
        framing = b"content-length: %s" % (length or b"0")
        # llhttp has refused a request with both (RFC 9112, 6.3), so the order means nothing.
        if b"transfer-encoding" in dict(request.headers):
            framing = b"transfer-encoding: chunked"
        self._upgrades = False
        self._parser = HttpRequestParser(_Body(self))
        try:
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n\r\n" % framing)
            if self._life == "open":
                self._parser.feed_data(rest)
        except HttpParserError as error:
            self._refuse_for(error)

    # As the parser calls it

    def on_message_begin(self) -> None:
        """Clear the head of the previous request and start the time limit of the new one; called by
        the parser before its first byte.
        """
        self._messages += 1
        self._message = READING[self._message]["begins"]
        self._head_size = 0
        self._target = b""
        self._headers = []
        self._since = self._connections.now

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._message == "head":  # what follows a body in chunks is not used
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head and create the request, whose body follows; called by the parser. No
        request is created once the connection is ending.

        Raise _RefusedError with the status to answer if the head breaks a limit or rule. A request
        that expects `100-continue` goes to the application at once, unless another is being
        answered.
        """
        parser, headers = self._parser, self._headers
        # Counted again: `_feed` sees heads that arrive in parts, not one that came whole.
        size = len(self._target) + sum([len(name) + len(value) for name, value in headers])
        if size > self._limits.head_bytes or len(headers) > self._limits.headers:
            raise _RefusedError(431, _describe_head_limits(self._limits))
        if self._life != "open":
            return  # nobody is answered after the request that ends the connection
        version = parser.get_http_version()
        # llhttp accepts 0.9 and 2.0 in a request line as well.
        if version not in ("1.1", "1.0"):
            raise _RefusedError(505, "only HTTP/1.0 and HTTP/1.1 are supported")
        request = Request(version, parser.get_method(), self._target, headers)
        request.client = self._client
        request.keeps_alive = (
            version == "1.1" and self._application.keeps_alive and parser.should_keep_alive()
        )
        fields = request.fields
        # Only where a name is repeated need the hosts be counted.
        if len(fields) != len(headers) and sum([name == b"host" for name, _ in headers]) > 1:
            raise _RefusedError(400, "more than one host header")
        # RFC 9112, section 3.2, asks for 400 in both cases: the host must be unambiguous.
        if version == "1.1" and b"host" not in fields:
            raise _RefusedError(400, "missing required host header")
        # Two servers could frame any other coding differently (RFC 9112, section 6.1).
        if b"transfer-encoding" in fields:
            if version == "1.0":
                raise _RefusedError(400, "header transfer-encoding is not allowed in HTTP/1.0")
            # All lines, not `fields`, which has only the last of them: `gzip` before
            # `chunked` hides.
            codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
            if codings != [b"chunked"]:
                raise _RefusedError(501, "header transfer-encoding must be chunked")
        self._message = READING[self._message]["head_ends"]
        self._request = request
        self._drop_body()
        self._share = None if self._bodies is None else self._bodies.begin()
        self._body_size = self._framing_size = 0
        self._since = self._connections.now
        if parser.should_upgrade():
            self._upgrades = True
            # Behind a request to upgrade a client may speak another protocol.
            request.keeps_alive = False
        if b"expect" in fields:
            if fields[b"expect"].lower() != b"100-continue":
                raise _RefusedError(417, "header expect must be 100-continue")
            # RFC 9110, 10.1.1: the expectation of an HTTP/1.0 client must be ignored.
            request.expects_continue = version == "1.1"
            self._begin_stream()

    def on_body(self, body: bytes) -> None:
        """Collect a part of the body, or feed it to the application; called by the parser.

        A body over `body_buffered` bytes goes to the application in pieces. Raise _RefusedError
        (503) if the bodies of all connections take too many bytes.
        """
        self._body_size += len(body)
        if self._stream is not None:
            self._stream.feed(body)
            self._update_reading()
            return
        if self._share is not None and not self._share.grow(len(body)):
            raise _RefusedError(
                503, "too many request bodies are being read at the same time: try again later"
            )
        self._body.append(body)
        if self._body_size > self._limits.body_buffered:
            self._begin_stream()

    def _drop_body(self) -> None:
        self._body = []
        self._share = None

    def on_message_complete(self) -> None:
        """End the request that is being read; called by the parser. A body that is streamed to the
        application gets its end. Otherwise the complete request is answered, or queued while
        another is being answered.

        Nothing happens without a request, or for one whose upgrade is ignored. A full queue, or a
        request without keep-alive, is the last that is read.
        """
        request = self._request
        if self._upgrades or request is None:
            return
        self._message = READING[self._message]["body_ends"]
        self._request = None
        # Before the answer, which asks `ends` whether the connection goes on.
        if not request.keeps_alive:
            self._life = LIFE[self._life]["last"]
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end()
            return
        body = self._body
        request.body = body[0] if len(body) == 1 else b"".join(body)
        # The request takes the share over: its bytes count until the answer has dropped it.
        request.share = self._share
        self._drop_body()
        if self._current is None:
            self._begin(request)
        else:
            self._queue.append(request)
            # The parser cannot stop in the middle of a read: further requests of it are dropped.
            if len(self._queue) >= self._limits.pipelined:
                self._life = LIFE[self._life]["last"]
            self._update_reading()

    # Requests in turn

    def _begin(self, request: Request) -> None:
        """Make a complete request the current one, and answer it. A response of
        `Application.answer` is written at once, and `LATER` waits for `respond`; with None the ASGI
        application is started.
        """
        self._current = request
        response = self._application.answer(request, self.respond)
        if response is None:
            self._begin_call(request).end()
        elif response is not LATER:
            self._write(request, response)

    def _begin_stream(self) -> None:
        """Start the ASGI application on the request that is being read, with the body so far; the
        rest is fed as it arrives. While another request is being answered, or once the connection
        is ending, nothing is started; reading is paused or resumed in each case.
        """
        request = self._request
        if request is None or self._current is not None or self._life != "open":
            self._update_reading()
            return
        self._current = request
        self._stream = self._begin_call(request)
        for part in self._body:
            self._stream.feed(part)
        # INVARIANT: from here on the application bounds the body (`AsgiCall.is_full`),
        # not the share.
        self._drop_body()
        self._update_reading()

    def _begin_call(self, request: Request) -> AsgiCall:
        """Start the ASGI application on a request; store its call as `_call` and return it."""
        call = self._call = AsgiCall(self, request)
        if request.body:
            call.feed(request.body)
        call.start(self._application.asgi)
        return call

    def respond(self, request: Request, response: Response) -> None:
        """Write the response to `request` and begin the next one.

        Does nothing if the connection is gone or the request was answered.
        """
        # A late answer of a slow call: the connection may be at another request by now.
        if self._current is request and self._transport is not None:
            self._write(request, response)
            self._answer_queued()

    def _write(self, request: Request, response: Response) -> None:
        """Write a complete response with date and length, without its body for HEAD, and forget the
        current request. Ends the connection if `ends` is True. The connection must not be gone.
        """
        transport = self._transport
        assert transport is not None
        # Before `_finish`, which forgets the request on which it depends.
        ends = self.ends
        transport.write(
            b"%s%s%scontent-length: %d\r\n%s\r\n%s"
            % (
                response_head(response.status),
                self._connections.date,
                response.headers,
                len(response.body),
                _CLOSE if ends else b"",
                # RFC 9110, 9.3.2: a HEAD response announces the length that GET would have.
                b"" if request.method == b"HEAD" else response.body,
            )
        )
        self._finish(ends=ends)

    def write(self, data: bytes) -> None:
        """Write bytes of a response, or queue them; dropped if the connection is gone."""
        if self._transport is not None:
            self._transport.write(data)

    @property
    def ends(self) -> bool:
        """True if the connection ends after the response that is due now: because its request is
        not read completely, or because the connection or server is ending and no request waits in
        the queue.
        """
        if self._request is self._current:
            return True  # the rest of its body is not read
        ends = self._life != "open" or self._draining or self._connections.ends_soon
        # The client waits for the pipelined requests that were read already.
        return ends and not self._queue

    @property
    def date(self) -> bytes:
        """The `date` header of a response, as a line."""
        return self._connections.date

    @property
    def tls(self) -> Any:
        """The TLS object (`ssl.SSLObject`) of the connection; None without TLS."""
        return None if self._transport is None else self._transport.get_extra_info("ssl_object")

    @property
    def addresses(self) -> tuple[Any, Any]:
        """The socket addresses of client and server; (None, None) if the connection is gone."""
        if self._transport is None:
            return None, None
        info = self._transport.get_extra_info
        return info("peername"), info("sockname")

    def finish_call(self, call: AsgiCall, *, ends: bool) -> None:
        """Begin the next request after a call has written its response. Ends the connection instead
        with `ends`, or if the request is not complete yet. Nothing happens for a call that is not
        the present one.
        """
        if self._call is call and self._transport is not None:
            self._finish(ends=ends or self._request is self._current)
            self._answer_queued()

    def _finish(self, *, ends: bool) -> None:
        """Forget the answered request and start the time limit for the next one. With `ends`, end
        the connection (`_end`); without it, the caller begins the next request.
        """
        self._current = self._call = self._stream = None
        self._since = self._connections.now
        self._sweeps_left = _DRAINED
        if ends:
            self._end()

    def _answer_queued(self) -> None:
        """Answer the queued requests until one of them is answered later, even if nothing more is
        read from this connection. Then start the application on a request that is being read and
        waited for this, and update reading. A fault of ours is reported and aborts the connection.
        """
        try:
            # `last` goes on here: it ends reading, not the answers to what was read.
            while self._queue and self._current is None and self._life not in ("ending", "closed"):
                self._begin(self._queue.popleft())
            request = self._request
            # Such a request waited as a whole for its turn, since it has to be read in pieces.
            if request is not None and (
                request.expects_continue or self._body_size > self._limits.body_buffered
            ):
                self._begin_stream()
            self._update_reading()
        except FAULTS as fault:
            _EDGE.report(fault)
            self.abort()

    def _refuse(self, status: int, reason: str) -> None:
        """Answer the faulty request with an error, end the connection, and pass `reason` to
        `on_refused` of the application.

        If an earlier request is still being answered, the connection just ends after it, without
        the error. If half of this request's response is written, it is aborted.
        """
        self._application.on_refused(reason)
        self._life = LIFE[self._life]["last"]
        self._drop_body()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._request is self._current and self._call is not None and not self._call.has_begun:
            # What is wrong is the body of the request that is under way, and was not answered yet.
            self._call.disconnect()
            self._current = self._call = self._stream = None
        if self._current is None:  # else the connection ends after its answer
            phrase = HTTPStatus(status).phrase
            body = f"{int(status)} {phrase}: {reason}\n".encode("utf-8", errors="replace")
            transport.write(
                b"%s%s%scontent-length: %d\r\n%s\r\n%s"
                % (response_head(status), self.date, _TEXT, len(body), _CLOSE, body)
            )
            self._end()
        elif self._request is self._current:
            self.abort()  # half of its response is written

    def _end(self) -> None:
        """Drop the queued requests and end the connection: shut down writing if a request has not
        arrived completely, and discard the rest of it; else close.

        A socket that is closed with unread bytes is reset, and the client may lose the response.
        """
        self._life = LIFE[self._life]["end"]
        self._queue.clear()
        transport = self._transport
        if transport is None:
            return
        # INVARIANT: `expire` closes a connection that stays open here after `LINGER` seconds.
        if self._message != "between" and transport.can_write_eof():
            if not self._reading:
                self._reading = True
                transport.resume_reading()
            transport.write_eof()
        else:
            transport.close()

    def _update_reading(self) -> None:
        """Pause or resume reading from the socket. It is paused while the client does not read its
        responses, requests are queued, the application has not taken the body that was fed, or a
        long body waits for another request's answer; never while the connection is ending.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # A body behind a request under way has nobody yet who could take it.
        waits = self._current is not None and self._stream is None
        wanted = self._life == "ending" or not (
            self._write_since is not None
            or self._queue
            or (self._stream is not None and self._stream.is_full)
            or (waits and self._message == "body" and self._body_size > self._limits.body_buffered)
        )
        if wanted is not self._reading:
            self._reading = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def read_on(self) -> None:
        """Resume reading after the call has taken the bytes it was fed; restarts the body's time
        limit.
        """
        self._since = self._connections.now
        self._update_reading()


def _describe_head_limits(limits: Limits) -> str:
    """Return why a head over the limits is refused."""
    return f"the headers are more than {limits.headers}, or larger than {limits.head_bytes} bytes"


class _Body:
    """Receives the events of a parser that reads nothing but a body."""

    def __init__(self, connection: HttpConnection) -> None:
        self.on_body = connection.on_body
        self.on_message_complete = connection.on_message_complete
