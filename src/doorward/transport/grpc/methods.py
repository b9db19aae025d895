"""A request becomes a call of a method: the routes of the HTTP/2 core that speak gRPC.

`Services.resolve` is asked once for each header block, so everything that the block says (method,
content type, encoding, time-out) is worked out once. `Unary` holds the short path: a message that
arrives whole in one frame is answered within the same `feed`.

A method is a function of bytes. Any exception of it other than `GrpcError` is a defect: the guarded
edge reports it, and the call ends with INTERNAL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

from doorward.base.cancellation import Cancellation
from doorward.edge import FAULTS, Edge
from doorward.transport.grpc.messages import (
    PREFIX,
    Budget,
    Messages,
    frame_message,
    to_plain,
)
from doorward.transport.grpc.status import (
    OK_HEADERS,
    OK_TRAILERS,
    GrpcError,
    Status,
    http_refusal,
    trailers,
    trailers_only,
)
from doorward.transport.http2.headers import Request
from doorward.transport.http2.streams import Route, Stream

__all__ = [
    "Call",
    "Method",
    "Options",
    "Runner",
    "Services",
    "StreamHandler",
    "StreamMethod",
    "call_method",
    "expire",
]

_EDGE: Final = Edge("grpc", "a gRPC method failed")
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
# gRPC over HTTP/2: `TimeoutValue` has at most eight digits.
MAX_TIMEOUT_DIGITS: Final = 8

Method: TypeAlias = Callable[[bytes], bytes]
"""A unary method: it returns the serialized response to a serialized request, or raises
GrpcError."""


def call_method(method: Method, message: bytes) -> bytes | GrpcError:
    """Return the answer of `method`, or the GrpcError with which its call ends; raises nothing.

    An unexpected exception is reported and becomes INTERNAL.
    """
    try:
        return method(message)
    except GrpcError as error:
        return error
    except FAULTS as fault:
        return GrpcError(Status.INTERNAL, _EDGE.report(fault))


class Runner(Protocol):
    """Decides where a method runs."""

    def run(
        self,
        method: Method,
        message: bytes,
        done: Callable[[bytes | GrpcError], None],
        cancellation: Cancellation,
    ) -> bytes | GrpcError | None:
        """Return the answer or error of `method`; None if `done` gets it later, on the loop.

        A cancelled call may be skipped, and then `done` is not called. The runner bounds the bytes
        of the messages that wait.
        """


class Call:
    """The server's side of a streaming call."""

    __slots__ = (
        "_ends_at",
        "_has_headers",
        "_message_ends_at",
        "_message_seconds",
        "_stream",
        "handler",
        "messages",
    )

    def __init__(self, stream: Stream, messages: Messages, ends_at: float = 0.0) -> None:
        """Begin a call on `stream`; `ends_at` is the client's deadline in monotonic seconds, 0 for
        none.
        """
        self._stream = stream
        self._has_headers = False
        self._ends_at = ends_at
        self._message_seconds = 0.0
        self._message_ends_at = 0.0
        self.messages = messages
        self.handler: StreamHandler | None = None

    def limit(self, *, seconds: float, message_seconds: float) -> None:
        """End the call after `seconds`, and if a message takes longer than `message_seconds` to
        arrive.

        The first message counts from now, later ones from their first byte. A shorter deadline of
        the client remains.
        """
        now = self._stream.sender.now
        ends_at = now + seconds
        # A client may ask for less time than the limit, never for more.
        self._ends_at = min(self._ends_at, ends_at) if self._ends_at else ends_at
        self._message_seconds = message_seconds
        self._message_ends_at = now + message_seconds
        self._set_deadline()

    def note_arrival(self, *, completed: bool) -> None:
        """Start the time limit of a message with its first byte, and end it when data has
        `completed` a message. Further bytes do not extend it.
        """
        if completed:
            self._message_ends_at = 0.0
        # Only where no limit runs: a client that sends a byte at a time must not extend it.
        if self.messages.is_partial and self._message_seconds and not self._message_ends_at:
            self._message_ends_at = self._stream.sender.now + self._message_seconds
        self._set_deadline()

    def _set_deadline(self) -> None:
        """Set the stream's deadline to the earlier of the call's and the message's; 0.0 if there is
        neither.
        """
        deadlines = [each for each in (self._ends_at, self._message_ends_at) if each]
        self._stream.deadline = min(deadlines, default=0.0)

    def send(self, message: bytes) -> None:
        """Send a message to the client, after the headers; does nothing once the call has ended."""
        stream = self._stream
        if stream.trailers is not None or not stream.is_open:
            return
        if not self._has_headers:
            self._has_headers = True
            stream.sender.send_headers(stream, OK_HEADERS)
        stream.sender.send_data(stream, frame_message(message))

    def notify_drained(self, function: Callable[[], None]) -> None:
        """Call `function` whenever messages that waited for the client are sent, until the call
        ends.
        """
        self._stream.on_drained = function

    def end(self, status: Status = Status.OK, message: str = "") -> None:
        """End the call with a status; does nothing once it has ended.

        OK becomes INTERNAL while the client has not ended its side. INVARIANT: to Envoy's filters
        an earlier OK would mean that the rest needs no decision.
        """
        stream = self._stream
        # A second end would write a header block behind END_STREAM (RFC 9113, section 5.1).
        if stream.trailers is not None or not stream.is_open:
            return
        if status is Status.OK and stream.receiving:
            status, message = Status.INTERNAL, "the call ended before its client did"
        block = trailers if self._has_headers else trailers_only
        stream.sender.finish(stream, block(status, message))

    def fail(self, error: GrpcError) -> None:
        """End the call with an error and cancel its handler."""
        # Before `end`: with the stream gone, nothing else would release what the handler holds.
        self._stream.route.abort(self._stream)
        self.end(error.status, error.message)

    @property
    def has_handler(self) -> bool:
        """True until the handler was cancelled; messages go to nobody afterwards."""
        return self.handler is not None

    @property
    def is_open(self) -> bool:
        """True until the response is complete or the client has reset the stream."""
        return self._stream.is_open

    @property
    def pending(self) -> int:
        """The number of bytes that wait until the client reads."""
        return len(self._stream.pending)


