"""The server over real sockets, with grpcio and with raw frames as clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.transport.http2.frames import data, frame, headers, read, settings, window_update
from tests.waiting import PATIENCE, wait_until

from doorward.edge import Edge, Parts
from doorward.transport import loop as loops
from doorward.transport import pool as pools
from doorward.transport import slow_calls
from doorward.transport.grpc.health import SERVICE, Health
from doorward.transport.grpc.messages import Budget, frame_message
from doorward.transport.grpc.methods import Method, Services
from doorward.transport.grpc.reflection import Reflection
from doorward.transport.http2.codes import Flag, FrameType
from doorward.transport.http2.connection import PREFACE
from doorward.transport.http2.limits import Limits
from doorward.transport.loop import Connections
from doorward.transport.runner import AdaptiveRunner
from doorward.transport.server import LINGER, Http2Server, ServerOptions
from doorward.transport.server import _Protocol as Protocol
from doorward.transport.turns import Turns

CALL = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.A/Echo"),
    (b"content-type", b"application/grpc"),
]


class Served:
    """A running server and how to reach it."""

    def __init__(self, server: Http2Server, port: int, health: Health) -> None:
        self.server = server
        self.port = port
        self.health = health
        self.runner: AdaptiveRunner | None = None

    def channel(self, **options: int) -> Any:
        pairs = [(f"grpc.{name}", value) for name, value in options.items()]
        return grpc.insecure_channel(f"127.0.0.1:{self.port}", pairs)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        client.sendall(PREFACE + settings())
        settle(client)
        return client


def settle(client: socket.socket) -> None:
    """Wait until the server has read all that was sent."""
    client.sendall(frame(FrameType.PING, payload=bytes(8)))
    answer, received = frame(FrameType.PING, Flag.ACK, payload=bytes(8)), b""
    while answer not in received:
        piece = client.recv(65_536)
        assert piece, "the connection was closed"
        received += piece


@contextmanager
def serving(
    methods: dict[str, Method] | None = None,
    options: ServerOptions | None = None,
    parts: Parts | None = None,
) -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    health = Health(("a.A",))
    unary = {"/a.A/Echo": lambda message: message, **(methods or {})}
    reflection = Reflection(("envoy.service.auth.v3.Authorization", SERVICE))
    served: Served

    def make(loop: asyncio.AbstractEventLoop) -> Services:
        served.runner = AdaptiveRunner(loop, 2, Budget(100 << 20))
        streaming = {**health.streaming, **reflection.streaming}
        return Services({**unary, **health.unary}, streaming, runner=served.runner)

    server = Http2Server(make, [listener], options=options, parts=parts)
    served = Served(server, listener.getsockname()[1], health)
    server.start()
    try:
        yield served
    finally:
        server.stop(grace=1)
        assert served.runner is not None
        served.runner.close()


class ClosingTransport:
    """The transport of a connection whose client does not read what was written last."""

    def __init__(self) -> None:
        self.closing = self.aborted = False

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def pause_reading(self) -> None:
        """Nothing is read."""

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize("between", [0.5, 0.0625])
def test_a_closing_connection_lingers_for_a_time_and_not_for_sweeps(between: float) -> None:
    connections = Connections(1)
    loop = asyncio.new_event_loop()
    buffer = memoryview(bytearray(1))
    protocol = Protocol(connections, Services({}), Limits(), Turns(loop), buffer)
    transport = ClosingTransport()
    protocol.connection_made(transport)  # type: ignore[arg-type]  # all that it calls
    protocol.close()
    protocol.expire()
    for _ in range(int(LINGER / between)):
        assert not transport.aborted
        connections.now += between
        protocol.expire()
    assert transport.aborted
    loop.close()


def test_calls_of_a_real_client_are_answered() -> None:
    with serving() as served, served.channel() as channel:
        echo = channel.unary_unary("/a.A/Echo")
        for message in (b"", b"abc", b"x" * 3_000_000):
            assert echo(message, timeout=PATIENCE) == message
        with pytest.raises(grpc.RpcError) as raised:
            echo(b"x" * 5_000_000, timeout=PATIENCE)
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        futures = [echo.future(b"%d" % number, timeout=PATIENCE) for number in range(500)]
        assert [future.result() for future in futures] == [b"%d" % n for n in range(500)]


def test_gzip_of_a_real_client_is_read() -> None:
    with serving() as served, served.channel() as channel:
        echo = channel.unary_unary("/a.A/Echo")
        message = b"abc" * 10_000
        assert echo(message, timeout=PATIENCE, compression=grpc.Compression.Gzip) == message


def test_health_is_checked_and_watched() -> None:
    states = health_pb2.HealthCheckResponse
    with serving() as served, served.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="a.A")
        assert stub.Check(request, timeout=PATIENCE).status == states.NOT_SERVING
        watch = stub.Watch(request, timeout=PATIENCE)
        assert next(watch).status == states.NOT_SERVING
        served.server.call(lambda: served.health.set_serving(True))
        assert next(watch).status == states.SERVING
        watch.cancel()
        unknown = health_pb2.HealthCheckRequest(service="b.B")
        assert next(stub.Watch(unknown, timeout=PATIENCE)).status == states.SERVICE_UNKNOWN
        with pytest.raises(grpc.RpcError) as raised:
            stub.Check(unknown, timeout=PATIENCE)
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        listed = channel.unary_unary(
            f"/{SERVICE}/List", response_deserializer=health_pb2.HealthListResponse.FromString
        )(b"", timeout=PATIENCE)
        assert set(listed.statuses) == {"", "a.A"}


def test_messages_that_are_none_of_the_service_are_refused() -> None:
    with serving() as served, served.channel() as channel:
        for path in (f"/{SERVICE}/Check",):
            with pytest.raises(grpc.RpcError) as raised:
                channel.unary_unary(path)(b"\xff\xff", timeout=PATIENCE)
            assert raised.value.code() is grpc.StatusCode.INTERNAL
        for path in (
            f"/{SERVICE}/Watch",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ):
            with pytest.raises(grpc.RpcError) as raised:
                list(channel.stream_stream(path)(iter([b"\xff\xff"]), timeout=PATIENCE))
            assert raised.value.code() is grpc.StatusCode.INTERNAL
        for body in (iter([]), iter([b"", b""])):
            with pytest.raises(grpc.RpcError) as raised:
                list(channel.stream_stream(f"/{SERVICE}/Watch")(body, timeout=PATIENCE))
            assert raised.value.code() is grpc.StatusCode.INTERNAL


def test_reflection_lists_the_services() -> None:
    with serving() as served, served.channel() as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = [reflection_pb2.ServerReflectionRequest(list_services="")] * 2
        answers = list(stub.ServerReflectionInfo(iter(requests), timeout=PATIENCE))
        assert len(answers) == 2
        names = {service.name for service in answers[0].list_services_response.service}
        assert "envoy.service.auth.v3.Authorization" in names


def call_all_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first call on, each method is a slow one, by the time that passes."""
    monkeypatch.setattr(slow_calls, "SLOW", 0.0)
    monkeypatch.setattr(slow_calls, "FAST", 0.0)
    monkeypatch.setattr(slow_calls, "_THREAD", None)


