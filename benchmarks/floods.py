"""Hostile HTTP/2 clients beside an honest one -> how long the honest one's Checks take.

    python -m benchmarks.floods [--seconds 8] [--connections 1,8,50] [--json]
                                [--markdown docs/reliability.md]

`doorward run` decides on Checks at a Unix socket. One client sends a Check every 10 ms over one
connection. Beside it another process sends, over a number of connections and as fast as the server
reads, requests that are valid and cost more to read than to send: header blocks in Huffman codes of
28 bits, blocks that replace the dynamic table some hundred times, calls of methods that do not
exist. No request is equal to the one before it, so that none is answered from the cache of header
blocks. Connections that the server ends are opened again at once.

A Check that takes longer than `PATIENCE` counts as not answered. The client that floods and the one
that checks share the machine with the server: on two cores the figures are upper bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.cases import CASES
from benchmarks.check_server import METHOD, request_bytes
from benchmarks.http2_load import Connection
from benchmarks.page import put
from benchmarks.served import cpu_ns, doorward, started, write_policies

__all__ = ["FLOODS", "Flood", "Row", "table"]

PACE: Final = 0.01
"""Seconds from one Check to the next."""
PATIENCE: Final = 10.0
"""Seconds after which a Check counts as not answered: `http2_load` waits that long."""
WARM_UP: Final = 1.0
BATCH: Final = 1 << 18
"""Bytes, at least, that a connection gets ready at a time: what one read of the server takes."""
MAX_FRAME: Final = 16_384
LAST_STREAM: Final = (1 << 31) - 1

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_HEADERS, _CONTINUATION = 1, 9
_END_STREAM, _END_HEADERS = 1, 4
_POST_HTTP: Final = b"\x83\x86"
_CODE_OF_2: Final = 0xFFFFFE2
"""The Huffman code of the octet 2: 28 bits, which a value may hold and no cheaper octet needs."""


def literal(name: bytes, value: bytes, *, indexed: bool = False) -> bytes:
    """A field of less than 127 bytes without Huffman codes; `indexed` into the dynamic table."""
    first = b"\x40" if indexed else b"\0"
    return first + bytes((len(name),)) + name + bytes((len(value),)) + value


def request_block(path: bytes, fields: bytes) -> bytes:
    """The header block of a gRPC call."""
    call = literal(b":path", path) + literal(b":authority", b"localhost")
    return _POST_HTTP + call + literal(b"content-type", b"application/grpc") + fields


def huffman_field(octets: int) -> bytes:
    """A field whose value is this even number of octets, in codes of 28 bits."""
    bits = 0
    for _ in range(octets):
        bits = bits << 28 | _CODE_OF_2
    coded = bits.to_bytes(octets * 28 // 8)
    length, encoded = len(coded) - 0x7F, bytearray(b"\xff")
    while length >= 0x80:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return b"\0\1x" + bytes(encoded) + coded


_LONG_FIELD: Final = huffman_field(9_200)
_ENTRIES: Final = b"".join(literal(b"x", b"", indexed=True) for _ in range(480))

Flood = Callable[[int], bytes]
"""A number to a header block that has not been sent before."""
FLOODS: Final[dict[str, Flood]] = {
    "Huffman codes": lambda n: request_block(
        METHOD.encode(), literal(b"n", b"%d" % n) + _LONG_FIELD
    ),
    "dynamic table": lambda n: request_block(METHOD.encode(), literal(b"n", b"%d" % n) + _ENTRIES),
    "unknown methods": lambda n: request_block(b"/none.Such/%d" % n, b""),
}


def frames(stream: int, block: bytes) -> bytes:
    """A request without a body: HEADERS, and CONTINUATION where the block is long."""
    kind, written = _HEADERS, b""
    for position in range(0, len(block), MAX_FRAME):
        piece = block[position : position + MAX_FRAME]
        flags = _END_STREAM if kind == _HEADERS else 0
        if position + MAX_FRAME >= len(block):
            flags |= _END_HEADERS
        size = struct.pack(">I", len(piece))[1:]
        written += size + bytes((kind, flags)) + struct.pack(">I", stream) + piece
        kind = _CONTINUATION
    return written


class HostileConnection:
    """One connection that sends without a pause and reads without a look."""

    def __init__(self, path: str, flood: Flood) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.setblocking(False)
        self._flood = flood
        self._stream = -1
        self._unsent = memoryview(_PREFACE)
        self.requests = 0

    def write(self) -> None:
        """Send what the kernel takes; OSError where the server has ended the connection."""
        if not self._unsent:
            self._unsent = memoryview(self._make())
        with suppress(BlockingIOError):
            self._unsent = self._unsent[self.socket.send(self._unsent) :]

    def _make(self) -> bytes:
        batch: list[bytes] = []
        size = 0
        while size < BATCH and self._stream < LAST_STREAM:
            self._stream += 2
            batch.append(frames(self._stream, self._flood(self._stream)))
            size += len(batch[-1])
        self.requests += len(batch)
        return b"".join(batch)

    def read(self) -> None:
        """Drop what the server says; OSError where it has ended the connection."""
        with suppress(BlockingIOError):
            if not self.socket.recv(1 << 16):
                raise ConnectionError("the server closed the connection")


def send_flood(path: str, kind: str, connections: int) -> None:
    """Flood until standard input ends; print how many requests were made and connections ended."""
    requests = ended = 0
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)

    def connect() -> None:
        each = HostileConnection(path, FLOODS[kind])
        selector.register(each.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, each)

    for _ in range(connections):
        connect()
    print("ready", flush=True)
    while True:
        for key, events in selector.select():
            each = key.data
            if each is None:
                print(json.dumps({"requests": requests, "ended": ended}), flush=True)
                return
            try:
                if events & selectors.EVENT_READ:
                    each.read()
                if events & selectors.EVENT_WRITE:
                    before = each.requests
                    each.write()
                    requests += each.requests - before
            except OSError:
                ended += 1
                selector.unregister(each.socket)
                each.socket.close()
                connect()


@contextmanager
def flooding(path: str, kind: str, connections: int) -> Iterator[dict[str, int]]:
    """A flood in a process of its own; what it did stands in the yielded dict afterwards."""
    done: dict[str, int] = {"requests": 0, "ended": 0}
    if not connections:
        yield done
        return
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.floods", "--send", kind, "--socket", path),
            *("--connections", str(connections)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the flood did not start: {process.wait()}")
        yield done
        output, _ = process.communicate(timeout=PATIENCE)
        done.update(json.loads(output))
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Row:
    """One flood: times in milliseconds, rates per second."""

    flood: str
    connections: int
    checks: int
    answered: int
    p50: float
    p99: float
    longest: float
    requests: float
    ended: int
    cpu: float
    """The share of one processor that the server took."""


def check_times(path: str, seconds: float) -> tuple[int, list[float]]:
    """How many Checks were sent, one each `PACE`, and the seconds that the answered ones took."""
    request = request_bytes(CASES["people"]())
    times: list[float] = []
    sent = 0
    connection: Connection | None = None
    until = time.monotonic() + seconds
    while (begun := time.monotonic()) < until:
        sent += 1
        try:
            connection = connection or Connection(Path(path), METHOD, request)
            connection.run(1, 1)
        except OSError:
            # A server whose connections are all in use closes one that is idle.
            connection = None
        else:
            times.append(time.monotonic() - begun)
        time.sleep(max(0.0, begun + PACE - time.monotonic()))
    if connection is not None:
        connection.close()
    return sent, times


def measure(path: str, pid: int, kind: str, connections: int, seconds: float) -> Row:
    """Checks beside one flood; without connections beside none."""
    with flooding(path, kind, connections) as done:
        time.sleep(WARM_UP)
        before = cpu_ns(pid)
        sent, times = check_times(path, seconds)
        cpu = (cpu_ns(pid) - before) / 1e9 / seconds
    times = sorted(times) or [PATIENCE]
    return Row(
        kind,
        connections,
        sent,
        len(times),
        times[len(times) // 2] * 1000,
        times[len(times) * 99 // 100] * 1000,
        times[-1] * 1000,
        done["requests"] / (seconds + WARM_UP),
        done["ended"],
        cpu,
    )


def run(connections: Sequence[int], seconds: float, kinds: Sequence[str]) -> Iterator[Row]:
    """Every flood, each at a server of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        policies = folder / "policies"
        write_policies(policies)
        settings = (
            "plugins.envoy_ext_authz_grpc.addr=unix://{socket}.grpc",
            "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow",
        )
        plans = [("none", 0), *((kind, n) for kind in kinds for n in connections)]
        for number, (kind, count) in enumerate(plans):
            main = folder / f"{number}"
            with started(doorward(*settings, name="floods"), policies, main) as pid:
                yield measure(f"{main}.grpc", pid, kind, count, seconds)