class StreamHandler(Protocol):
    """The handler of one call of a streaming method.

    Its methods may raise GrpcError to end the call with that status.
    """

    def receive(self, message: bytes) -> None:
        """Handle the next message of the client."""

    def half_close(self) -> None:
        """Handle the end of the client's messages."""

    def cancel(self) -> None:
        """Handle the end of a call that the handler did not end itself, by a reset or an error."""


StreamMethod: TypeAlias = Callable[[Call], StreamHandler]


class Options:
    """The options that all methods of a server share."""

    __slots__ = ("budget", "max_receive", "max_send", "receive_timeout")

    def __init__(
        self,
        *,
        max_receive: int = 4 << 20,
        max_send: int = 2**31 - 1,
        receive_timeout: float = 2.0,
        budget: int = 256 << 20,
    ) -> None:
        """Set the limits of calls: `max_send` is the largest answer in bytes, `budget` the bytes
        that the messages of all calls may take.
        """
        self.max_receive = max_receive
        """The largest message in bytes, also after decompression."""
        self.max_send = max_send
        self.receive_timeout = receive_timeout
        """Seconds within which the message of a unary call must be complete."""
        self.budget = Budget(budget)


class Services:
    """The application of a gRPC server: methods by their paths, `/package.Service/Method`."""

    def __init__(
        self,
        unary: Mapping[str, Method],
        streaming: Mapping[str, StreamMethod] | None = None,
        *,
        options: Options | None = None,
        runner: Runner | None = None,
        bind: Callable[[Method, Request], Method] | None = None,
    ) -> None:
        """Take the methods to serve: `unary` and `streaming` map paths `/package.Service/Method` to
        them. `bind` returns the unary method to call for one request, for methods that depend on
        headers.
        """
        self._bind = bind
        self._unary = {path.encode(): method for path, method in unary.items()}
        self._streaming = {path.encode(): each for path, each in (streaming or {}).items()}
        self._options = options or Options()
        self._runner = runner

    @property
    def paths(self) -> Iterable[str]:
        """The paths of all methods."""
        return [path.decode() for path in (*self._unary, *self._streaming)]

    def resolve(self, request: Request) -> Route:
        """Return the route of a request; if it is not a valid call, a route that refuses it."""
        try:
            return self._resolve(request)
        except GrpcError as error:
            return _Refusal(trailers_only(error.status, error.message))

    def _resolve(self, request: Request) -> Route:
        """Return the route of a request; for another HTTP method than POST or another content type
        than gRPC's, a route that refuses it with the HTTP status 405 or 415.

        Raise GrpcError if the gRPC method or the message encoding is unknown, the timeout is
        malformed, or `bind` raises it.
        """
        if request.method != b"POST":
            # An HTTP status, since a client that is not gRPC's does not look at trailers.
            return _Refusal(http_refusal(405, Status.INTERNAL, "method must be POST"))
        if not _is_grpc(request.get(b"content-type")):
            # 415 is required of gRPC servers, so that other clients do not read status
            # 200 as success.
            message = "content-type must be application/grpc"
            return _Refusal(http_refusal(415, Status.INTERNAL, message))
        # INVARIANT: nothing but the header block decides here, since routes are cached by its bytes
        # (`http2/header_blocks.py`). The timeout is a duration, not yet a time, for that reason.
        timeout = _timeout(request.get(b"grpc-timeout"))
        encoding = request.get(b"grpc-encoding") or b"identity"
        if encoding not in {b"identity", b"gzip"}:
            # The code with which clients send again uncompressed; `trailers_only` names
            # what we accept.
            raise GrpcError(Status.UNIMPLEMENTED, "grpc-encoding must be identity or gzip")
        method = self._unary.get(request.path)
        if method is not None:
            if self._bind is not None:
                method = self._bind(method, request)
            return _Unary(method, self._options, encoding, timeout, self._runner)
        stream_method = self._streaming.get(request.path)
        if stream_method is not None:
            return _Streaming(stream_method, self._options, encoding, timeout)
        raise GrpcError(Status.UNIMPLEMENTED, "unknown method")


