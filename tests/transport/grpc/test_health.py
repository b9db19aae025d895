"""A watch tells what changes, also to clients that do not read."""

from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2
from tests.transport.grpc.test_methods import call
from tests.transport.http2.frames import data, headers, read, settings, window_update

from doorward.edge import counts
from doorward.transport.grpc.health import Health
from doorward.transport.grpc.messages import frame_message
from doorward.transport.grpc.methods import Services, expire
from doorward.transport.http2.codes import FrameType, Setting
from doorward.transport.http2.connection import PREFACE, Connection

PATH = "/grpc.health.v1.Health/Watch"


def test_a_watch_of_a_client_that_reads_nothing_ends_without_a_fault() -> None:
    health = Health(("a.A",))
    connection = Connection(
        Services(health.unary, health.streaming), clock=lambda: 0.0, on_expired=expire
    )
    connection.feed(PREFACE + settings((Setting.INITIAL_WINDOW_SIZE, 0)))
    before = dict(counts())
    connection.feed(headers(1, call(path=PATH)))
    for _ in range(5):  # the second message ends the call, and its end waits for the client
        connection.feed(data(1, frame_message(b""), end=False))
    connection.feed(data(1, b""))
    health.set_serving(True)
    assert dict(counts()) == before
    assert not connection.closed


SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def states(written: bytes) -> list[int]:
    """The states that the server sent, from frames that each have one message or a part of one."""
    content = b"".join(each.payload for each in read(written) if each.kind == FrameType.DATA)
    sent = []
    while content:
        end = 5 + int.from_bytes(content[1:5], "big")
        sent.append(health_pb2.HealthCheckResponse.FromString(content[5:end]).status)
        content = content[end:]
    return sent


@pytest.mark.parametrize("widened", ["stream", "settings"])
def test_a_slow_client_gets_the_newest_state_when_it_reads_on(widened: str) -> None:
    health = Health(("a.A",))
    connection = Connection(
        Services(health.unary, health.streaming), clock=lambda: 0.0, on_expired=expire
    )
    connection.feed(PREFACE + settings((Setting.INITIAL_WINDOW_SIZE, 0)))
    assert states(connection.feed(headers(1, call(path=PATH)))) == []
    assert states(connection.feed(data(1, frame_message(b""), end=False))) == []
    health.set_serving(True)
    health.set_serving(False)
    health.set_serving(True)
    assert states(connection.take()) == []
    grown = {
        "stream": window_update(1, 1_000),
        "settings": settings((Setting.INITIAL_WINDOW_SIZE, 1_000)),
    }
    assert states(connection.feed(grown[widened])) == [NOT_SERVING, SERVING]
    health.set_serving(False)
    assert states(connection.take()) == [NOT_SERVING]


def test_a_slow_client_that_read_the_newest_state_gets_it_once() -> None:
    health = Health(())
    connection = Connection(
        Services(health.unary, health.streaming), clock=lambda: 0.0, on_expired=expire
    )
    connection.feed(PREFACE + settings((Setting.INITIAL_WINDOW_SIZE, 0)))
    connection.feed(headers(1, call(path=PATH)) + data(1, frame_message(b""), end=False))
    health.set_serving(True)
    health.set_serving(False)
    assert states(connection.feed(window_update(1, 1_000))) == [NOT_SERVING]
