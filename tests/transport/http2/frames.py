"""Frames of HTTP/2 as a client writes them, and as a test reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from doorward.transport.http2.codes import ErrorCode, Flag, FrameType
from doorward.transport.http2.connection import PREFACE, Connection
from doorward.transport.http2.headers import Request
from doorward.transport.http2.hpack import Header, encode
from doorward.transport.http2.limits import Limits
from doorward.transport.http2.streams import Stream

__all__ = [
    "GET",
    "POST",
    "Echo",
    "Frame",
    "connected",
    "data",
    "errors",
    "frame",
    "headers",
    "read",
    "reset",
    "settings",
    "window_update",
]

_HEAD: Final = Struct(">HBBBL")
POST: Final[list[Header]] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/echo"),
    (b":authority", b"a"),
]
GET: Final[list[Header]] = [(b":method", b"GET"), *POST[1:]]


@dataclass(frozen=True)
class Frame:
    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def headers(stream: int, fields: list[Header] | bytes = POST, flags: int = 0) -> bytes:
    block = fields if isinstance(fields, bytes) else encode(fields)
    return frame(FrameType.HEADERS, Flag.END_HEADERS | flags, stream, block)


def data(stream: int, payload: bytes = b"", *, end: bool = True) -> bytes:
    return frame(FrameType.DATA, Flag.END_STREAM if end else 0, stream, payload)


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(FrameType.SETTINGS, 0, 0, b"".join(Struct(">HL").pack(*each) for each in pairs))


def reset(stream: int, code: int = ErrorCode.CANCEL) -> bytes:
    return frame(FrameType.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def window_update(stream: int, increment: int) -> bytes:
    return frame(FrameType.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def read(written: bytes) -> Iterator[Frame]:
    """The frames that the server wrote."""
    while written:
        high, low, kind, flags, stream = _HEAD.unpack_from(written)
        end = 9 + (high << 8 | low)
        assert len(written) >= end
        yield Frame(kind, flags, stream, written[9:end])
        written = written[end:]


def errors(written: bytes) -> list[tuple[str, int, ErrorCode]]:
    """`connection` or `stream`, the stream, and the code of each error frame."""
    rows = []
    for each in read(written):
        if each.kind == FrameType.GOAWAY and (code := int.from_bytes(each.payload[4:8], "big")):
            rows.append(("connection", 0, ErrorCode(code)))
        if each.kind == FrameType.RST_STREAM:
            rows.append(("stream", each.stream, ErrorCode(int.from_bytes(each.payload, "big"))))
    return rows


class Echo:
    """An application that answers each request with its body, and notes what happened."""

    HEADERS: Final = encode([(b":status", b"200")])
    TRAILERS: Final = encode([(b"done", b"1")])

    def __init__(self) -> None:
        self.resolved: list[Request] = []
        self.answered: list[bytes] = []
        self.aborted: list[int] = []
        self.bodies: dict[int, bytes] = {}

    def resolve(self, request: Request) -> Echo:
        self.resolved.append(request)
        return self

    def open(self, stream: Stream) -> None:
        self.bodies[stream.id] = b""

    def receive(self, stream: Stream, data: bytes, ended: bool) -> None:
        self.bodies[stream.id] += data
        if ended:
            body = self.bodies[stream.id]
            self.answered.append(body)
            stream.sender.respond(stream, self.HEADERS, body, self.TRAILERS)

    def abort(self, stream: Stream) -> None:
        self.aborted.append(stream.id)


def connected(
    limits: Limits | None = None, *pairs: tuple[int, int], clock: list[float] | None = None
) -> tuple[Connection, Echo]:
    """A connection after both prefaces."""
    echo = Echo()
    connection = Connection(echo, limits, clock=(lambda: clock[0]) if clock else lambda: 0.0)
    connection.feed(PREFACE + settings(*pairs))
    return connection, echo