def _is_grpc(content_type: bytes | None) -> bool:
    """Return True for `application/grpc`, also with `+proto` or parameters, but not for
    gRPC-Web.
    """
    if content_type is None or not content_type.lower().startswith(b"application/grpc"):
        return False
    # 16 is the length of the prefix: `application/grpc-web` is another protocol.
    return content_type[16:17] in {b"", b"+", b";"}


def _timeout(text: bytes | None) -> float | None:
    """Return a `grpc-timeout` in seconds: `100m` -> 0.1; None without one, GrpcError if
    malformed.
    """
    if text is None:
        return None
    unit = _UNITS.get(text[-1:])
    digits = text[:-1]
    if unit is None or not digits.isdigit() or len(digits) > MAX_TIMEOUT_DIGITS:
        raise GrpcError(
            Status.INTERNAL,
            f"grpc-timeout must be up to {MAX_TIMEOUT_DIGITS} digits and a unit, such as 100m",
        )
    return int(digits) * unit


def expire(stream: Stream) -> None:
    """End a stream whose deadline has passed with DEADLINE_EXCEEDED, and cancel its method."""
    # Before the end is written: a method in a thread must learn that nobody waits any more.
    stream.route.abort(stream)
    state = stream.state
    if isinstance(state, Call):
        state.end(Status.DEADLINE_EXCEEDED, "deadline exceeded")
        return
    block = trailers_only(Status.DEADLINE_EXCEEDED, "deadline exceeded")
    stream.sender.finish(stream, block)


class _Refusal:
    """A route that answers with one header block at once."""

    __slots__ = ("_block",)

    def __init__(self, block: bytes) -> None:
        self._block = block

    def open(self, stream: Stream) -> None:
        """Send the answer and end the stream."""
        stream.sender.finish(stream, self._block)

    def receive(self, stream: Stream, data: bytes, ended: bool) -> None:
        """Ignore data: `open` has ended the stream."""

    def abort(self, stream: Stream) -> None:
        """Do nothing: the answer is written already."""


