"""Calls of many messages: each is answered in turn, all are bounded, OK is for complete ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.transport.http2.frames import data, headers, read, reset, settings

from doorward.base.cancellation import Cancellation
from doorward.transport.grpc.exchanges import Exchange, ExchangeLimits, Exchanges
from doorward.transport.grpc.messages import frame_message
from doorward.transport.grpc.methods import Call, Method, Services, call_method, expire
from doorward.transport.grpc.status import GrpcError, Status
from doorward.transport.http2.codes import FrameType, Setting
from doorward.transport.http2.connection import PREFACE, Connection
from doorward.transport.http2.hpack import Decoder, Header

CALL: list[Header] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.A/Talk"),
    (b":authority", b"a"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]


class Talk:
    """Repeats messages in capitals; complete after `bye`."""

    def __init__(self) -> None:
        self.last = b""
        self.is_closed = False

    def answer(self, message: bytes) -> bytes:
        if message == b"defect":
            raise KeyError(message)
        if message == b"refuse":
            raise GrpcError(Status.PERMISSION_DENIED, "no")
        self.last = message
        return message.upper()

    def finish(self) -> None:
        if self.last == b"late defect":
            raise KeyError
        if self.last != b"bye":
            raise GrpcError(Status.ABORTED, "too early")

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Elsewhere:
    """A runner that answers when it is told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], None], Cancellation]] = []

    def run(
        self,
        method: Method,
        message: bytes,
        done: Callable[[bytes | GrpcError], None],
        cancellation: Cancellation,
    ) -> bytes | GrpcError | None:
        self.work.append((lambda: done(call_method(method, message)), cancellation))
        return None

    def go(self) -> None:
        work, _ = self.work.pop(0)
        work()


class Client:
    """One connection to `Talk`."""

    def __init__(
        self,
        limits: ExchangeLimits | None = None,
        runner: Elsewhere | None = None,
        window: int = 1 << 20,
        make: Callable[[], Exchange] | None = None,
    ) -> None:
        self.now = 100.0
        self.talks: list[Talk] = []
        self.exchanges = Exchanges(make or self._make, limits or ExchangeLimits(), runner)
        services = Services({}, {"/a.A/Talk": self.exchanges.open})
        self.connection = Connection(services, clock=lambda: self.now, on_expired=expire)
        self.connection.feed(PREFACE + settings((Setting.INITIAL_WINDOW_SIZE, window)))
        self.decoder = Decoder(4096)
        self.messages: list[bytes] = []
        self._status: Status | None = None
        self.was_reset = False

    def _make(self) -> Talk:
        self.talks.append(Talk())
        return self.talks[-1]

    def note(self, written: bytes) -> None:
        body = b""
        for each in read(written):
            if each.kind == FrameType.HEADERS:
                fields = dict(self.decoder.decode(each.payload, 1 << 20)[0])
                if b"grpc-status" in fields:
                    self._status = Status(int(fields[b"grpc-status"]))
            elif each.kind == FrameType.DATA:
                body += each.payload
            elif each.kind == FrameType.RST_STREAM:
                self.was_reset = True
        while body:
            length = int.from_bytes(body[1:5], "big")
            self.messages.append(body[5 : 5 + length])
            body = body[5 + length :]

    def status(self) -> Status | None:
        """The status of the last call that has ended, since this was asked."""
        status, self._status = self._status, None
        return status

    def open(self, stream: int = 1) -> None:
        self.note(self.connection.feed(headers(stream, CALL)))

    def say(self, *messages: bytes, stream: int = 1) -> None:
        wire = b"".join([data(stream, frame_message(each), end=False) for each in messages])
        self.note(self.connection.feed(wire))

    def end(self, stream: int = 1) -> None:
        self.note(self.connection.feed(data(stream)))

    def sweep(self, seconds: float) -> None:
        self.now += seconds
        self.note(self.connection.expire())

    def is_clean(self) -> bool:
        """Whether nothing of the calls is left."""
        left = self.exchanges.open_calls, self.exchanges.budget.used, len(self.connection.streams)
        return left == (0, 0, 0) and all(talk.is_closed for talk in self.talks)


def test_each_message_is_answered_and_a_complete_call_ends_with_ok() -> None:
    client = Client()
    client.open()
    client.say(b"a")
    assert client.messages == [b"A"]
    client.say(b"b", b"bye")
    assert client.messages == [b"A", b"B", b"BYE"]
    assert client.status() is None
    client.end()
    assert client.status() is Status.OK
    assert client.is_clean()


@pytest.mark.parametrize("messages", [[], [b"a"], [b"bye", b"a"]])
def test_a_call_that_is_not_complete_does_not_end_with_ok(messages: list[bytes]) -> None:
    client = Client()
    client.open()
    client.say(*messages)
    client.end()
    assert client.status() is Status.ABORTED
    assert client.is_clean()


@pytest.mark.parametrize(
    ("message", "status"),
    [(b"refuse", Status.PERMISSION_DENIED), (b"defect", Status.INTERNAL)],
)
def test_an_error_ends_the_call(message: bytes, status: Status) -> None:
    client = Client()
    client.open()
    client.say(b"a", message, b"bye")
    assert client.messages == [b"A"]
    assert client.status() is status
    assert client.is_clean()


def test_a_defect_at_the_end_is_not_ok() -> None:
    client = Client()
    client.open()
    client.say(b"late defect")
    client.end()
    assert client.status() is Status.INTERNAL
    assert client.is_clean()


def test_a_call_that_cannot_be_opened_is_not_ok() -> None:
    def fail() -> Exchange:
        raise KeyError

    client = Client(make=fail)
    client.open()
    assert client.status() is Status.INTERNAL
    assert client.is_clean()


