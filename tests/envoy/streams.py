"""Raw HTTP/2 to a gRPC server: streams that say nothing, and streams that are reset at once."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["Connection"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _RST_STREAM, _SETTINGS = 1, 3, 4
_END_HEADERS: Final = 4
_CANCEL: Final = b"\0\0\0\x08"


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags))
    return head + struct.pack(">I", stream) + payload


def _literal(name: str, value: str) -> bytes:
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


class Connection:
    """A client that begins calls of one method over a Unix socket, and never sends them."""

    def __init__(self, path: Path, method: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0))
        self._stream = -1
        self._fields = b"\x83\x86" + b"".join(  # :method POST, :scheme http
            [
                _literal(":path", method),
                _literal(":authority", "localhost"),
                _literal("te", "trailers"),
                _literal("content-type", "application/grpc"),
            ]
        )
        # What the server says must be read, or it waits.
        self.received = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while more := self._socket.recv(1 << 16):
                self.received += more

    def answers(self) -> int:
        """How many calls have ended by an answer of the server."""
        received, count = self.received, 0
        while len(received) >= 9:
            count += received[3] == _HEADERS and bool(received[4] & 1)
            received = received[9 + int.from_bytes(received[:3], "big") :]
        return count

    def _begin(self) -> bytes:
        self._stream += 2
        return _frame(_HEADERS, _END_HEADERS, self._stream, self._fields)

    def begin(self, streams: int) -> None:
        """Begin so many calls, and say no more."""
        self._socket.sendall(b"".join([self._begin() for _ in range(streams)]))

    def reset(self, streams: int) -> None:
        """Begin so many calls, and take each back at once. A server may end the connection."""
        for _ in range(0, streams, 1000):
            frames = [
                self._begin() + _frame(_RST_STREAM, 0, self._stream, _CANCEL) for _ in range(1000)
            ]
            self._socket.sendall(b"".join(frames))

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()
