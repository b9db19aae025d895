"""Length-prefixed messages: what arrived in pieces becomes messages, bounded and decompressed.

A message is a byte that says whether it is compressed, four bytes of length, and that many bytes.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

from doorward.transport.grpc.status import GrpcError, Status

__all__ = ["PREFIX", "Budget", "Messages", "frame_message", "to_plain"]

PREFIX: Final = Struct(">BL")
"""The five bytes before a message: a flag that is 1 if it is compressed, and its length."""
# 16 makes zlib expect gzip's header and check its CRC; without it only zlib's is accepted.
_GZIP: Final = 16 + zlib.MAX_WBITS


def frame_message(message: bytes) -> bytes:
    """Return `message` with its prefix, uncompressed."""
    return PREFIX.pack(0, len(message)) + message


class Budget:
    """A limit on the bytes that the messages of all connections may take together."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        """Reserve `size` bytes; raise GrpcError RESOURCE_EXHAUSTED, and reserve nothing, if that
        would exceed the limit.
        """
        if self.used + size > self.limit:
            raise GrpcError(
                Status.RESOURCE_EXHAUSTED,
                f"the messages of all calls take more than {self.limit} bytes: try again later",
            )
        self.used += size

    def give(self, size: int) -> None:
        """Release `size` reserved bytes."""
        self.used -= size


class Messages:
    """Splits the data of one stream into its length-prefixed messages."""

    __slots__ = ("_budget", "_buffer", "_encoding", "_limit", "_needed")

    def __init__(self, limit: int, encoding: bytes, budget: Budget) -> None:
        """Begin to read the messages of one stream. `limit` is the largest message in bytes,
        `encoding` the value of `grpc-encoding`, `budget` is shared by all streams.
        """
        self._buffer = bytearray()
        self._limit = limit
        self._encoding = encoding
        self._budget = budget
        self._needed = PREFIX.size

    @property
    def is_partial(self) -> bool:
        """True if part of a message has arrived."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that `data` completes, decompressed; [] if none is complete.

        The bytes of a returned message no longer count in the shared budget: who keeps the message
        has to take them. Raise GrpcError if a message is too large, cannot be decompressed, or
        exceeds the budget.
        """
        # Before the bytes are kept: what the budget refuses takes no memory.
        self._budget.take(len(data))
        buffer = self._buffer
        buffer += data
        messages: list[bytes] = []
        while len(buffer) >= self._needed:
            compressed, length = PREFIX.unpack_from(buffer)
            # By the prefix, before the rest arrives: its bytes would be kept for nothing.
            if length > self._limit:
                raise GrpcError(
                    Status.RESOURCE_EXHAUSTED,
                    f"message of {length} bytes is larger than the limit of {self._limit} bytes",
                )
            self._needed = PREFIX.size + length
            if len(buffer) < self._needed:
                break
            message = bytes(buffer[PREFIX.size : self._needed])
            del buffer[: self._needed]
            self._budget.give(self._needed)
            self._needed = PREFIX.size
            messages.append(to_plain(message, compressed, self._encoding, self._limit))
        return messages

    def close(self) -> None:
        """Drop an incomplete message and release its bytes."""
        self._budget.give(len(self._buffer))
        self._buffer.clear()


def to_plain(message: bytes, flag: int, encoding: bytes, limit: int) -> bytes:
    """Return a message: unchanged, whatever its size, if the `flag` of its prefix is 0, and
    decompressed by gzip if the flag is 1.

    Raise GrpcError for another flag. For a compressed message, raise it for an `encoding` other
    than `gzip`, malformed gzip, or more than `limit` bytes after decompression.
    """
    if not flag:
        return message
    # Only the lowest bit has a meaning; another value breaks the protocol.
    if flag != 1:
        raise GrpcError(Status.INTERNAL, "the compression flag of a gRPC message must be 0 or 1")
    # gRPC, compression.md: the flag without an encoding is INTERNAL, not UNIMPLEMENTED.
    if encoding != b"gzip":
        raise GrpcError(
            Status.INTERNAL, "compressed gRPC message without the header `grpc-encoding: gzip`"
        )
    inflater = zlib.decompressobj(_GZIP)
    try:
        # One byte more than is allowed tells a bomb from a message of just the limit.
        text = inflater.decompress(message, limit + 1)
    except zlib.error:
        raise GrpcError(Status.INTERNAL, "gRPC message is not valid gzip") from None
    if len(text) > limit:
        raise GrpcError(
            Status.RESOURCE_EXHAUSTED, f"message is larger than the limit of {limit} bytes"
        )
    # Cut off, or a second member behind the first: another reader could add it to the message.
    if not inflater.eof or inflater.unused_data:
        raise GrpcError(Status.INTERNAL, "gRPC message is not valid gzip")
    return text