def test_no_handler_ends_a_call_with_ok_before_its_client() -> None:
    class Hasty:
        def __init__(self, call: Call) -> None:
            self.call = call

        def receive(self, message: bytes) -> None:
            self.call.end()

        def half_close(self) -> None:
            raise AssertionError

        def cancel(self) -> None:
            """Nothing is kept."""

    client = Client()
    services = Services({}, {"/a.A/Talk": Hasty})
    client.connection = Connection(services)
    client.connection.feed(PREFACE + settings())
    client.open()
    client.say(b"a")
    assert client.status() is Status.INTERNAL


def test_a_reset_ends_the_call() -> None:
    client = Client()
    client.open()
    client.say(b"a")
    client.connection.feed(reset(1))
    assert client.is_clean()


def test_a_lost_connection_ends_the_call() -> None:
    client = Client()
    client.open()
    client.say(b"a")
    client.connection.lost()
    assert client.is_clean()


def test_messages_wait_for_the_answer_before() -> None:
    runner = Elsewhere()
    client = Client(runner=runner)
    client.open()
    client.say(b"a", b"bye")
    client.end()
    assert len(runner.work) == 1
    runner.go()
    assert len(runner.work) == 1
    runner.go()
    client.note(client.connection.take())
    assert client.messages == [b"A", b"BYE"]
    assert client.status() is Status.OK
    assert client.is_clean()


def test_an_answer_for_a_call_that_has_ended_is_dropped() -> None:
    runner = Elsewhere()
    client = Client(runner=runner)
    client.open()
    client.say(b"a")
    client.connection.feed(reset(1))
    assert client.is_clean()
    assert runner.work[0][1].is_cancelled
    runner.go()
    assert client.connection.take() == b""
    assert client.is_clean()


@pytest.mark.parametrize("last", [b"refuse", b"defect"])
def test_an_error_elsewhere_ends_the_call(last: bytes) -> None:
    runner = Elsewhere()
    client = Client(runner=runner)
    client.open()
    client.say(last, b"bye")
    runner.go()
    client.note(client.connection.take())
    assert client.status() in (Status.PERMISSION_DENIED, Status.INTERNAL)
    assert client.is_clean()


@pytest.mark.parametrize(
    ("limits", "messages"),
    [
        ({"messages": 2}, [b"a", b"b", b"c"]),
        ({"bytes": 100}, [b"a" * 60, b"b" * 60]),
        ({"max_send": 10}, [b"a" * 11]),
    ],
)
def test_a_call_has_limits(limits: dict[str, int], messages: list[bytes]) -> None:
    client = Client(replace(ExchangeLimits(), **limits))
    client.open()
    client.say(*messages)
    assert client.status() is Status.RESOURCE_EXHAUSTED
    assert client.is_clean()


def test_too_many_messages_do_not_wait() -> None:
    client = Client(replace(ExchangeLimits(), waiting=2), Elsewhere())
    client.open()
    client.say(b"a", b"b", b"c")
    assert client.status() is None
    client.say(b"d")
    assert client.status() is Status.RESOURCE_EXHAUSTED
    assert client.is_clean()


def test_too_many_calls_are_refused_and_a_call_that_ended_makes_room() -> None:
    client = Client(replace(ExchangeLimits(), calls=1))
    client.open(1)
    client.open(3)
    assert client.status() is Status.RESOURCE_EXHAUSTED
    client.connection.feed(reset(1))
    client.open(5)
    client.say(b"bye", stream=5)
    client.end(5)
    assert client.status() is Status.OK
    assert client.is_clean()


def test_a_call_without_a_message_ends() -> None:
    client = Client()
    client.open()
    client.sweep(1.9)
    assert client.status() is None
    client.sweep(0.2)
    assert client.status() is Status.DEADLINE_EXCEEDED
    assert client.is_clean()


def test_empty_data_is_no_message() -> None:
    client = Client()
    client.open()
    client.note(client.connection.feed(data(1, end=False)))
    client.sweep(2.1)
    assert client.status() is Status.DEADLINE_EXCEEDED


def test_a_message_that_does_not_end_ends_the_call() -> None:
    client = Client()
    client.open()
    client.say(b"a")
    client.sweep(800)
    assert client.status() is None
    client.note(client.connection.feed(data(1, frame_message(b"abc")[:6], end=False)))
    client.sweep(1.9)
    client.note(client.connection.feed(data(1, b"b", end=False)))
    assert client.status() is None
    client.sweep(0.2)
    assert client.status() is Status.DEADLINE_EXCEEDED
    assert client.is_clean()


def test_a_call_ends_after_its_time_whatever_is_said() -> None:
    client = Client(replace(ExchangeLimits(), seconds=10, messages=1000))
    client.open()
    for _ in range(6):
        client.say(b"a")
        client.sweep(1.9)
    assert client.status() is Status.DEADLINE_EXCEEDED
    assert client.is_clean()


def test_who_does_not_read_gets_no_further_answer() -> None:
    client = Client(window=3)
    client.open()
    client.say(b"a")
    client.say(b"b")
    client.sweep(31)
    assert client.status() is None
    assert client.was_reset
    assert client.is_clean()


def test_who_reads_late_is_not_cut_off() -> None:
    client = Client(window=3)
    client.open()
    client.say(b"a")
    client.sweep(20)
    client.note(client.connection.feed(settings((Setting.INITIAL_WINDOW_SIZE, 1 << 16))))
    client.sweep(20)
    client.say(b"bye")
    client.end()
    assert client.status() is Status.OK
    assert client.is_clean()


def test_messages_keep_a_connection_in_use() -> None:
    client = Client()
    client.open()
    client.now += 50
    client.say(b"a")
    assert client.connection.requested == client.now
