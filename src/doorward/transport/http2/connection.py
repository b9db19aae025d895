"""The server's side of one HTTP/2 connection: received bytes in, bytes to write out.

    feed(bytes) -> frames -> streams -> application -> frames -> bytes

The application has one function, `resolve`, which returns the `Route` for a header block; the route
receives the data. It answers through the stream's `sender`, during `feed` or later, and `take`
returns what was written later. Nothing in here waits, reads a clock of its own, or raises because
of a peer's bytes: a stream error is answered with RST_STREAM, a connection error with GOAWAY, after
which `closed` is true.

The rules are those of RFC 9113; `limits.py` has the bounds. Priorities are ignored; push and
CONNECT are not supported.

INVARIANT: every header block is decoded, even that of a refused stream, because the peer's encoder
has updated its table.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from time import monotonic
from typing import Final

from doorward.transport.http2.codes import (
    FRAME_HEAD,
    UINT32,
    ErrorCode,
    Flag,
    FrameType,
    Http2Error,
    Setting,
    StreamError,
)
from doorward.transport.http2.credit import Credit
from doorward.transport.http2.header_blocks import HeaderBlocks, PartialBlock
from doorward.transport.http2.headers import MalformedError, check_trailers
from doorward.transport.http2.hpack import encode
from doorward.transport.http2.limits import Limits
from doorward.transport.http2.states import ENDING, RECEIVING
from doorward.transport.http2.streams import DEFAULT_WINDOW, Application, Sender, Stream

__all__ = ["PREFACE", "Connection"]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_STREAM_ID: Final = 2**31 - 1
DRAIN_WAIT: Final = 1.0
"""Seconds that `shutdown` waits for the client's PING before it names the last stream."""

# RFC 9113, section 6.5.1.
_SETTING: Final = Struct(">HL")
# Eight bytes, as a PING must have; they tell its answer from that of another PING.
_DRAIN: Final = b"draining"
_TOO_LARGE: Final = encode([(b":status", b"431")])


