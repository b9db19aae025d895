"""The streams of a connection: who gets their data, and what is written of their responses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from doorward.transport.http2.codes import (
    FRAME_HEAD,
    UINT32,
    ErrorCode,
    Flag,
    FrameType,
    Http2Error,
    StreamError,
)
from doorward.transport.http2.headers import Request
from doorward.transport.http2.limits import Limits

__all__ = ["DEFAULT_WINDOW", "Application", "ClosedStreams", "Route", "Sender", "Stream"]

MAX_CLOSED: Final = 1_000
"""The number of ended streams that are remembered, to tell a late frame from a wrong one."""
DEFAULT_WINDOW: Final = 65_535
"""The initial size of every flow-control window in bytes (RFC 9113, 6.9.2)."""
# RFC 9113, 6.9.1 and 6.5.2.
MAX_WINDOW: Final = 2**31 - 1
MIN_FRAME_SIZE: Final = 16_384
MAX_FRAME_SIZE: Final = 2**24 - 1
_NO_TABLE: Final = b"\x20"
"""A table size update to 0, required after the peer lowered the size: no table is used."""


class Route(Protocol):
    """The receiver of requests of one kind; one route serves any number of streams."""

    def open(self, stream: Stream) -> None:
        """Handle the header section of `stream`, which has arrived."""

    def receive(self, stream: Stream, data: bytes, ended: bool) -> None:
        """Handle more of the body; `ended` is True with the last piece, which may be empty."""

    def abort(self, stream: Stream) -> None:
        """Handle the end of a stream (reset or lost connection) whose response is not complete."""


class Application(Protocol):
    """The application that a connection serves: it finds the route of each request."""

    def resolve(self, request: Request) -> Route:
        """Return the route of a request. It may depend on the header section only, since it is
        cached.
        """


class Stream:
    """A request whose response is not complete. `state` belongs to its route."""

    __slots__ = (
        "body_size",
        "deadline",
        "expected",
        "id",
        "on_drained",
        "pending",
        "receive_window",
        "receiving",
        "route",
        "send_deadline",
        "send_window",
        "sender",
        "state",
        "trailers",
    )

    def __init__(
        self, sender: Sender, stream_id: int, route: Route, expected: int | None, window: int
    ) -> None:
        """Open a stream that `route` answers. `expected` is the announced length of the body (None
        if unknown), `window` the bytes that the client may send.
        """
        self.sender = sender
        self.id = stream_id
        self.route = route
        self.expected = expected
        self.body_size = 0
        self.receiving = True
        self.receive_window = window
        self.send_window = sender.initial_window
        self.pending = bytearray()
        """Data of the response that waits for the client's window."""
        self.trailers: bytes | None = None
        """The last header block of the response; None until the response is complete."""
        self.deadline = 0.0
        """The time at which `expire` hands the stream to `on_expired`, in monotonic seconds; 0 for
        never."""
        self.send_deadline = 0.0
        """The time at which `expire` resets a stream whose client does not read; 0 if nothing
        waits."""
        self.on_drained: Callable[[], None] | None = None
        """Called when data that waited for the client is written and the response goes on."""
        self.state: object = None

    @property
    def is_open(self) -> bool:
        """True until the response is complete or the stream was reset."""
        return self.sender.streams.get(self.id) is self


def _ignore() -> None:
    """Do nothing: the default of `count_message`."""


class ClosedStreams:
    """The streams that ended lately, each with True if its late frames are ignored."""

    def __init__(self) -> None:
        self._ignored: OrderedDict[int, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ignored)

    def remember(self, stream_id: int, *, ignored: bool) -> None:
        """Note the end of a stream, and whether its late frames are ignored; beyond `MAX_CLOSED`
        the oldest is forgotten.
        """
        self._ignored[stream_id] = ignored
        if len(self._ignored) > MAX_CLOSED:
            self._ignored.popitem(last=False)

    def ignores(self, stream_id: int) -> bool | None:
        """Return True if late frames of a stream are ignored, False if they are errors.

        None if its end is not remembered.
        """
        return self._ignored.get(stream_id)


