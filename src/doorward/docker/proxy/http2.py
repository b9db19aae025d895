"""BuildKit's clients speak HTTP/2: frames are read, and only calls of its methods pass.

    frames -> header blocks -> method -> decided -> block of our own -> daemon

A daemon of version 29 answers its whole API over HTTP/2, so that a connection which is only carried
would give it away. Each request is decided by the name of its method; a refused one is answered
with a status of gRPC, and its frames reach nobody. Header blocks of the client are all decoded,
since they share a table; what goes to the daemon is encoded without one. Frames of the daemon pass
as they are.

What is built stands in the request of a method that builds. Its bytes are held until all of it is
there and was decided; its stream is open at the daemon by then, whose streams have to be opened in
order, and is reset where it is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from doorward.docker.proxy.wire import CutError, Wire
from doorward.docker.request.solves import SOLVES
from doorward.transport.http2.codes import FRAME_HEAD, ErrorCode, Flag, FrameType
from doorward.transport.http2.headers import (
    MalformedError,
    Request,
    check_trailers,
    to_request,
)
from doorward.transport.http2.hpack import Decoder, Header, HpackError, encode

__all__ = [
    "MOST_SOLVE",
    "Decide",
    "Frame",
    "Frames",
    "Relay",
    "is_preface",
    "method_of",
    "read_preface",
]

PREFACE_REST: Final = b"SM\r\n\r\n"
"""What follows the first lines of the preface, which look like the head of HTTP/1."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\n" + PREFACE_REST
MOST_FRAME: Final = 1 << 20
"""Bytes of a frame, as Go's server accepts them."""
MOST_BLOCK: Final = 1 << 16
"""Compressed bytes of a header block, and its size when decoded."""
MOST_PARTS: Final = 16
"""Frames of a header block: an endless sequence of empty ones adds no bytes."""
MOST_STREAMS: Final = 1024
"""Open streams of one connection."""
_OURS: Final = 16_384
"""Bytes of a frame that every peer accepts."""
# SETTINGS_HEADER_TABLE_SIZE as both sides begin with it (RFC 9113, 6.5.2).
_TABLE: Final = 4096
_METHOD: Final = re.compile(
    rb"/(?:moby\.buildkit\.v1\.(?:Control|frontend\.LLBBridge)|grpc\.health\.v1\.Health)/[A-Za-z]{1,64}"
    rb"|/containerd\.services\.content\.v1\.Content/(?:Info|Read)"
)
"""The methods that are decided. Clients read what is known of a build they made by its digest, from
BuildKit's store of content."""
_DENIED: Final = b"7"
"""PERMISSION_DENIED of gRPC."""
_SIZE: Final = Struct(">L")
_FIRST_LINES: Final = b"PRI * HTTP/2.0"

MOST_SOLVE: Final = 512 * 1024
"""Bytes of a request that builds: below the credit that a daemon gives a stream by itself."""
MOST_PENDING: Final = 1 << 20
"""The same for all streams of one connection."""
_PREFIX: Final = Struct(">BL")
"""Of a message: whether it is compressed, and its length."""

Decide: TypeAlias = Callable[[bytes, bytes | None], Awaitable[str]]
"""Returns the reason to refuse a method, by its name or also by its request; "" if it may be
called."""


def is_preface(content: bytes) -> bool:
    """Return True if `content`, which was read as the head of a request, is the first line of the
    preface of HTTP/2.
    """
    return content == _FIRST_LINES


async def read_preface(wire: Wire, *, with_head: bool) -> None:
    """Read the client's preface of HTTP/2 (RFC 9113, 3.4), without its head unless `with_head`.

    Raise CutError for other bytes or the end of the stream.
    """
    rest = PREFACE if with_head else PREFACE_REST
    while len(wire.data) < len(rest):
        if not rest.startswith(wire.data) or not await wire.wait():
            raise CutError
    if await wire.take(len(rest)) != rest:
        raise CutError