def table(rows: Sequence[Row]) -> str:
    """The rows, in Markdown."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        "Written by `python -m benchmarks.floods --markdown docs/reliability.md`. "
        f"{os.cpu_count()} cores, shared with the",
        "clients; load of the machine (1, 5, 15 minutes) when it was written: " + load + ".",
        "",
        "| flood | connections | requests sent/s | connections ended | Checks answered"
        " | p50 ms | p99 ms | longest ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.flood} | {each.connections} | {each.requests:,.0f} | {each.ended} |"
        f" {each.answered} of {each.checks} | {each.p50:.1f} | {each.p99:.1f} |"
        f" {each.longest:.0f} |"
        for each in rows
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks beside floods of HTTP/2 requests")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--connections", default="1,8,50", help="of each flood, by commas")
    parser.add_argument("--only", default="", help="floods whose name contains this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", type=Path, help="the page that gets the table")
    parser.add_argument("--send", choices=FLOODS, help=argparse.SUPPRESS)
    parser.add_argument("--socket", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.send:
        send_flood(options.socket, options.send, int(options.connections))
        return 0
    kinds = [each for each in FLOODS if options.only in each]
    counts = [int(each) for each in options.connections.split(",")]
    rows = []
    for row in run(counts, options.seconds, kinds):
        rows.append(row)
        print(json.dumps(asdict(row)) if options.json else row, flush=True)
    if options.markdown:
        put(options.markdown, table(rows), "floods")
    elif not options.json:
        print(table(rows))
    return 0 if all(row.answered == row.checks for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
