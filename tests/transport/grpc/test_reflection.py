"""Reflection answers a client as fast as it reads, and not one that does not."""

from __future__ import annotations

import pytest
from grpc_reflection.v1alpha import reflection_pb2
from tests.transport.grpc.test_methods import call
from tests.transport.http2.frames import data, headers, reset, settings, window_update

from doorward.transport.grpc.messages import frame_message
from doorward.transport.grpc.methods import Services, expire
from doorward.transport.grpc.reflection import MAX_ANSWERS, MAX_CONVERSATIONS, Reflection
from doorward.transport.http2.codes import Setting
from doorward.transport.http2.connection import PREFACE, Connection

PATH = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
SYMBOL = "grpc.reflection.v1alpha.ServerReflection"


def request(**fields: str) -> bytes:
    encoded: bytes = reflection_pb2.ServerReflectionRequest(**fields).SerializeToString()
    return frame_message(encoded)


def connect(reflection: Reflection, window: int) -> Connection:
    services = Services({}, reflection.streaming)
    connection = Connection(services, clock=lambda: 0.0, on_expired=expire)
    connection.feed(PREFACE + settings((Setting.INITIAL_WINDOW_SIZE, window)))
    return connection


def pending(connection: Connection) -> int:
    return sum([len(stream.pending) for stream in connection.streams.values()])


def test_a_client_that_reads_is_answered_each_time() -> None:
    connection = connect(Reflection(("a.A",)), 1 << 20)
    connection.feed(headers(1, call(path=PATH)))
    for _ in range(3):
        assert b"ServerReflectionInfo" in connection.feed(
            data(1, request(file_containing_symbol=SYMBOL), end=False)
        )
    connection.feed(data(1, b""))
    assert not connection.streams


@pytest.mark.parametrize("count", [10, 1000])
def test_a_client_that_does_not_read_has_one_response_wait(count: int) -> None:
    connection = connect(Reflection(("a.A",)), 0)
    connection.feed(headers(1, call(path=PATH)))
    connection.feed(data(1, request(file_containing_symbol=SYMBOL), end=False))
    one = pending(connection)
    assert one > 0
    for _ in range(count):
        connection.feed(data(1, request(file_containing_symbol=SYMBOL), end=False))
    assert pending(connection) == one
    assert b"8" in (connection.streams[1].trailers or b"")  # RESOURCE_EXHAUSTED
    connection.feed(window_update(1, 1 << 20))
    assert not connection.streams


def test_calls_of_all_connections_are_bounded_together() -> None:
    reflection = Reflection(("a.A",))
    connections = [connect(reflection, 0) for _ in range(3)]
    for number in range(50):
        for connection in connections:
            connection.feed(headers(2 * number + 1, call(path=PATH)))
            connection.feed(data(2 * number + 1, request(file_containing_symbol=SYMBOL)))
    waiting = [s for each in connections for s in each.streams.values() if s.pending]
    assert len(waiting) == MAX_CONVERSATIONS
    connections[0].lost()
    connections[1].feed(reset(1))
    for connection in connections[1:]:
        for stream in list(connection.streams):
            connection.feed(reset(stream))
    connections[1].feed(headers(201, call(path=PATH)) + data(201, request(list_services="")))
    assert pending(connections[1]) > 0


def test_few_answers_are_kept() -> None:
    reflection = Reflection(("a.A",))
    connection = connect(reflection, 1 << 20)
    connection.feed(headers(1, call(path=PATH)))
    for number in range(2 * MAX_ANSWERS):
        connection.feed(data(1, request(file_by_filename=f"{number}.proto"), end=False))
        connection.feed(window_update(0, 1 << 16))
    assert len(reflection._answers) == MAX_ANSWERS
    connection.feed(data(1, request(file_by_filename="a" * 1000), end=False))
    assert len(reflection._answers) == MAX_ANSWERS


def test_what_is_no_request_ends_the_call() -> None:
    connection = connect(Reflection(("a.A",)), 1 << 20)
    connection.feed(headers(1, call(path=PATH)))
    connection.feed(data(1, frame_message(b"\xff"), end=False))
    assert not connection.streams