class Frame(NamedTuple):
    """One frame of HTTP/2: type, flags, stream number and payload (RFC 9113, 4.1)."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def __bytes__(self) -> bytes:
        size = len(self.payload)
        head = FRAME_HEAD.pack(size >> 8, size & 0xFF, self.kind, self.flags, self.stream)
        return head + self.payload


class Frames:
    """Reads the frames of HTTP/2 that arrive on a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def next(self) -> Frame | None:
        """Read the next frame; None if the stream has ended between two frames.

        Raise CutError for a frame of more than `MOST_FRAME` bytes and for one that is cut.
        """
        if not self._wire.data and not await self._wire.wait():
            return None
        high, low, kind, flags, stream = FRAME_HEAD.unpack(await self._exactly(FRAME_HEAD.size))
        size = high << 8 | low
        if size > MOST_FRAME:
            raise CutError
        # RFC 9113, 4.1: the first bit of the number is reserved, and ignored.
        return Frame(kind, flags, stream & 0x7FFFFFFF, await self._exactly(size))

    async def _exactly(self, size: int) -> bytes:
        """Read and return the next `size` bytes of the connection; CutError if it ends before."""
        pieces = []
        while size:
            piece = await self._wire.take(size)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


class _Pending:
    """A request for a build whose body is held back until it is complete and can be judged."""

    __slots__ = ("content", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.content = bytearray()


class Relay:
    """Carries one connection between a client and the daemon; without one, refuses every call."""

    def __init__(self, client: Wire, daemon: Wire | None, decide: Decide) -> None:
        self._client = client
        self._daemon = daemon
        self._decide = decide
        self._decoder = Decoder(_TABLE)
        self._streams: set[int] = set()
        """Numbers of the streams whose call was allowed and has not ended."""
        self._pending: dict[int, _Pending] = {}
        """The streams among them whose request is not complete yet."""
        self._highest = 0

    async def run(self) -> None:
        """Relay frames until one side ends, or the client sends a malformed frame; the client's
        preface must have been read.

        Without a daemon, each call of the client is refused, and a malformed frame raises CutError.
        """
        if self._daemon is None:
            self._client.write(bytes(Frame(FrameType.SETTINGS, 0, 0, b"")))
            await self._relay_client()
            return
        # Our own; the client's SETTINGS follow as its first frame and are passed as they are.
        self._daemon.write(PREFACE)
        down = self._client.loop.create_task(self._relay_daemon(self._daemon))
        up = self._client.loop.create_task(self._relay_client())
        try:
            # Only streams of HTTP/2 can be half-closed: the end of one side ends the connection.
            await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (down, up):
                task.cancel()
                with suppress(asyncio.CancelledError, CutError):
                    await task

    # From the client

    async def _relay_client(self) -> None:
        """Relay the client's frames to the daemon until the client ends, waiting while either side
        reads slowly; calls are judged on the way. Raise CutError for a frame or headers that are
        malformed or not allowed.
        """
        frames = Frames(self._client)
        try:
            while (frame := await frames.next()) is not None:
                await self._relay_client_frame(frame, frames)
                if self._daemon is not None:
                    await self._daemon.drained()
                await self._client.drained()
        except (HpackError, MalformedError):
            raise CutError from None

    async def _relay_client_frame(self, frame: Frame, frames: Frames) -> None:
        """Handle one frame of the client. The frames of calls are judged, those that control a
        permitted call or the connection are relayed, and all others are dropped, such as priorities
        and frames of refused calls. More frames are read from `frames` if headers continue in them.

        Raise CutError for a malformed frame, a CONTINUATION without HEADERS and a PUSH_PROMISE;
        HpackError or MalformedError for invalid headers.
        """
        kind = frame.kind
        if kind == FrameType.HEADERS:
            await self._handle_headers(frame, frames)
        elif kind == FrameType.DATA:
            await self._handle_data(frame)
        elif kind in (FrameType.SETTINGS, FrameType.PING) and frame.stream == 0:
            self._relay_control(frame)
        elif kind == FrameType.WINDOW_UPDATE and frame.stream == 0:
            self._send(frame)
        elif kind in (FrameType.WINDOW_UPDATE, FrameType.RST_STREAM):
            if frame.stream in self._streams:
                self._send(frame)
            # Forgotten even where it was not passed: its stream waits for nothing more.
            if kind == FrameType.RST_STREAM:
                self._forget(frame.stream)
        elif kind == FrameType.GOAWAY:
            self._send(frame)
        elif kind in (FrameType.CONTINUATION, FrameType.PUSH_PROMISE):
            raise CutError
        # Frames of priority, and of kinds that are not known, say nothing that must pass.

    def _relay_control(self, frame: Frame) -> None:
        """Relay a frame of settings or a ping to the daemon; acknowledge it here if there is no
        daemon.
        """
        if self._daemon is not None:
            self._send(frame)
        elif not frame.flags & Flag.ACK:
            payload = frame.payload if frame.kind == FrameType.PING else b""
            self._client.write(bytes(Frame(frame.kind, Flag.ACK, 0, payload)))

    def _forget(self, stream: int) -> None:
        """Forget a stream, and widen the client's window of the connection by what was held of its
        request.
        """
        self._streams.discard(stream)
        pending = self._pending.pop(stream, None)
        if pending is not None:
            self._give_credit(len(pending.content))

    def _give_credit(self, size: int) -> None:
        """Widen the client's window of the connection by bytes that the daemon never sees, and so
        would never give back.
        """
        if size:
            self._client.write(bytes(Frame(FrameType.WINDOW_UPDATE, 0, 0, _SIZE.pack(size))))

    async def _handle_data(self, frame: Frame) -> None:
        """Handle a DATA frame of the client: relay it if its stream is allowed, hold it if its
        request is still to be judged. Drop it if the stream was refused, and enlarge the client's
        flow-control window by its size, as the daemon would.
        """
        pending = self._pending.get(frame.stream)
        if pending is not None:
            await self._collect_request(frame, pending)
            return
        if frame.stream not in self._streams:
            self._give_credit(len(frame.payload))
            return
        self._send(frame)

    async def _collect_request(self, frame: Frame, pending: _Pending) -> None:
        """Add a DATA frame to a build request that waits to be judged. Once its message is
        complete, judge it, and send it to the daemon if it is allowed. A denied, compressed or
        oversized message is answered with the reason, and its stream at the daemon reset.

        Raise CutError for padding, a truncated message, a second message, or more than
        `MOST_PENDING` bytes in all pending requests.
        """
        if frame.flags & Flag.PADDED:
            raise CutError  # its client would miss the credit for what is not sent on
        pending.content += frame.payload
        ends = bool(frame.flags & Flag.END_STREAM)
        is_complete = len(pending.content) >= _PREFIX.size
        compressed, size = _PREFIX.unpack_from(pending.content) if is_complete else (0, MOST_SOLVE)
        if sum([len(each.content) for each in self._pending.values()]) > MOST_PENDING:
            raise CutError
        if compressed or size > MOST_SOLVE:
            self._stop(frame.stream, pending, "the request of BuildKit cannot be read")
            return
        if len(pending.content) < _PREFIX.size + size:
            if ends:
                raise CutError
            return
        if len(pending.content) > _PREFIX.size + size:
            raise CutError  # a second message, where there is one
        del self._pending[frame.stream]
        message = bytes(pending.content[_PREFIX.size :])
        if reason := await self._decide(pending.request.path, message):
            self._stop(frame.stream, pending, reason)
            return
        content = bytes(pending.content)
        # Without counting credit: `MOST_SOLVE` is less than the daemon grants each stream.
        for at in range(0, len(content), _OURS):
            is_last = ends and at + _OURS >= len(content)
            flags = Flag.END_STREAM if is_last else 0
            self._send(Frame(FrameType.DATA, flags, frame.stream, content[at : at + _OURS]))

    def _stop(self, stream: int, pending: _Pending, reason: str) -> None:
        """Refuse a request whose stream is already open at the daemon: reset the stream there, and
        answer the client with `reason`.
        """
        # Before `_forget`, which gives the credit of those that still wait for the rest.
        self._pending.pop(stream, None)
        self._give_credit(len(pending.content))
        self._forget(stream)
        code = _SIZE.pack(ErrorCode.CANCEL)
        self._send(Frame(FrameType.RST_STREAM, 0, stream, code))
        self._refuse(stream, pending.request, reason)

    async def _handle_headers(self, frame: Frame, frames: Frames) -> None:
        """Read the complete header block that a frame begins, and judge its call or relay its
        trailers.

        Raise CutError if a continuation is missing, if the block is too large, if there are too
        many streams, or if the stream's number is even (RFC 9113, 5.1.1); HpackError or
        MalformedError for invalid headers.
        """
        block = _without_padding(frame)
        flags, parts = frame.flags, 1
        while not flags & Flag.END_HEADERS:
            more = await frames.next()
            # RFC 9113, 6.10: nothing may come between the frames of a block.
            if more is None or more.kind != FrameType.CONTINUATION or more.stream != frame.stream:
                raise CutError
            block += more.payload
            flags, parts = more.flags, parts + 1
            if len(block) > MOST_BLOCK or parts > MOST_PARTS:
                raise CutError
        # INVARIANT: every block is decoded, also of streams that are refused: one table for all.
        headers, size = self._decoder.decode(block, MOST_BLOCK)
        if size > MOST_BLOCK or not frame.stream & 1:
            raise CutError
        # RFC 9113, 5.1.1: the numbers of new streams only grow, so this one was opened before.
        if frame.stream <= self._highest:
            self._relay_trailers(frame, headers)
            return
        self._highest = frame.stream
        if len(self._streams) >= MOST_STREAMS:
            raise CutError
        await self._handle_request(frame, to_request(headers))

    def _relay_trailers(self, frame: Frame, headers: list[Header]) -> None:
        """Relay the trailers of a judged stream if they end it; drop others.

        Raise CutError if the stream still waits for its verdict, MalformedError for invalid
        trailers.
        """
        check_trailers(headers)
        # The message is not decided yet, and trailers would end it at the daemon.
        if frame.stream in self._pending:
            raise CutError
        if frame.stream in self._streams and frame.flags & Flag.END_STREAM:
            self._send_block(frame, headers)

    async def _handle_request(self, frame: Frame, request: Request) -> None:
        """Judge a request and relay its headers to the daemon, or answer the client with a refusal.

        The headers of a build request are relayed at once; its body is held in `self._pending`
        until it has been judged too. Raise CutError if such a request has no body.
        """
        reason = await self._why_refused(request)
        if self._daemon is None:
            reason = reason or "the Docker daemon cannot be reached"
        if reason:
            self._refuse(frame.stream, request, reason)
            return
        self._streams.add(frame.stream)
        if request.path.decode("latin-1") in SOLVES:
            if frame.flags & Flag.END_STREAM:
                raise CutError
            self._pending[frame.stream] = _Pending(request)
        block = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", request.path),
            # Written by us, as in HTTP/1: the daemon must not see a name of the client's choice.
            (b":authority", b"docker"),
            *((name, value) for name, value in request.fields if name != b"host"),
        ]  # fmt: skip
        self._send_block(frame, block)

    async def _why_refused(self, request: Request) -> str:
        """Return why a request is refused, "" if it is allowed; only calls of gRPC methods may
        pass.
        """
        content_type = request.get(b"content-type") or b""
        # Go's server hands every other type to the engine API, past what is decided here.
        is_call = request.method == b"POST" and content_type.split(b";")[0].split(b"+")[0] == (
            b"application/grpc"
        )
        if not is_call or not _METHOD.fullmatch(request.path):
            return "over HTTP/2 only BuildKit's methods are served"
        return await self._decide(request.path, None)

    def _refuse(self, stream: int, request: Request, reason: str) -> None:
        """Refuse a request of the client with `reason`: as a status of gRPC, or as status 403 if it
        is not gRPC. This ends the stream.
        """
        if (request.get(b"content-type") or b"").startswith(b"application/grpc"):
            message = quote(reason, safe=" ").encode()
            fields = [
                (b":status", b"200"), (b"content-type", b"application/grpc"),
                (b"grpc-status", _DENIED), (b"grpc-message", message),
            ]  # fmt: skip
        else:
            fields = [(b":status", b"403")]
        flags = Flag.END_HEADERS | Flag.END_STREAM
        self._client.write(bytes(Frame(FrameType.HEADERS, flags, stream, encode(fields))))
        # RFC 9113, 8.1: after a complete response, this asks the client not to send the rest.
        code = _SIZE.pack(ErrorCode.NO_ERROR)
        self._client.write(bytes(Frame(FrameType.RST_STREAM, 0, stream, code)))

    def _send_block(self, frame: Frame, headers: list[Header]) -> None:
        """Encode headers again and send them to the daemon, in HEADERS and CONTINUATION frames;
        `frame` gives the stream and its end.
        """
        block = encode(headers)
        flags = frame.flags & Flag.END_STREAM
        kind: int = FrameType.HEADERS
        # The daemon's limit is not known yet: 16,384 is what every peer accepts (RFC 9113, 6.5.2).
        while len(block) > _OURS:
            self._send(Frame(kind, flags, frame.stream, block[:_OURS]))
            block, kind, flags = block[_OURS:], FrameType.CONTINUATION, 0
        self._send(Frame(kind, flags | Flag.END_HEADERS, frame.stream, block))

    def _send(self, frame: Frame) -> None:
        """Send a frame to the daemon; nothing happens while there is no connection to it."""
        if self._daemon is not None:
            self._daemon.write(bytes(frame))

    # From the daemon

    async def _relay_daemon(self, daemon: Wire) -> None:
        """Relay frames of the daemon until it ends, and forget streams that it closes."""
        frames = Frames(daemon)
        while (frame := await frames.next()) is not None:
            self._client.write(bytes(frame))
            if frame.kind == FrameType.RST_STREAM or (
                frame.kind in (FrameType.DATA, FrameType.HEADERS) and frame.flags & Flag.END_STREAM
            ):
                self._forget(frame.stream)
            await self._client.drained()


def _without_padding(frame: Frame) -> bytes:
    """Return the header block of a HEADERS frame without padding and priority (RFC 9113, 6.2).

    Raise CutError if the frame is shorter than these say.
    """
    block = frame.payload
    if frame.flags & Flag.PADDED:
        if not block or block[0] >= len(block):
            raise CutError
        block = block[1 : len(block) - block[0]]
    if frame.flags & Flag.PRIORITY:
        if len(block) < 5:
            raise CutError
        block = block[5:]
    return block


_ACTIONS: Final = {b"Prune": ("POST", "/build/prune")}


def method_of(path: bytes) -> tuple[str, str]:
    """Return the method and path of the HTTP/1 request that stands for a gRPC method of BuildKit in
    policies: its action decides on the call. `("POST", "/build/prune")` for `Prune` of `Control`,
    `("POST", "/grpc")` for all other methods.
    """
    name = path.rpartition(b"/")[2]
    is_control = path.startswith(b"/moby.buildkit.v1.Control/")
    return _ACTIONS.get(name, ("POST", "/grpc")) if is_control else ("POST", "/grpc")
