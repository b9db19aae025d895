"""A watch tells what changes, also to clients that do not read."""

from __future__ import annotations

from tests.transport.grpc.test_methods import call
from tests.transport.http2.frames import data, headers, settings

from doorward.edge import counts
from doorward.transport.grpc.health import Health
from doorward.transport.grpc.messages import frame_message
from doorward.transport.grpc.methods import Services, expire
from doorward.transport.http2.codes import Setting
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