def test_slow_methods_go_to_the_pool_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one waits, others are answered; a method that is fast again runs on the loop."""
    call_all_slow(monkeypatch)
    let_go = threading.Event()
    threads: list[str] = []

    def slow(message: bytes) -> bytes:
        threads.append(threading.current_thread().name)
        if message == b"wait":
            let_go.wait(PATIENCE)
        return message

    with serving({"/a.A/Slow": slow}) as served, served.channel() as channel:
        call = channel.unary_unary("/a.A/Slow")
        assert call(b"first", timeout=PATIENCE) == b"first"
        waiting = call.future(b"wait", timeout=PATIENCE)
        assert call(b"second", timeout=PATIENCE) == b"second"
        let_go.set()
        assert waiting.result() == b"wait"
        assert threads[0] == "grpc"
        assert all(name.startswith("check") for name in threads[1:])
        monkeypatch.setattr(slow_calls, "FAST", 1e9)
        assert call(b"third", timeout=PATIENCE) == b"third"
        assert call(b"fourth", timeout=PATIENCE) == b"fourth"
        assert threads[-1] == "grpc"


def test_a_defect_in_the_pool_ends_its_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    call_all_slow(monkeypatch)

    def defect(message: bytes) -> bytes:
        raise KeyError(message)

    with serving({"/a.A/Defect": defect}) as served, served.channel() as channel:
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as raised:
                channel.unary_unary("/a.A/Defect")(b"", timeout=PATIENCE)
            assert raised.value.code() is grpc.StatusCode.INTERNAL


def test_calls_past_the_pools_queue_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    call_all_slow(monkeypatch)
    monkeypatch.setattr(pools, "MAX_QUEUED", 1)
    let_go = threading.Event()

    def slow(message: bytes) -> bytes:
        if message:
            let_go.wait(PATIENCE)
        return message

    with serving({"/a.A/Slow": slow}) as served, served.channel() as channel:
        call = channel.unary_unary("/a.A/Slow")
        call(b"", timeout=PATIENCE)
        waiting = call.future(b"wait", timeout=PATIENCE)
        wait_until(lambda: served.runner is not None and served.runner.queued)
        with pytest.raises(grpc.RpcError) as raised:
            call(b"", timeout=PATIENCE)
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        let_go.set()
        assert waiting.result() == b"wait"


def read_all(client: socket.socket) -> bytes:
    """What comes until the server closes."""
    received = b""
    while piece := client.recv(65_536):
        received += piece
    return received


def test_a_connection_that_breaks_a_rule_is_closed() -> None:
    with serving() as served, served.connect() as client:
        client.sendall(data(0, b"x"))
        assert b"frame on an idle stream" in read_all(client)


def test_a_client_that_sends_and_never_reads_is_not_read_for_ever() -> None:
    """What waits for it is bounded: the server stops reading."""
    with serving() as served, served.connect() as client:
        client.settimeout(0.5)
        message = frame_message(b"x" * 16_000)
        client.sendall(settings((4, 2**31 - 1)) + window_update(0, 0x7000_0000))
        calls = [headers(n, CALL) + data(n, message) for n in range(1, 20_001, 2)]
        with pytest.raises(TimeoutError):
            client.sendall(b"".join(calls))


def test_calls_that_wait_for_their_turn_are_answered_before_the_end() -> None:
    """Far more than is read in one turn, and the client's end at once behind it."""
    message = frame_message(b"x" * 3_000)
    numbers = range(1, 161, 2)
    with serving() as served, served.connect() as client:
        calls = [headers(n, CALL) + data(n, message) for n in numbers]
        client.sendall(window_update(0, 1 << 20) + b"".join(calls))
        client.shutdown(socket.SHUT_WR)
        frames = read(read_all(client))
        ended = [each.stream for each in frames if each.flags & Flag.END_STREAM and each.stream]
        assert ended == list(numbers)