class _Unary:
    """The route of a unary method, called with one message for one answer."""

    __slots__ = ("_encoding", "_max_send", "_method", "_options", "_runner", "_seconds")

    def __init__(
        self,
        method: Method,
        options: Options,
        encoding: bytes,
        timeout: float | None,
        runner: Runner | None,
    ) -> None:
        self._method = method
        self._options = options
        self._encoding = encoding
        self._runner = runner
        self._max_send = options.max_send
        wait = options.receive_timeout
        self._seconds = wait if timeout is None else min(wait, timeout)

    def open(self, stream: Stream) -> None:
        """Start the time limit for the request."""
        stream.deadline = stream.sender.now + self._seconds

    def receive(self, stream: Stream, data: bytes, ended: bool) -> None:
        """Collect the request message from the stream's data, and run the method once the client
        has ended the stream (`ended`). The answer may be sent later.

        A malformed, missing, second or too large message ends the call with an error; nothing is
        raised.
        """
        try:
            # A whole message in one frame, as Envoy sends it: it needs no buffer and no state.
            if ended and stream.state is None and len(data) >= PREFIX.size:
                flag, length = PREFIX.unpack_from(data)
                if length + PREFIX.size == len(data) and length <= self._options.max_receive:
                    limit = self._options.max_receive
                    plain = to_plain(data[PREFIX.size :], flag, self._encoding, limit)
                    self._answer(stream, plain)
                    return
            self._collect(stream, data, ended)
        except GrpcError as error:
            self._fail(stream, error)

    def _collect(self, stream: Stream, data: bytes, ended: bool) -> None:
        """Add data to the message of a stream, and with `ended` run the method on the complete
        message.

        Raise GrpcError if there is a second message, or if it is missing, cut off, too large,
        cannot be decompressed or exceeds the budget of all calls.
        """
        state = stream.state
        if state is None:
            options = self._options
            messages = Messages(options.max_receive, self._encoding, options.budget)
            state = stream.state = _Partial(messages, options.budget)
        assert isinstance(state, _Partial)
        for message in state.messages.feed(data) if data else ():
            if state.message is not None:
                # A second message would be decided by nobody, so it must not be ignored.
                raise GrpcError(Status.INTERNAL, "a call of this method must have only one message")
            state.keep(message)
        if not ended:
            return
        # Half a message behind a whole one is refused as well: the client meant to send more.
        if state.message is None or state.messages.is_partial:
            raise GrpcError(Status.INTERNAL, "the call ended before its message was complete")
        message = state.message
        # The message is answered now; where it waits for that, the runner counts it.
        self.abort(stream)
        self._answer(stream, message)

    def _answer(self, stream: Stream, message: bytes) -> None:
        """Run the method, on the loop or in a thread as the runner decides, and send the answer
        when it is there. With a runner the request's own deadline no longer applies: the evaluation
        has one.
        """
        if self._runner is None:
            self._finish(stream, call_method(self._method, message))
            return
        # The message is here in time. From now on the deadline of the evaluation counts.
        stream.deadline = 0.0

        cancellation = Cancellation()

        def finish(answer: bytes | GrpcError) -> None:
            """Send the answer if the stream is still open."""
            # A reset may take the stream away while its method runs in another thread.
            if stream.is_open:
                stream.state = None
                self._finish(stream, answer)

        # INVARIANT: `finish` runs in a later turn of the loop, so `state` is set below before it.
        answer = self._runner.run(self._method, message, finish, cancellation)
        if answer is not None:
            self._finish(stream, answer)
        else:
            stream.state = cancellation

    def _finish(self, stream: Stream, answer: bytes | GrpcError) -> None:
        """Send an answer with its trailers. End the call with an error if `answer` is one, and with
        RESOURCE_EXHAUSTED if the answer is too large.
        """
        if isinstance(answer, GrpcError):
            self._fail(stream, answer)
        elif len(answer) > self._max_send:
            message = f"response is larger than {self._max_send} bytes"
            self._fail(stream, GrpcError(Status.RESOURCE_EXHAUSTED, message))
        else:
            stream.sender.respond(stream, OK_HEADERS, frame_message(answer), OK_TRAILERS)

    def _fail(self, stream: Stream, error: GrpcError) -> None:
        """End the stream with an error, and forget what it received."""
        # What was collected must give its bytes back to the budget that all streams share.
        self.abort(stream)
        stream.sender.finish(stream, trailers_only(error.status, error.message))

    def abort(self, stream: Stream) -> None:
        """Release what was collected of a stream's message, or cancel its running method. Further
        calls do nothing.
        """
        state = stream.state
        if isinstance(state, _Partial):
            state.close()
            stream.state = None
        elif isinstance(state, Cancellation):
            state.cancel()


