"""Random sequences of frames, given to the core and to the package `h2`.

    python -m tests.transport.http2.differential [--seconds 60] [--seed 1]

A seed determines a sequence; more than half of the frames break a rule. It arrives frame by frame
and in random pieces. Both must return the bodies of the same complete requests and agree whether
the connection ends. Comments marked DIFFERENCE name the rules in which `h2` differs from RFC 9113.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
from tests.transport.http2.frames import (
    GET,
    POST,
    Echo,
    data,
    errors,
    frame,
    headers,
    reset,
    settings,
    window_update,
)

from doorward.transport.http2.codes import ErrorCode, Flag, FrameType, Setting
from doorward.transport.http2.connection import PREFACE, Connection
from doorward.transport.http2.hpack import Header, encode

__all__ = ["Outcome", "compare", "sequence"]

_BAD_FIELDS: Final[list[Header]] = [
    (b"X-Upper", b"a"),
    (b":method", b"GET"),
    (b":unknown", b"a"),
    (b"connection", b"close"),
    (b"transfer-encoding", b"chunked"),
    (b"te", b"gzip"),
    (b"x", b" a"),
    (b"x", b"a "),
    (b"content-length", b"3"),
    (b"content-length", b"x"),
    (b"host", b"other"),
    (b"", b"a"),
]
_GOOD_FIELDS: Final[list[Header]] = [
    (b"te", b"trailers"),
    (b"x", b""),
    (b"host", b"a"),
    (b"content-type", b"application/grpc"),
    (b"cookie", b"a=b"),
]


@dataclass
class Step:
    """One frame, and the stream that a stream error would concern."""

    wire: bytes
    stream: int = 0


@dataclass
class Outcome:
    """What a server made of a sequence."""

    bodies: list[bytes] = field(default_factory=list)
    """Bodies of complete requests, in the order of their ends."""
    error: ErrorCode | None = None
    """Of the connection."""
    streams: set[int] = field(default_factory=set)
    """Streams that ended with an error."""


def sequence(rng: random.Random) -> list[bytes]:
    """The frames of one connection, behind its preface."""
    maker = _Maker(rng)
    frames = [settings(*maker.good_settings())]
    wrong = rng.random() < 0.7
    for _ in range(rng.randint(1, 14)):
        frames.append(maker.bad() if wrong and rng.random() < 0.6 else maker.good())
    return frames


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.next = 1
        self.open: list[int] = []
        self.ended: list[int] = []

    def good_settings(self) -> list[tuple[int, int]]:
        pairs = [
            (Setting.INITIAL_WINDOW_SIZE, self.rng.choice([0, 5, 65_535, 2**31 - 1])),
            (Setting.MAX_FRAME_SIZE, self.rng.choice([16_384, 2**24 - 1])),
            (Setting.ENABLE_PUSH, self.rng.choice([0, 1])),
            (Setting.HEADER_TABLE_SIZE, self.rng.choice([0, 100, 4096])),
            (77, 5),
        ]
        return self.rng.sample(pairs, self.rng.randint(0, 3))

    def good(self) -> bytes:
        rng = self.rng
        actions: list[Callable[[], bytes]] = [
            self.request,
            self.request,
            self.begin,
            lambda: frame(FrameType.PING, rng.choice([0, 1]), 0, rng.randbytes(8)),
            lambda: settings(*self.good_settings()),
            lambda: frame(FrameType.SETTINGS, Flag.ACK),
            lambda: window_update(0, rng.randint(1, 1000)),
            lambda: frame(rng.randint(20, 255), rng.randint(0, 255), self.any(), b"abc"),
            lambda: frame(FrameType.PRIORITY, 0, self.next + 100, b"\0\0\0\x01\x05"),
        ]
        if self.open:
            actions += [self.more, self.more, self.finish, self.cancel, self.trailers]
        return rng.choice(actions)()

    def fields(self) -> list[Header]:
        rng = self.rng
        fields = [*(rng.choice([GET, POST])), *rng.sample(_GOOD_FIELDS, rng.randint(0, 3))]
        return fields

    def block(self, fields: list[Header]) -> bytes:
        """A block with or without entries for the dynamic table."""
        block = encode(fields)
        if self.rng.random() < 0.3:
            block += b"\x40\x03x-d" + bytes([1, self.rng.randint(97, 99)])
        return block

    def headers(self, stream: int, block: bytes, flags: int = 0) -> bytes:
        """In one frame or in several, with padding or priority."""
        rng = self.rng
        if rng.random() < 0.2:
            pad = rng.randint(0, 5)
            block, flags = bytes([pad]) + block + b"\0" * pad, flags | Flag.PADDED
        elif rng.random() < 0.2:
            return frame(FrameType.HEADERS, flags, stream, block[:3]) + frame(
                FrameType.CONTINUATION, Flag.END_HEADERS, stream, block[3:]
            )
        return frame(FrameType.HEADERS, flags | Flag.END_HEADERS, stream, block)

    def new(self) -> int:
        stream = self.next
        self.next += 2 * self.rng.choice([1, 1, 1, 3])
        return stream

    def request(self) -> bytes:
        stream = self.new()
        self.ended.append(stream)
        if self.rng.random() < 0.3:
            return self.headers(stream, self.block(self.fields()), Flag.END_STREAM)
        body = self.rng.randbytes(self.rng.randint(0, 20))
        return self.headers(stream, self.block(self.fields())) + data(stream, body)

    def begin(self) -> bytes:
        stream = self.new()
        self.open.append(stream)
        return self.headers(stream, self.block(self.fields()))

    def any(self) -> int:
        return self.rng.choice([*self.open, *self.ended, self.next, 0])

    def more(self) -> bytes:
        return data(self.rng.choice(self.open), self.rng.randbytes(3), end=False)

    def finish(self) -> bytes:
        return data(self._close(), b"end")

    def cancel(self) -> bytes:
        return reset(self._close())

    def trailers(self) -> bytes:
        return self.headers(self._close(), self.block([(b"t", b"1")]), Flag.END_STREAM)

    def _close(self) -> int:
        stream = self.rng.choice(self.open)
        self.open.remove(stream)
        self.ended.append(stream)
        return stream

    def bad(self) -> bytes:
        rng = self.rng
        stream = self.any()
        actions: list[Callable[[], bytes]] = [
            lambda: data(rng.choice([0, 2, self.next, stream]), b"x"),
            lambda: headers(rng.choice([0, 2, stream]), POST),
            lambda: headers(self.new(), self._malformed()),
            lambda: headers(self.new(), rng.randbytes(rng.randint(1, 10))),
            lambda: frame(FrameType.HEADERS, 0, self.new(), encode(POST)) + self.good(),
            lambda: frame(FrameType.DATA, Flag.PADDED, stream, rng.randbytes(2)),
            lambda: frame(
                FrameType.PRIORITY, 0, rng.choice([0, stream]), b"\0" * rng.choice([4, 6])
            ),
            lambda: frame(FrameType.RST_STREAM, 0, 0, b"\0" * 4),
            lambda: frame(FrameType.RST_STREAM, 0, 1, b"\0" * rng.choice([3, 5])),
            lambda: settings(rng.choice([(4, 2**31), (2, 2), (5, 16_383), (5, 2**24)])),
            lambda: frame(FrameType.SETTINGS, 0, rng.choice([0, 1]), b"\0" * rng.choice([5, 7])),
            lambda: frame(FrameType.SETTINGS, Flag.ACK, 0, b"\0" * 6),
            lambda: frame(FrameType.PUSH_PROMISE, 4, 1, b"\0\0\0\x02" + encode(POST)),
            lambda: frame(FrameType.PING, 0, rng.choice([0, 1]), b"\0" * rng.choice([7, 9])),
            lambda: frame(FrameType.GOAWAY, 0, 1, b"\0" * 8),
            lambda: window_update(rng.choice([0, *self.open]), 0),
            lambda: window_update(rng.choice([0, self.next]), 2**31 - 1),
            lambda: frame(FrameType.WINDOW_UPDATE, 0, 0, b"\0" * 3),
            lambda: frame(FrameType.CONTINUATION, 4, stream, encode(POST)),
            lambda: frame(0, 0, stream, b"x" * 16_385),
        ]
        return rng.choice(actions)()

    def _malformed(self) -> list[Header]:
        rng = self.rng
        fields = self.fields()
        how = rng.randint(0, 2)
        if how == 0:
            del fields[rng.randint(0, 2)]
        elif how == 1:
            fields.append(rng.choice(_BAD_FIELDS))
        else:
            fields.insert(0, (b"x", b""))
        return fields


def pieces(wire: bytes, rng: random.Random) -> Iterator[bytes]:
    """The bytes as they could arrive."""
    position = 0
    while position < len(wire):
        size = rng.choice([1, 3, 9, 30, 1000, len(wire)])
        yield wire[position : position + size]
        position += size


def ours(wire: list[bytes]) -> Outcome:
    """What the core makes of it."""
    echo = Echo()
    connection = Connection(echo, clock=lambda: 0.0)
    outcome = Outcome()
    for piece in wire:
        for kind, stream, code in errors(connection.feed(piece)):
            if kind == "connection":
                outcome.error = code
            else:
                outcome.streams.add(stream)
        if connection.closed:
            break
    outcome.bodies = echo.answered
    return outcome


def theirs(wire: list[bytes]) -> Outcome:
    """What `h2` makes of it, with a response to each complete request."""
    config = h2.config.H2Configuration(client_side=False, header_encoding=None)
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    outcome = Outcome()
    bodies: dict[int, bytes] = {}
    for piece in wire:
        try:
            events = connection.receive_data(piece)
        except h2.exceptions.ProtocolError as error:
            outcome.error = ErrorCode(int(error.error_code))
            return outcome
        for event in events:
            if isinstance(event, h2.events.RequestReceived):
                bodies[event.stream_id] = b""
            elif isinstance(event, h2.events.DataReceived):
                bodies[event.stream_id] += event.data
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                if not event.remote_reset:
                    outcome.streams.add(event.stream_id)
                bodies.pop(event.stream_id, None)
            elif isinstance(event, h2.events.StreamEnded) and event.stream_id in bodies:
                outcome.bodies.append(bodies.pop(event.stream_id))
                connection.send_headers(event.stream_id, [(b":status", b"200")], end_stream=True)
    return outcome


def compare(seed: int) -> str | None:
    """None where both agree on the sequence of `seed`; otherwise what each made of it."""
    rng = random.Random(seed)
    frames = sequence(rng)
    wire = [PREFACE, *frames]
    cut = list(pieces(b"".join(wire), rng))
    whole, split = ours(wire), ours(cut)
    # A stream error in the same bytes as the end of the request comes before its answer.
    has_stream_errors = bool(whole.streams or split.streams)
    if whole.error != split.error or not (has_stream_errors or _same_bodies(whole, split)):
        return f"seed {seed}: frame by frame {whole}, in pieces {split}"
    reference = theirs(wire)
    if _agree(whole, reference, frames):
        return None
    return f"seed {seed}: ours {whole}, h2 {reference}"


def _agree(mine: Outcome, other: Outcome, frames: list[bytes]) -> bool:
    if mine.error is None and other.error is None:
        return mine.bodies == other.bodies and mine.streams >= other.streams
    if mine.error is not None and other.error is not None:
        # Which of several broken rules is named differs; both end the connection.
        return _same_bodies(mine, other)
    if mine.error == ErrorCode.STREAM_CLOSED:
        # DIFFERENCE: a frame of a stream that the client has ended is a connection error (RFC 9113,
        # 5.1); `h2` resets the stream.
        return _same_bodies(mine, other)
    if other.error is not None and mine.streams:
        # DIFFERENCE: a malformed request is a stream error (RFC 9113, 8.1.1); `h2` ends the
        # connection.
        return _same_bodies(mine, other)
    return False


def _same_bodies(one: Outcome, other: Outcome) -> bool:
    """Equal; where the connection ended, the last ones may be missing on one side."""
    size = min(len(one.bodies), len(other.bodies))
    if one.error is None and other.error is None:
        size = max(len(one.bodies), len(other.bodies))
    return one.bodies[:size] == other.bodies[:size]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seed, end, differences = options.seed, time.monotonic() + options.seconds, 0
    while time.monotonic() < end:
        difference = compare(seed)
        if difference is not None:
            sys.stdout.write(difference + "\n")
            differences += 1
            if differences >= 10:
                break
        seed += 1
    sys.stdout.write(f"{seed - options.seed} sequences, {differences} differences\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