def test_a_connection_over_the_limit_replaces_an_idle_one() -> None:
    with serving(options=ServerOptions(max_connections=2)) as served:
        idle, busy = served.connect(), served.connect()
        busy.sendall(headers(1, CALL))
        settle(busy)
        with served.channel() as channel:
            assert channel.unary_unary("/a.A/Echo")(b"a", timeout=PATIENCE) == b"a"
        assert read_all(idle)
        idle.close()
        busy.close()


def test_open_streams_without_requests_hold_no_connection() -> None:
    silence = b"".join(headers(number, CALL) for number in range(1, 101, 2))
    with serving(options=ServerOptions(max_connections=2)) as served:
        working, first = served.connect(), served.connect()
        ask(working, 1)
        first.sendall(silence)
        settle(first)
        second = served.connect()
        second.sendall(silence)
        settle(second)
        assert read_all(first)  # it made room, and not the one that works
        ask(working, 3)
        with served.channel() as channel:
            assert channel.unary_unary("/a.A/Echo")(b"a", timeout=PATIENCE) == b"a"
        assert read_all(second)
        ask(working, 5)
        for each in (working, first, second):
            each.close()


def ask(client: socket.socket, number: int) -> None:
    """Make a call, and wait for its answer."""
    client.sendall(headers(number, CALL) + data(number, frame_message(b"echo")))
    received = b""
    while b"echo" not in received:
        piece = client.recv(65_536)
        assert piece, "the connection was closed"
        received += piece


def test_a_connection_without_a_preface_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "SWEEP", 0.01)
    with (
        serving() as served,
        socket.create_connection(("127.0.0.1", served.port), PATIENCE) as client,
    ):
        assert read_all(client) == b""


def test_open_calls_end_before_the_server_does() -> None:
    entered, let_go = threading.Event(), threading.Event()

    def slow(message: bytes) -> bytes:
        entered.set()
        let_go.wait(PATIENCE)
        return message

    with serving({"/a.A/Slow": slow}) as served, served.channel() as channel:
        waiting = channel.unary_unary("/a.A/Slow").future(b"a", timeout=PATIENCE)
        assert entered.wait(PATIENCE)
        ending = threading.Thread(target=served.server.stop, args=(PATIENCE,))
        ending.start()
        let_go.set()
        assert waiting.result() == b"a"
        ending.join(PATIENCE)
        assert served.server.wait(PATIENCE)


def test_a_server_tells_that_it_is_alive() -> None:
    parts = Parts()
    with serving(parts=parts):
        assert parts.problems == {"grpc": None}
    assert parts.problems == {}


def test_a_server_that_cannot_begin_is_an_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not the one of this process, which limits how often it reports.
    monkeypatch.setattr(loops, "_EDGE", Edge("test", "a server could not begin"))

    def make(_loop: asyncio.AbstractEventLoop) -> Services:
        raise ValueError("no services")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Http2Server(make, [listener])
        with pytest.raises(loops.NotServingError):
            server.start()
        server.stop(grace=0)
    assert "a server could not begin" in caplog.text


def test_a_defect_of_a_call_to_the_loop_is_reported_and_survived(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving() as served, served.channel() as channel:
        served.server.call(lambda: int("x"))
        assert channel.unary_unary("/a.A/Echo")(b"a", timeout=PATIENCE) == b"a"
    assert "a server's event loop failed" in caplog.text