class Sender:
    """Writes the frames of responses, as far as the client's flow-control windows allow.

    `take` returns what was written. `on_output` is called after a write unless `is_busy` is True,
    which means that the caller will take it.
    """

    __slots__ = (
        "_blocked",
        "_frame_size",
        "_header_prefix",
        "_on_output",
        "_out",
        "_timeout",
        "_window",
        "answered",
        "closed",
        "count_message",
        "initial_window",
        "is_busy",
        "now",
        "streams",
    )

    def __init__(self, limits: Limits, now: float, on_output: Callable[[], None] | None) -> None:
        self.streams: dict[int, Stream] = {}
        """The streams whose response is not complete, by id."""
        self.closed = ClosedStreams()
        # The client's settings may come after our first response: until then these are its values.
        self.initial_window = DEFAULT_WINDOW
        self.answered = 0
        """The number of calls that got a whole response by `respond`."""
        self.now = now
        """The connection's clock: the time of the last received bytes or sweep, in monotonic
        seconds."""
        self.is_busy = False
        self.count_message: Callable[[], None] = _ignore
        """Called for each message of a streaming call, which restores as much credit as a
        request."""
        self._on_output = on_output
        self._timeout = limits.send_timeout
        self._out: list[bytes] = []
        self._window = DEFAULT_WINDOW
        self._frame_size = MIN_FRAME_SIZE
        self._header_prefix = b""
        self._blocked: dict[int, Stream] = {}

    def take(self) -> bytes:
        """Return the bytes written since the last `take`."""
        out = self._out
        if not out:
            return b""
        self._out = []
        return out[0] if len(out) == 1 else b"".join(out)

    # Responses

    def respond(self, stream: Stream, headers: bytes, body: bytes, trailers: bytes) -> None:
        """Write a whole response and end the stream: `headers`, `body` and `trailers`, of which the
        first and last are blocks of `hpack.encode`. What exceeds the client's windows is written
        later, with the trailers. Counts in `answered` at once.
        """
        self.answered += 1
        size = len(body)
        if (
            # Then it takes several frames, or waits for the client.
            size > self._window
            or size > stream.send_window
            or size > self._frame_size
            or self._blocked
        ):
            self.send_headers(stream, headers)
            self.send_data(stream, body)
            self.finish(stream, trailers)
            return
        self._window -= size
        stream_id = stream.id
        # The trailers get none: an update is due once, in the first block that is written.
        headers = self._prefix(headers)
        pack = FRAME_HEAD.pack
        self._out += (
            pack(0, len(headers), FrameType.HEADERS, Flag.END_HEADERS, stream_id),
            headers,
            pack(size >> 8, size & 0xFF, FrameType.DATA, 0, stream_id),
            body,
            pack(
                0, len(trailers), FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, stream_id
            ),
            trailers,
        )
        self._end(stream)
        if not self.is_busy:
            self._notify()

    def send_headers(self, stream: Stream, block: bytes) -> None:
        """Write the header section of a response whose data follows."""
        self.write(FrameType.HEADERS, Flag.END_HEADERS, stream.id, self._prefix(block))

    def send_data(self, stream: Stream, data: bytes) -> None:
        """Write data of a response; it waits while the client's windows are full."""
        stream.pending += data
        self._flush(stream)
        self._notify()

    def finish(self, stream: Stream, trailers: bytes) -> None:
        """Complete a response with its last block, which is written after all data that waits."""
        stream.trailers = trailers
        self._flush(stream)
        self._notify()

    def refuse(self, stream_id: int, block: bytes, *, ended: bool) -> None:
        """Answer a request that became no stream with one block; `ended`: the client has sent all
        of it.
        """
        flags = Flag.END_HEADERS | Flag.END_STREAM
        self.write(FrameType.HEADERS, flags, stream_id, self._prefix(block))
        if not ended:
            self.write_reset(stream_id, ErrorCode.NO_ERROR)
        self.closed.remember(stream_id, ignored=True)

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream with RST_STREAM, whatever was written of its response; nothing if it is not
        open."""
        # The client may not have read RST_STREAM when it sends on (RFC 9113, 5.1).
        if self.remove(stream.id, ignored=True) is not None:
            self.write_reset(stream.id, code)

    def remove(self, stream_id: int, *, ignored: bool) -> Stream | None:
        """Close a stream without writing anything and return it; None if it is not open.

        `ignored`: late frames of it are ignored instead of being errors.
        """
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            # Else the next window update would write frames of a closed stream.
            self._blocked.pop(stream_id, None)
            self.closed.remember(stream_id, ignored=ignored)
        return stream

    def remove_all(self) -> list[Stream]:
        """Close all streams without writing anything, and return them."""
        streams = list(self.streams.values())
        self.streams.clear()
        self._blocked.clear()
        return streams

    # What the client's settings and windows change

    def limit_frames(self, size: int) -> None:
        """Apply the client's SETTINGS_MAX_FRAME_SIZE; raise Http2Error if it is out of range."""
        if not MIN_FRAME_SIZE <= size <= MAX_FRAME_SIZE:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE is out of range")
        self._frame_size = size

    def announce_no_table(self) -> None:
        """Begin the next header block with a table size of 0, after SETTINGS_HEADER_TABLE_SIZE."""
        self._header_prefix = _NO_TABLE

    def resize_windows(self, value: int) -> None:
        """Apply the client's SETTINGS_INITIAL_WINDOW_SIZE: new streams begin with it, and the send
        windows of open ones change by the difference (RFC 9113, 6.9.2). Writes data that waited if
        they grow. Raise Http2Error if `value` or a window is too large.
        """
        if value > MAX_WINDOW:
            raise Http2Error(
                ErrorCode.FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE is too large"
            )
        difference = value - self.initial_window
        self.initial_window = value
        for stream in self.streams.values():
            # It may become negative, and the client must widen it beyond 0 first (RFC 9113, 6.9.2).
            stream.send_window += difference
            if stream.send_window > MAX_WINDOW:
                raise Http2Error(
                    ErrorCode.FLOW_CONTROL_ERROR,
                    "SETTINGS_INITIAL_WINDOW_SIZE makes the window of an open stream too large",
                )
        if difference > 0:
            self._flush_blocked()

    def widen(self, increment: int) -> None:
        """Widen the send window of the connection by `increment` bytes, and write data that waited
        for it. Raise Http2Error if the increment is 0 or the window exceeds `MAX_WINDOW`.
        """
        if not increment:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of the connection with an increment of 0"
            )
        self._window += increment
        if self._window > MAX_WINDOW:
            raise Http2Error(
                ErrorCode.FLOW_CONTROL_ERROR,
                "WINDOW_UPDATE makes the connection's flow-control window too large",
            )
        self._flush_blocked()

    def widen_stream(self, stream: Stream, increment: int) -> None:
        """Widen the send window of a stream by `increment` bytes, and write its data that waited.
        Raise StreamError if the increment is 0 or the window exceeds `MAX_WINDOW`.
        """
        if not increment:
            # An error of the stream only; on the connection it is one of the connection
            # (RFC 9113, 6.9).
            raise StreamError(
                ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of a stream with an increment of 0"
            )
        stream.send_window += increment
        if stream.send_window > MAX_WINDOW:
            raise StreamError(
                ErrorCode.FLOW_CONTROL_ERROR,
                "WINDOW_UPDATE makes the stream's flow-control window too large",
            )
        if stream.id in self._blocked:
            self._flush(stream)

    # Frames

    def write(self, kind: FrameType, flags: int, stream_id: int, payload: bytes) -> None:
        """Append one frame to the output, which `take` returns. Neither windows nor the client's
        frame size are checked, and `on_output` is not called.
        """
        size = len(payload)
        self._out.append(FRAME_HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id))
        if payload:
            self._out.append(payload)

    def write_reset(self, stream_id: int, code: ErrorCode) -> None:
        """Append RST_STREAM to the output."""
        self.write(FrameType.RST_STREAM, 0, stream_id, UINT32.pack(code))

    def write_window(self, stream_id: int, increment: int) -> None:
        """Append WINDOW_UPDATE to the output; stream 0 is the connection."""
        self.write(FrameType.WINDOW_UPDATE, 0, stream_id, UINT32.pack(increment))

    def write_goaway(self, last: int, code: ErrorCode, reason: bytes = b"") -> None:
        """Append GOAWAY to the output; `last` is the last stream that is served."""
        self.write(FrameType.GOAWAY, 0, 0, UINT32.pack(last) + UINT32.pack(code) + reason)

    def _notify(self) -> None:
        """Say that there is output, unless the connection is about to write anyway."""
        if not self.is_busy and self._on_output is not None:
            self._on_output()

    def _flush(self, stream: Stream) -> None:
        """Write as much of a response as the windows allow, and its trailers once all data is
        written.

        A stream that must wait gets a `send_deadline`; when all its data is written and there are
        no trailers yet, its `on_drained` is called.
        """
        pending = stream.pending
        while pending:
            size = min(len(pending), self._window, stream.send_window, self._frame_size)
            if size <= 0:
                # From the first wait on: a client that widens its window by a byte gets
                # no more time.
                if not stream.send_deadline:
                    stream.send_deadline = self.now + self._timeout
                self._blocked[stream.id] = stream
                return
            self.write(FrameType.DATA, 0, stream.id, bytes(pending[:size]))
            del pending[:size]
            self._window -= size
            stream.send_window -= size
        was_blocked = self._blocked.pop(stream.id, None) is not None
        stream.send_deadline = 0.0
        if stream.trailers is not None:
            flags = Flag.END_HEADERS | Flag.END_STREAM
            # The prefix is added when a block is written, not when it is queued: the update must be
            # in the first block that the client reads.
            self.write(FrameType.HEADERS, flags, stream.id, self._prefix(stream.trailers))
            self._end(stream)
        # Last: it may write more.
        elif was_blocked and stream.on_drained is not None:
            stream.on_drained()

    def _flush_blocked(self) -> None:
        # A copy: `_flush` removes what is no longer blocked.
        for stream in list(self._blocked.values()):
            self._flush(stream)

    def _end(self, stream: Stream) -> None:
        """Close a stream whose response is complete; RST_STREAM tells a client that still sends
        (section 8.1).
        """
        stream_id = stream.id
        self.streams.pop(stream_id, None)
        # A client that has ended its side sends no more data: nothing late of it is to be ignored.
        if stream.receiving:
            self.write_reset(stream_id, ErrorCode.NO_ERROR)
            self.closed.remember(stream_id, ignored=True)

    def _prefix(self, block: bytes) -> bytes:
        """Return a header block, preceded by a table size update if one is due."""
        prefix = self._header_prefix
        if not prefix:
            return block
        self._header_prefix = b""
        return prefix + block
