"""Status codes of gRPC, and the header blocks that carry them."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from doorward.transport.http2.hpack import Header, encode

__all__ = [
    "OK_HEADERS",
    "OK_TRAILERS",
    "GrpcError",
    "Status",
    "http_refusal",
    "trailers",
    "trailers_only",
]


class Status(IntEnum):
    """The codes of `grpc-status`."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """A call ends with a status other than OK; `message` is sent to the client."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


MAX_MESSAGE: Final = 1_024
"""The largest status message in characters: it must fit into the client's header list."""

_CONTENT_TYPE: Final[Header] = (b"content-type", b"application/grpc")
_RESPONSE: Final[tuple[Header, ...]] = (
    (b":status", b"200"),
    _CONTENT_TYPE,
    # Only error responses carry it: a client needs it after UNIMPLEMENTED (compression.md).
    (b"grpc-accept-encoding", b"identity,gzip"),
)

OK_HEADERS: Final = encode(_RESPONSE[:2])
"""The header section of a response with a message."""
OK_TRAILERS: Final = encode([(b"grpc-status", b"0")])


def _status(status: Status, message: str) -> list[Header]:
    """Return the fields `grpc-status` and, unless the message is "", `grpc-message`.

    The message is cut to `MAX_MESSAGE` characters and percent-encoded.
    """
    fields = [(b"grpc-status", str(int(status)).encode())]
    if message:
        text = quote(message[:MAX_MESSAGE], safe=_SAFE)
        fields.append((b"grpc-message", text.encode()))
    return fields


# gRPC over HTTP/2, `Percent-Encoded`: space to tilde except the percent sign.
_SAFE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


@lru_cache(maxsize=256)
def trailers(status: Status, message: str) -> bytes:
    """Return the header block of trailers, for a response that had headers."""
    return encode(_status(status, message))


@lru_cache(maxsize=256)
def trailers_only(status: Status, message: str) -> bytes:
    """Return the header block of a response without a message, which ends the stream."""
    return encode([*_RESPONSE, *_status(status, message)])


@lru_cache(maxsize=16)
def http_refusal(code: int, status: Status, message: str) -> bytes:
    """Return the header block that answers a request that is not gRPC, with an HTTP status."""
    return encode([(b":status", str(code).encode()), _CONTENT_TYPE, *_status(status, message)])
