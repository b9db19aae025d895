"""What a real Envoy sent is answered whole, however the bytes arrive.

`scripts/record_connections.py` records: heads out of its table, bodies larger than a window, calls
that it gives up, health checks.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from envoy.service.auth.v3 import external_auth_pb2 as auth
from tests.transport.http2.frames import errors, read

from doorward.transport.grpc.health import SERVICE
from doorward.transport.grpc.methods import Services
from doorward.transport.http2.codes import Flag, FrameType
from doorward.transport.http2.connection import PREFACE, Connection
from doorward.transport.http2.hpack import Decoder

FOLDER = Path(__file__).parents[2] / "data/envoy-connections"
CHECK = "/envoy.service.auth.v3.Authorization/Check"
CALLS = {
    "at-once": {f"/{number}" for number in range(48)},
    "bodies": {"/"},
    "health-checks": {""},
    "one-by-one": {f"/people/{number}?page={number % 3}" for number in range(12)},
    "time-outs": {"/", "/slow"},
}
"""The targets of the requests that Envoy asked about, by recording."""
COUNTS = {"at-once": 48, "bodies": 4, "health-checks": 4, "one-by-one": 12, "time-outs": 8}


class Service:
    """The service that a recording calls, and what it was asked."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        paths = CHECK, f"/{SERVICE}/Check"
        self.services = Services(dict.fromkeys(paths, self._answer))

    def _answer(self, message: bytes) -> bytes:
        self.messages.append(message)
        return b""


def replay(chunks: list[bytes]) -> tuple[list[bytes], bytes]:
    """The messages of the calls, and what was written."""
    service = Service()
    connection = Connection(service.services, clock=lambda: 0.0)
    written = b"".join(map(connection.feed, chunks))
    assert not connection.closed
    return service.messages, written


def split(content: bytes, rng: random.Random) -> list[bytes]:
    most = rng.choice([1, 3, 30, 300, 3_000, 30_000])
    chunks = []
    while content:
        size = rng.randint(1, most)
        chunks.append(content[:size])
        content = content[size:]
    return chunks


def frames(content: bytes) -> list[bytes]:
    """The preface and each frame, as a client that waits after each would send them."""
    start = len(PREFACE)
    chunks = [content[:start]]
    for each in read(content[start:]):
        size = 9 + len(each.payload)
        chunks.append(content[start : start + size])
        start += size
    return chunks


def ends(written: bytes) -> dict[int, dict[bytes, bytes]]:
    """The trailers of each stream. Every block is decoded, as the client's table wants it."""
    decoder = Decoder(4096)
    trailers: dict[int, dict[bytes, bytes]] = {}
    for each in read(written):
        if each.kind == FrameType.HEADERS:
            assert not each.flags & Flag.PADDED
            fields = dict(decoder.decode(each.payload, 1 << 16)[0])
            if each.flags & Flag.END_STREAM:
                assert each.stream not in trailers
                trailers[each.stream] = fields
    return trailers


@pytest.mark.parametrize("name", CALLS)
def test_recorded_connections_are_answered(name: str) -> None:
    content = gzip.decompress((FOLDER / f"{name}.bin.gz").read_bytes())
    messages, written = replay(frames(content))
    assert len(messages) == COUNTS[name]
    if name != "health-checks":
        requests = [auth.CheckRequest.FromString(each).attributes.request.http for each in messages]
        assert {each.path for each in requests} == CALLS[name]
        assert all(each.headers["authorization"] == "Bearer a.b.c" for each in requests)
        if name == "bodies":
            assert sorted(len(each.body) for each in requests) == [40_000] * 4
    assert errors(written) == []
    trailers = ends(written)
    assert len(trailers) == COUNTS[name]
    assert {each[b"grpc-status"] for each in trailers.values()} == {b"0"}


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_recorded_connections_arrive_in_any_pieces(name: str) -> None:
    content = gzip.decompress((FOLDER / f"{name}.bin.gz").read_bytes())
    each_by_itself, _ = replay(frames(content))
    for seed in range(60 if len(content) < 50_000 else 12):
        messages, written = replay(split(content, random.Random(seed)))
        if name == "time-outs":  # what is given up in the bytes that ask for it is not answered
            assert set(messages) <= set(each_by_itself)
        else:
            assert messages == each_by_itself
        assert errors(written) == []
        assert {each[b"grpc-status"] for each in ends(written).values()} == {b"0"}