class _Partial:
    """A unary call whose message arrives in pieces, or waits for the end of the stream."""

    __slots__ = ("_budget", "message", "messages")

    def __init__(self, messages: Messages, budget: Budget) -> None:
        self._budget = budget
        self.messages = messages
        self.message: bytes | None = None

    def keep(self, message: bytes) -> None:
        """Store the complete message; raise GrpcError if the shared budget has no room for it."""
        # `messages` has released what arrived of it, which was less if it was compressed.
        self._budget.take(len(message))
        self.message = message

    def close(self) -> None:
        """Release the bytes of the message, or of the part that has arrived."""
        self.messages.close()
        if self.message is not None:
            self._budget.give(len(self.message))
            self.message = None


class _Streaming:
    """The route of a streaming method, with any number of messages in both directions."""

    __slots__ = ("_encoding", "_method", "_options", "_seconds")

    def __init__(
        self, method: StreamMethod, options: Options, encoding: bytes, timeout: float | None
    ) -> None:
        self._method = method
        self._options = options
        self._encoding = encoding
        self._seconds = timeout

    def open(self, stream: Stream) -> None:
        """Create the call of a stream and start its handler. A GrpcError of the method, such as for
        too many calls, ends the call with its status, a fault with INTERNAL; the call then has no
        handler.
        """
        ends_at = 0.0
        if self._seconds is not None:
            stream.deadline = ends_at = stream.sender.now + self._seconds
        options = self._options
        messages = Messages(options.max_receive, self._encoding, options.budget)
        call = stream.state = Call(stream, messages, ends_at)
        try:
            call.handler = self._method(call)
        except GrpcError as error:
            call.end(error.status, error.message)
        except FAULTS as fault:
            call.end(Status.INTERNAL, _EDGE.report(fault))

    def receive(self, stream: Stream, data: bytes, ended: bool) -> None:
        """Pass each message that `data` completes to the call's handler, and with `ended` the end
        of the client's side.

        A GrpcError or fault of the handler ends the call, as does an end within a message; nothing
        is raised. Data of a call whose handler is gone is ignored.
        """
        call = stream.state
        assert isinstance(call, Call)
        handler = call.handler
        if handler is None:
            return  # it has ended; the client does not read that, and sends on
        try:
            messages = call.messages.feed(data) if data else ()
            call.note_arrival(completed=bool(messages))
            for message in messages:
                # A call of many messages is one request: without this its frames use up
                # the client's credit.
                stream.sender.count_message()
                handler.receive(message)
                # The handler may end its call within `receive`; later messages of this
                # read go nowhere.
                if not call.has_handler:
                    return  # it has ended with this message
            if ended:
                if call.messages.is_partial:
                    raise GrpcError(
                        Status.INTERNAL, "the call ended before its message was complete"
                    )
                handler.half_close()
        except GrpcError as error:
            call.fail(error)
        except FAULTS as fault:
            self.abort(stream)
            call.end(Status.INTERNAL, _EDGE.report(fault))

    def abort(self, stream: Stream) -> None:
        """Cancel the handler and drop an incomplete message. Further calls do nothing."""
        call = stream.state
        if isinstance(call, Call) and call.handler is not None:
            # Before `cancel`, which may end in another `abort` of the same call.
            handler, call.handler = call.handler, None
            call.messages.close()
            handler.cancel()