class Connection:
    """The server's side of one HTTP/2 connection; not thread-safe, it belongs to an event loop."""

    def __init__(
        self,
        application: Application,
        limits: Limits | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        on_expired: Callable[[Stream], None] | None = None,
        on_output: Callable[[], None] | None = None,
    ) -> None:
        """Begin a connection that waits for the client's preface. `on_expired` is told each stream
        that is past its deadline. `on_output` is called when something is written outside of
        `feed`, `expire` and `shutdown`.
        """
        self.limits = limits or Limits()
        self._ending = "serving"
        """The state of `states.ENDING`."""
        now = clock()
        self._sender = Sender(self.limits, now, on_output)
        self._sender.count_message = self._count_request
        self.streams = self._sender.streams
        self.requested = 0.0
        """The time at which the client last ended a request, in monotonic seconds; 0 if never."""
        self._clock = clock
        self._on_expired = on_expired
        self._buffer = bytearray()
        # INVARIANT: fewer bytes than this are only collected. To parse at each arrival would take
        # quadratic time where a client sends a frame byte by byte.
        self._needed = len(PREFACE)
        self._receiving = "preface"
        """The state of `states.RECEIVING`."""
        self._began = now
        self._highest = 0
        self._headers = HeaderBlocks(application, self.limits)
        self._block: PartialBlock | None = None
        self._receive_window = self.limits.connection_window
        self._complete: list[tuple[Stream, bytes]] = []
        """Streams that the client has ended, with their last data. They are passed on after all
        received frames, so that a stream that is reset in the same bytes costs no answer."""
        self._credit = Credit(self.limits, now)
        self._final = MAX_STREAM_ID
        """The highest stream that is served; the end of a drain lowers it."""
        # INVARIANT: the position of each method is the number of its `FrameType`.
        self._frames: tuple[Callable[[int, int, bytes], None], ...] = (
            self._on_data,
            self._on_headers,
            self._on_priority,
            self._on_reset,
            self._on_settings,
            self._on_push_promise,
            self._on_ping,
            self._on_goaway,
            self._on_window_update,
            self._on_continuation,
        )

    # Bytes in, bytes out

    def feed(self, data: bytes) -> bytes:
        """Handle received bytes and return the bytes to write.

        No content of `data` makes it raise: a violation is answered with RST_STREAM, or with GOAWAY
        and `closed`. b"" once closed.
        """
        if self._ending == "closed":
            return b""
        sender = self._sender
        sender.now = self._clock()
        sender.is_busy = True
        try:
            self._receive(data)
            if self._complete:
                self._hand_on()
        except Http2Error as error:
            self._fail(error)
        finally:
            sender.is_busy = False
        return sender.take()

    def take(self) -> bytes:
        """Return the bytes written since the last `feed` or `take`."""
        return self._sender.take()

    def shutdown(self) -> bytes:
        """Announce the end of the connection and return the bytes to write.

        Streams that the client starts before it learns of it are served: GOAWAY without a limit,
        PING, and after its answer the final GOAWAY (RFC 9113, 6.8). `drained` says when all is
        done.
        """
        # A second `shutdown` must not begin the drain, and its wait, again.
        if self._ending == "serving":
            self._ending = ENDING[self._ending]["announce"]
            self._began = self._clock()
            # SETTINGS must be our first frame (RFC 9113, 3.4): `_open` announces the end otherwise.
            if self._receiving != "preface":
                self._announce_end()
        return self.take()

    def _announce_end(self) -> None:
        """Write GOAWAY without a limit, and the PING whose answer shows that the client has read
        it.
        """
        self._sender.write_goaway(MAX_STREAM_ID, ErrorCode.NO_ERROR)
        self._sender.write(FrameType.PING, 0, 0, _DRAIN)

    def close(self) -> bytes:
        """End at once and return the bytes to write; open streams are aborted.

        GOAWAY names the last stream that was seen.
        """
        if self._receiving != "preface" and self._ending != "closed":
            self._sender.write_goaway(self._highest, ErrorCode.NO_ERROR)
        self.lost()
        return self.take()

    @property
    def answered(self) -> int:
        """The number of calls that got the whole response of a method."""
        return self._sender.answered

    @property
    def closed(self) -> bool:
        """True if nothing more is read or written."""
        return self._ending == "closed"

    @property
    def drained(self) -> bool:
        """True if the connection may be closed after `shutdown`: no stream is open, and none can
        follow.
        """
        return self._ending == "closed" or (self._ending == "final" and not self.streams)

    def lost(self) -> None:
        """Mark the connection as closed and abort every open stream; writes nothing."""
        self._ending = ENDING[self._ending]["close"]
        # The cache's budget belongs to all connections.
        self._headers.forget()
        for stream in self._sender.remove_all():
            stream.route.abort(stream)

    def expire(self) -> bytes:
        """End what is past its time limit and return the bytes to write; call it every half second.

        A late preface or header block ends the connection, a late stream is aborted, and a drain
        whose PING is not answered goes on.
        """
        self._sender.now = now = self._clock()
        if self._ending == "closed":
            return b""
        if self._receiving != "open" and now - self._began > self.limits.header_timeout:
            self._fail(
                Http2Error(
                    ErrorCode.ENHANCE_YOUR_CALM,
                    "preface, SETTINGS or headers did not arrive in time",
                )
            )
            return self.take()
        if self._ending == "announced" and now - self._began > DRAIN_WAIT:
            if self._receiving == "preface":
                self._ending = ENDING[self._ending]["close"]
                return b""
            self._announce_last()
        self._sender.is_busy = True
        try:
            self._expire_streams(now)
        finally:
            self._sender.is_busy = False
        return self.take()

    def _expire_streams(self, now: float) -> None:
        """Hand streams past their deadline to `on_expired`; reset those that are still open
        afterwards.

        A complete response may wait for the client until its `send_deadline`.
        """
        late = [
            each
            for each in self.streams.values()
            if 0 < each.deadline < now or 0 < each.send_deadline < now
        ]
        for stream in late:
            if self._on_expired is not None and 0 < stream.deadline < now:
                # Told once: a late stream whose error waits for the client's window stays open.
                stream.deadline = 0.0
                self._on_expired(stream)
            # What is written may wait for the client; nothing else may.
            is_waiting = stream.trailers is not None and stream.send_deadline >= now
            if self.streams.get(stream.id) is stream and not is_waiting:
                stream.route.abort(stream)
                self._sender.reset(stream, ErrorCode.CANCEL)

    def _receive(self, data: bytes) -> None:
        """Split received bytes into frames and handle each; an incomplete frame, or preface, is
        kept for the next bytes. Stops after a frame that closes the connection.

        Raise Http2Error for a wrong preface, a frame that is too large or out of order, and as the
        frames' methods do. A StreamError of theirs is answered with RST_STREAM.
        """
        if self._buffer or len(data) < self._needed:
            self._buffer += data
            if len(self._buffer) < self._needed:
                self._check_preface()
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        position = 0
        if self._receiving == "preface":
            self._buffer += data[: len(PREFACE)]
            self._check_preface()
            self._buffer.clear()
            self._open()
            position = len(PREFACE)
        size = len(data)
        unpack = FRAME_HEAD.unpack_from
        frames = self._frames
        # Again from here, whether or not the loop ends with a frame that is cut.
        self._needed = FRAME_HEAD.size
        while size - position >= 9:
            high, low, kind, flags, stream_id = unpack(data, position)
            length = high << 8 | low
            # Before the frame is complete, so that `_buffer` never grows beyond one frame.
            if length > self.limits.max_frame_size:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "frame is too large")
            end = position + 9 + length
            if end > size:
                self._needed = 9 + length
                break
            payload = data[position + 9 : end]
            position = end
            # Before the type is known to be unknown: within a header block an extension frame is an
            # error as well (RFC 9113, 5.5).
            if self._receiving != "open":
                self._check_order(kind)
            if kind < len(frames):
                try:
                    frames[kind](flags, stream_id & MAX_STREAM_ID, payload)
                except StreamError as error:
                    self._reset_for(stream_id & MAX_STREAM_ID, error)
                # What follows a fatal frame in the same read is not looked at.
                if self._ending == "closed":
                    return
            else:
                # RFC 9113, 4.1: unknown types are ignored, but a flood of them is not free.
                self._charge(1)
        if position < size:
            self._buffer += data[position:]

    def _hand_on(self) -> None:
        """Pass the ends of requests to their routes, after all frames of one read were handled."""
        complete, self._complete = self._complete, []
        streams = self.streams
        for stream, data in complete:
            # A later frame of the same read may have reset the stream.
            if streams.get(stream.id) is stream:
                stream.route.receive(stream, data, True)

    def _check_order(self, kind: int) -> None:
        """Raise Http2Error if a frame of this type may not come now: any but SETTINGS as the first
        one, or any but CONTINUATION within a header block.
        """
        if self._receiving == "block" and kind != FrameType.CONTINUATION:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "header block is interrupted")
        if self._receiving == "settings" and kind != FrameType.SETTINGS:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR, "first frame after the preface is not SETTINGS"
            )

    def _check_preface(self) -> None:
        """Raise Http2Error if what arrived so far is not the beginning of HTTP/2's preface."""
        if self._receiving == "preface" and not PREFACE.startswith(self._buffer):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "not the preface of HTTP/2")

    def _open(self) -> None:
        """Write the server's preface: SETTINGS, the window of the connection, and the announcement
        of an end that has begun.
        """
        self._receiving = RECEIVING[self._receiving]["preface"]
        limits = self.limits
        settings = (
            (Setting.MAX_CONCURRENT_STREAMS, limits.max_concurrent_streams),
            (Setting.INITIAL_WINDOW_SIZE, limits.stream_window),
            (Setting.MAX_FRAME_SIZE, limits.max_frame_size),
            (Setting.MAX_HEADER_LIST_SIZE, limits.header_list_size),
            (Setting.HEADER_TABLE_SIZE, limits.header_table_size),
        )
        content = b"".join([_SETTING.pack(*each) for each in settings])
        self._sender.write(FrameType.SETTINGS, 0, 0, content)
        # SETTINGS cannot change the connection's window (RFC 9113, 6.9.2), an update can.
        self._sender.write_window(0, limits.connection_window - DEFAULT_WINDOW)
        if self._ending == "announced":
            self._announce_end()

    # Frames

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Handle DATA (RFC 9113, 6.1): count it against the windows, which are widened again, and
        pass it to the stream's route; the last data of a request only after all received frames.

        Raise Http2Error or StreamError if a window is exceeded, the padding or length is wrong, or
        the credit is used up. DATA for a stream that is not open is ignored or an error
        (`_check_closed`).
        """
        # With padding, and for closed streams too: flow control counts the whole payload of every
        # DATA frame (RFC 9113, 6.1 and 6.9), or both sides would no longer agree.
        size = len(payload)
        self._receive_window -= size
        if self._receive_window < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "connection window is exceeded")
        # At half the window: one update for many frames, and a fast client never has to wait.
        if self._receive_window < self.limits.connection_window >> 1:
            self._sender.write_window(0, self.limits.connection_window - self._receive_window)
            self._receive_window = self.limits.connection_window
        if flags & Flag.PADDED:
            payload = _unpad(payload)
        stream = self.streams.get(stream_id)
        if stream is None or not stream.receiving:
            self._check_closed(stream_id, stream)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamError(ErrorCode.FLOW_CONTROL_ERROR, "stream window is exceeded")
        ended = flags & Flag.END_STREAM != 0
        # A stream that has ended needs no window; that of empty DATA has not changed.
        if ended:
            stream.receiving = False
            self._count_request()
        elif not payload:
            self._charge(1)
        elif stream.receive_window < self.limits.stream_window >> 1:
            self._sender.write_window(stream_id, self.limits.stream_window - stream.receive_window)
            stream.receive_window = self.limits.stream_window
        # Before the data is passed on: a body of the wrong length must not be decided about.
        if stream.expected is not None:
            self._check_length(stream, len(payload))
        if ended:
            self._complete.append((stream, payload))
        else:
            stream.route.receive(stream, payload, False)

    def _check_length(self, stream: Stream, size: int) -> None:
        """Add `size` to the bytes of the body that have arrived. Raise StreamError if they are more
        than `content-length`, or fewer at the end of the body (RFC 9113, 8.1.1).
        """
        stream.body_size += size
        assert stream.expected is not None
        over = stream.body_size > stream.expected
        if over or (not stream.receiving and stream.body_size < stream.expected):
            raise StreamError(
                ErrorCode.PROTOCOL_ERROR, "content-length is not the length of the body"
            )

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Handle HEADERS (RFC 9113, 6.2): process a header block that is complete, else keep it as
        the first part of one, which must be completed within `header_timeout`.

        Raise Http2Error for an even stream id, wrong padding or priority, or a part that is too
        large. Both kinds of errors of `_end_block` pass through.
        """
        # Clients use odd numbers, and 0 is the connection (RFC 9113, section 5.1.1).
        if not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the id of a client's stream must be odd")
        if flags & Flag.PADDED:
            payload = _unpad(payload)
        if flags & Flag.PRIORITY:
            if len(payload) < 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "priority is cut")
            # RFC 7540, 5.3.1. RFC 9113 drops priorities, but h2 clients still send them.
            if UINT32.unpack_from(payload)[0] & MAX_STREAM_ID == stream_id:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
            payload = payload[5:]
        if flags & Flag.END_HEADERS:
            self._end_block(flags, stream_id, payload)
            return
        # `header_timeout` counts for the rest of the block, not for each of its frames.
        self._began = self._sender.now
        self._receiving = RECEIVING[self._receiving]["block_begins"]
        self._block = PartialBlock(self.limits, stream_id, flags, payload)

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Handle CONTINUATION (RFC 9113, 6.10): the next piece of a header block. Raise Http2Error
        if no block of this stream has begun, or the block is too large.
        """
        block = self._block
        # RFC 9113, 6.2: the frames of a block must be contiguous, for HPACK has one state.
        if block is None or stream_id != block.stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without a header block")
        self._charge(1)
        block.add(payload)
        if flags & Flag.END_HEADERS:
            self._receiving = RECEIVING[self._receiving]["block_ends"]
            self._block = None
            self._end_block(block.flags, stream_id, bytes(block))

    def _end_block(self, flags: int, stream_id: int, block: bytes) -> None:
        """Open a stream for a complete header block, or handle it as trailers of an open one;
        ignore a stream above the last one that the final GOAWAY names.

        Raise StreamError for a malformed request or too many streams, Http2Error if the block
        cannot be decoded or the credit is used up; a header list over the limit is answered with
        431. The block is decoded in any case.
        """
        ended = flags & Flag.END_STREAM != 0
        # A known number: trailers, or a stream that is closed. Numbers only rise (RFC 9113, 5.1.1).
        if stream_id <= self._highest:
            self._on_trailers(stream_id, block, ended)
            return
        # Refused streams count as well: a client must not use their number again.
        self._highest = stream_id
        refusal: StreamError | None = None
        try:
            # Before any refusal: the block must be decoded to keep the table of the peer's
            # encoder.
            resolved = self._headers.routes.get(block) or self._headers.resolve(block)
        except StreamError as error:
            resolved, refusal = None, error
        # Not an error, and before the limits: GOAWAY promised that these are not processed (6.8).
        if stream_id > self._final:
            # The client was told, and will try elsewhere.
            self._sender.closed.remember(stream_id, ignored=True)
            return
        if len(self.streams) >= self.limits.max_concurrent_streams:
            self._charge(self.limits.reset_cost)
            # RFC 9113, 8.7: the code that allows a client to send even a POST again.
            raise StreamError(ErrorCode.REFUSED_STREAM, "too many concurrent streams")
        if refusal is not None:
            self._charge(self.limits.reset_cost)
            raise refusal
        if resolved is None:
            self._refuse_large(stream_id, ended)
            return
        route, expected = resolved
        window = self.limits.stream_window
        stream = self.streams[stream_id] = Stream(self._sender, stream_id, route, expected, window)
        route.open(stream)
        if ended:
            stream.receiving = False
            self._count_request()
            # HEADERS with END_STREAM has no body, so that only a length of 0 is true.
            if expected:
                raise StreamError(
                    ErrorCode.PROTOCOL_ERROR, "content-length is not the length of the body"
                )
            self._complete.append((stream, b""))

    def _on_trailers(self, stream_id: int, block: bytes, ended: bool) -> None:
        """Check trailers and end the request. `ended`: their frame has END_STREAM.

        Raise StreamError if they are malformed, too large or do not end the stream, or if the body
        is shorter than `content-length`; Http2Error if they cannot be decoded. Trailers of a stream
        that is not open are ignored or an error, as `_check_closed` decides.
        """
        # Before any check of the stream, to keep the peer's table.
        headers, size = self._headers.decode(block)
        stream = self.streams.get(stream_id)
        if stream is None or not stream.receiving:
            self._check_closed(stream_id, stream)
            return
        if not ended:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "trailers without END_STREAM")
        if size > self.limits.header_list_size:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "trailers are larger than the limit")
        try:
            check_trailers(headers)
        except MalformedError as error:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, str(error)) from None
        stream.receiving = False
        self._count_request()
        if stream.expected is not None:
            self._check_length(stream, 0)
        self._complete.append((stream, b""))

    def _refuse_large(self, stream_id: int, ended: bool) -> None:
        """Answer a request with 431 since its header list is over the limit (RFC 9113, 10.5.1).
        `ended`: the client has sent all of the request. It costs as much credit as a reset;
        Http2Error if that is used up.
        """
        # As much as a reset: decoding a large list is work for nothing.
        self._charge(self.limits.reset_cost)
        self._sender.refuse(stream_id, _TOO_LARGE, ended=ended)

    def _on_priority(self, _flags: int, stream_id: int, payload: bytes) -> None:
        """Check a PRIORITY frame and ignore it (RFC 9113, 5.3.2); it costs credit. Raise Http2Error
        if it has no stream or another length, or its stream depends on itself.
        """
        self._charge(1)
        if not stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(payload) != 5:
            # Stricter than 6.3, as 5.4.1 allows: a stream error may end the connection.
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY must have five bytes")
        if UINT32.unpack_from(payload)[0] & MAX_STREAM_ID == stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _on_reset(self, _flags: int, stream_id: int, payload: bytes) -> None:
        """Handle RST_STREAM (RFC 9113, 6.4): remove the stream and abort its route; for a stream
        that has ended, do nothing. It costs credit, against rapid resets. Raise Http2Error for a
        malformed frame, a stream that was never open, or if the credit is used up.
        """
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM must have four bytes")
        if not stream_id or stream_id > self._highest or not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "RST_STREAM of an idle stream")
        stream = self._sender.remove(stream_id, ignored=False)
        if stream is None:
            self._charge(1)
            return
        self._charge(self.limits.reset_cost)
        stream.route.abort(stream)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Handle SETTINGS (RFC 9113, 6.5): apply each setting and acknowledge the frame. An
        acknowledgement of our own settings changes nothing. Both cost credit. Raise Http2Error for
        an invalid frame or setting, or if the credit is used up.
        """
        # By the number of settings: one frame can hold 2,730 of them (CVE-2019-9515).
        self._charge(1 + len(payload) // _SETTING.size)
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & Flag.ACK:
            if payload:
                raise Http2Error(
                    ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload"
                )
            # The preface of a client is SETTINGS of its own, not an acknowledgement
            # (RFC 9113, 3.4).
            if self._receiving == "settings":
                raise Http2Error(
                    ErrorCode.PROTOCOL_ERROR,
                    "first frame after the preface is an acknowledgement of SETTINGS, not SETTINGS "
                    "of the client",
                )
            return
        if len(payload) % _SETTING.size:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "setting is cut")
        for setting, value in _SETTING.iter_unpack(payload):
            self._apply_setting(setting, value)
        self._receiving = RECEIVING[self._receiving]["settings"]
        self._sender.write(FrameType.SETTINGS, Flag.ACK, 0, b"")

    def _apply_setting(self, setting: int, value: int) -> None:
        """Apply one setting of the client. `INITIAL_WINDOW_SIZE`, `MAX_FRAME_SIZE` and
        `HEADER_TABLE_SIZE` change how we send, `ENABLE_PUSH` is only checked, others are ignored.
        Raise Http2Error for a value that is not allowed.
        """
        if setting == Setting.INITIAL_WINDOW_SIZE:
            self._sender.resize_windows(value)
        elif setting == Setting.MAX_FRAME_SIZE:
            self._sender.limit_frames(value)
        elif setting == Setting.ENABLE_PUSH:
            if value > 1:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH must be 0 or 1")
        # RFC 7541, 4.2: a lowered size must be acknowledged in the next block, though we use none.
        elif setting == Setting.HEADER_TABLE_SIZE:
            self._sender.announce_no_table()

    def _on_push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Answer PING (RFC 9113, 6.7). The acknowledgement of the PING that `shutdown` sent makes
        the final GOAWAY due, which is written; others are ignored. Each costs credit. Raise
        Http2Error for an invalid frame, or if the credit is used up.
        """
        self._charge(1)
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "PING must have eight bytes")
        if not flags & Flag.ACK:
            self._sender.write(FrameType.PING, Flag.ACK, 0, payload)
        # RFC 9113, 6.8: frames come in order, so no stream begun before the GOAWAY is
        # still on its way.
        elif payload == _DRAIN and self._ending == "announced":
            self._announce_last()

    def _announce_last(self) -> None:
        """Write the final GOAWAY: streams above the highest one so far are not served."""
        self._ending = ENDING[self._ending]["finish"]
        # INVARIANT: never raised again; a client may have sent higher streams elsewhere since.
        self._final = self._highest
        self._sender.write_goaway(self._final, ErrorCode.NO_ERROR)

    def _on_goaway(self, _flags: int, stream_id: int, payload: bytes) -> None:
        """Check a GOAWAY frame of the client (RFC 9113, 6.8) and do nothing else: it closes the
        connection by itself. The frame costs credit. Raise Http2Error if it is on a stream or cut
        off.
        """
        self._charge(1)
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is cut")

    def _on_window_update(self, _flags: int, stream_id: int, payload: bytes) -> None:
        """Handle WINDOW_UPDATE (RFC 9113, 6.9): widen the send window of the connection (stream 0)
        or of a stream, and write what waited for it; ignored for a closed stream. Raise Http2Error
        for a wrong length, a stream that was never open, or used up credit; an increment that is 0
        or too large is an error of the stream or connection.
        """
        self._charge(1)
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE must have four bytes")
        increment = UINT32.unpack(payload)[0] & MAX_STREAM_ID
        if not stream_id:
            self._sender.widen(increment)
            return
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._sender.widen_stream(stream, increment)
        # On a closed stream it is not an error: it may have crossed our END_STREAM (RFC 9113, 5.1).
        elif stream_id > self._highest or not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of an idle stream")

    # Closed streams

    def _check_closed(self, stream_id: int, stream: Stream | None) -> None:
        """Raise an error for a frame of a stream that is not open, unless this side ended the
        stream.

        After the client's RST_STREAM it is a StreamError (RFC 9113, 5.1), after its END_STREAM and
        for a stream that was never open, or ended long ago, an Http2Error.
        """
        if stream is not None:
            raise Http2Error(ErrorCode.STREAM_CLOSED, "frame on a stream that the client has ended")
        if not stream_id or stream_id > self._highest or not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "frame on an idle stream")
        ignored = self._sender.closed.ignores(stream_id)
        self._charge(1)
        if ignored is None:
            # Nobody remembers it, so it ended long ago or by the client's own END_STREAM.
            raise Http2Error(ErrorCode.STREAM_CLOSED, "frame on a stream that is closed")
        if not ignored:
            raise StreamError(
                ErrorCode.STREAM_CLOSED, "frame on a stream that the client has reset"
            )

    def _reset_for(self, stream_id: int, error: StreamError) -> None:
        """Write RST_STREAM for an error. If the stream is open, also abort its route; that costs
        credit, and Http2Error is raised if it is used up.
        """
        stream = self.streams.get(stream_id)
        if stream is None:
            self._sender.write_reset(stream_id, error.code)
            self._sender.closed.remember(stream_id, ignored=True)
            return
        self._charge(self.limits.reset_cost)
        self._sender.reset(stream, error.code)
        stream.route.abort(stream)

    def _fail(self, error: Http2Error) -> None:
        """Write GOAWAY with the error, unless the client's preface is missing, and end the
        connection.
        """
        if self._receiving != "preface":
            self._sender.write_goaway(self._highest, error.code, error.message.encode())
        self.lost()

    def _count_request(self) -> None:
        self.requested = self._sender.now
        self._credit.earn()

    def _charge(self, cost: int) -> None:
        self._credit.charge(cost, self._sender.now)


def _unpad(payload: bytes) -> bytes:
    """Return a frame's payload without its padding; raise Http2Error if the padding is too long."""
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
