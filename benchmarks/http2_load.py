"""gRPC requests, many times over one HTTP/2 connection -> answers, with little work at this end.

A caller that costs as much as the server makes the server wait and wake for every call; a proxy
does not. So the frames are made once, and of the answers only what must be read is: where they
end. This is a load generator for benchmarks on trusted servers, not a client.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final

__all__ = ["Connection", "Parting"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_WINDOW: Final = 1 << 30
_INITIAL_WINDOW_SIZE: Final = 4


def _frame(kind: int, flags: int, payload: bytes, stream: int = 0) -> bytes:
    head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags))
    return head + struct.pack(">I", stream) + payload


def _literal(name: str, value: str) -> bytes:
    """A header field without indexing and without Huffman coding; both shorter than 127 bytes."""
    coded = [bytes([len(text)]) + text.encode() for text in (name, value)]
    return b"\0" + coded[0] + coded[1]


@dataclass(slots=True)
class Parting:
    """What became of the calls of one connection, by the numbers of their streams."""

    sent: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    last: int | None = None
    """The last stream that the server answers, by its GOAWAY; None without one."""

    @property
    def promised(self) -> set[int]:
        """The streams that must be answered: without a GOAWAY all, else those up to the last."""
        return {each for each in self.sent if self.last is None or each <= self.last}

    @property
    def refused(self) -> set[int]:
        """The streams that the server has not seen, as it says: they may be sent again."""
        return self.sent - self.promised


class Connection:
    """A connection to a server on a Unix socket, for unary calls of one method: of its requests in
    turn."""

    def __init__(self, path: Path, method: str, *requests: bytes) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.connect(str(path))
        settings = struct.pack(">HI", _INITIAL_WINDOW_SIZE, _WINDOW)
        window = struct.pack(">I", _WINDOW)
        self._socket.sendall(
            _PREFACE + _frame(_SETTINGS, 0, settings) + _frame(_WINDOW_UPDATE, 0, window)
        )
        headers = b"\x83\x86" + b"".join(  # :method POST, :scheme http
            [
                _literal(":path", method),
                _literal(":authority", "localhost"),
                _literal("te", "trailers"),
                _literal("content-type", "application/grpc"),
            ]
        )
        messages = [b"\0" + struct.pack(">I", len(each)) + each for each in requests]
        self._headers = _frame(_HEADERS, _END_HEADERS, headers)
        self._messages = cycle([_frame(_DATA, _END_STREAM, each) for each in messages])
        self._stream = -1
        self._received = b""

    def close(self) -> None:
        self._socket.close()

    def _request(self) -> bytes:
        self._stream += 2
        stream = struct.pack(">I", self._stream)
        headers, message = self._headers, next(self._messages)
        return headers[:5] + stream + headers[9:] + message[:5] + stream + message[9:]

    def run(self, calls: int, outstanding: int) -> bytes:
        """Make so many calls, and return the last answer; ConnectionError if one fails."""
        started = min(calls, outstanding)
        self._socket.sendall(b"".join([self._request() for _ in range(started)]))
        ended = answered = 0
        answer = b""
        while ended < calls:
            replies = []
            consumed = 0
            for kind, flags, payload, _ in self._frames():
                if kind == _DATA:
                    answered += 1
                    consumed += len(payload)
                    answer = payload[5:]
                elif kind == _HEADERS and flags & _END_STREAM:
                    ended += 1
                    if started < calls:
                        started += 1
                        replies.append(self._request())
                elif kind in (_SETTINGS, _PING) and not flags & _ACK:
                    replies.append(_frame(kind, _ACK, payload if kind == _PING else b""))
                elif kind == _GOAWAY:
                    raise ConnectionError(f"the server goes away: {payload[8:]!r}")
            if consumed:
                replies.append(_frame(_WINDOW_UPDATE, 0, struct.pack(">I", consumed)))
            if replies:
                self._socket.sendall(b"".join(replies))
        if answered != calls:
            raise ConnectionError(f"{calls - answered} of {calls} calls failed")
        return answer

    def run_until_goaway(self, is_done: Callable[[], bool], outstanding: int) -> Parting:
        """Make calls until `is_done`, or until the server goes away, and read what it still says.

        ConnectionError where the connection ends without a GOAWAY.
        """
        parting = Parting()
        self._socket.sendall(b"".join([self._request() for _ in range(outstanding)]))
        parting.sent = set(range(1, self._stream + 1, 2))
        while parting.answered != parting.promised:
            try:
                frames = self._frames()
            except ConnectionError:
                if parting.last is None:
                    raise
                break
            replies = []
            for kind, flags, payload, stream in frames:
                if kind == _HEADERS and flags & _END_STREAM:
                    parting.answered.add(stream)
                    if parting.last is None and not is_done():
                        replies.append(self._request())
                        parting.sent.add(self._stream)
                elif kind == _DATA:
                    window = struct.pack(">I", len(payload))
                    replies.append(_frame(_WINDOW_UPDATE, 0, window))
                elif kind in (_SETTINGS, _PING) and not flags & _ACK:
                    replies.append(_frame(kind, _ACK, payload if kind == _PING else b""))
                elif kind == _GOAWAY:
                    (last,) = struct.unpack_from(">I", payload)
                    parting.last = last if parting.last is None else min(last, parting.last)
            if replies:
                with contextlib.suppress(ConnectionError):
                    self._socket.sendall(b"".join(replies))
        return parting

    def _frames(self) -> list[tuple[int, int, bytes, int]]:
        """The whole frames that have come, after waiting for more bytes."""
        more = self._socket.recv(1 << 16)
        if not more:
            raise ConnectionError("the server closed the connection")
        received = self._received + more
        frames, at = [], 0
        while len(received) - at >= 9:
            end = at + 9 + int.from_bytes(received[at : at + 3], "big")
            if end > len(received):
                break
            (stream,) = struct.unpack_from(">I", received, at + 5)
            frames.append((received[at + 3], received[at + 4], received[at + 9 : end], stream))
            at = end
        self._received = received[at:]
        return frames
