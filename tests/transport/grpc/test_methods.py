"""Calls over frames: which get an answer, and which status the others get."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from tests.transport.http2.frames import data, errors, frame, headers, read, reset, settings

from doorward.base.cancellation import Cancellation
from doorward.transport.grpc.messages import frame_message
from doorward.transport.grpc.methods import Call, Method, Options, Services, expire
from doorward.transport.grpc.status import GrpcError, Status
from doorward.transport.http2.codes import Flag, FrameType, Setting
from doorward.transport.http2.connection import PREFACE, Connection
from doorward.transport.http2.hpack import Decoder, Header

CALL: list[Header] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.A/Echo"),
    (b":authority", b"a"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]


def call(**changes: str) -> list[Header]:
    """The header section of a call; a name that is changed to "" is left out."""
    names = {name.replace("_", "-"): value for name, value in changes.items()}
    pseudo = {f":{name}": value for name, value in names.items() if f":{name}" in _PSEUDO}
    fields = {name: value for name, value in names.items() if f":{name}" not in _PSEUDO}
    known = {name.decode(): value.decode() for name, value in CALL}
    return [
        (name.encode(), value.encode())
        for name, value in {**known, **pseudo, **fields}.items()
        if value
    ]


_PSEUDO = {":method", ":path", ":scheme"}


def fail(message: bytes) -> bytes:
    raise GrpcError(Status.ABORTED, "100 % nö\n")


def defect(message: bytes) -> bytes:
    raise KeyError(message)


class Repeat:
    """Sends each message twice, and ends when the client does."""

    cancelled = 0

    def __init__(self, call: Call) -> None:
        self.call = call

    def receive(self, message: bytes) -> None:
        if message == b"bad":
            raise GrpcError(Status.INVALID_ARGUMENT, "bad")
        if message == b"defect":
            raise KeyError
        self.call.send(message)
        self.call.send(message)

    def half_close(self) -> None:
        self.call.end()
        self.call.end()
        self.call.send(b"late")

    def cancel(self) -> None:
        Repeat.cancelled += 1


class Client:
    """One connection to the services of this test."""

    def __init__(
        self, options: Options | None = None, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        methods = {
            "/a.A/Echo": lambda message: message,
            "/a.A/Fail": fail,
            "/a.A/Defect": defect,
            "/a.A/Long": lambda message: message * 1000,
        }
        self.options = options or Options(max_receive=1000)
        services = Services(methods, {"/a.A/Repeat": Repeat}, options=self.options)
        self.connection = Connection(services, clock=clock, on_expired=expire)
        self.connection.feed(PREFACE + settings((Setting.INITIAL_WINDOW_SIZE, 1 << 20)))
        self.decoder = Decoder(4096)
        self.stream = -1

    def send(self, wire: bytes) -> tuple[list[bytes], dict[str, str]]:
        """The messages and the fields that come back."""
        written = self.connection.feed(wire)
        fields: dict[str, str] = {}
        body = b""
        for each in read(written):
            if each.kind == FrameType.HEADERS:
                for name, value in self.decoder.decode(each.payload, 1 << 20)[0]:
                    fields[name.decode()] = value.decode()
            elif each.kind == FrameType.DATA:
                body += each.payload
        messages = []
        while body:
            length = int.from_bytes(body[1:5], "big")
            messages.append(body[5 : 5 + length])
            body = body[5 + length :]
        return messages, fields

    def ask(
        self, body: bytes | None, fields: list[Header] | None = None
    ) -> tuple[list[bytes], dict[str, str]]:
        self.stream += 2
        fields = CALL if fields is None else fields
        if body is None:
            return self.send(headers(self.stream, fields, Flag.END_STREAM))
        return self.send(headers(self.stream, fields) + data(self.stream, body))


def status(fields: dict[str, str]) -> Status:
    return Status(int(fields["grpc-status"]))


def test_a_call_is_answered() -> None:
    messages, fields = Client().ask(frame_message(b"abc"))
    assert messages == [b"abc"]
    assert fields == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "0",
    }


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_message_may_come_in_pieces(size: int) -> None:
    client = Client()
    wire = frame_message(b"0123456789")
    client.send(headers(1, CALL))
    for at in range(0, len(wire), size):
        assert client.send(data(1, wire[at : at + size], end=False)) == ([], {})
    assert client.send(data(1))[0] == [b"0123456789"]
    assert client.options.budget.used == 0


def test_gzip_is_accepted() -> None:
    wire = gzip.compress(b"abc" * 100)
    body = b"\x01" + len(wire).to_bytes(4, "big") + wire
    assert Client().ask(body, call(grpc_encoding="gzip"))[0] == [b"abc" * 100]


def compressed(content: bytes) -> bytes:
    return b"\x01" + len(content).to_bytes(4, "big") + content


GZIPPED = call(grpc_encoding="gzip")
ZIPPED = compressed(gzip.compress(b"x" * 900))


REFUSED: dict[str, tuple[bytes | None, list[Header], Status]] = {
    "unknown-method": (b"", call(path="/a.A/No"), Status.UNIMPLEMENTED),
    "encoding": (b"", call(grpc_encoding="br"), Status.UNIMPLEMENTED),
    "timeout": (b"", call(grpc_timeout="5x"), Status.INTERNAL),
    "timeout-long": (b"", call(grpc_timeout="123456789S"), Status.INTERNAL),
    "no-message": (None, CALL, Status.INTERNAL),
    "cut": (frame_message(b"abc")[:-1], CALL, Status.INTERNAL),
    "two": (frame_message(b"a") * 2, CALL, Status.INTERNAL),
    "more": (frame_message(b"a") + b"x", CALL, Status.INTERNAL),
    "too-large": (frame_message(b"x" * 1001), CALL, Status.RESOURCE_EXHAUSTED),
    "announced-too-large": (b"\0\xff\xff\xff\xff", CALL, Status.RESOURCE_EXHAUSTED),
    "not-gzip": (compressed(b"abc"), call(grpc_encoding="gzip"), Status.INTERNAL),
    "gzip-undeclared": (compressed(gzip.compress(b"a")), CALL, Status.INTERNAL),
    "gzip-cut": (
        compressed(gzip.compress(b"abc")[:-1]),
        call(grpc_encoding="gzip"),
        Status.INTERNAL,
    ),
    "gzip-twice": (
        compressed(gzip.compress(b"a") * 2),
        call(grpc_encoding="gzip"),
        Status.INTERNAL,
    ),
    "gzip-bomb": (
        compressed(gzip.compress(b"a" * 100_000)),
        call(grpc_encoding="gzip"),
        Status.RESOURCE_EXHAUSTED,
    ),
    "flag": (b"\x02\0\0\0\0", call(grpc_encoding="gzip"), Status.INTERNAL),
    "failed": (frame_message(b""), call(path="/a.A/Fail"), Status.ABORTED),
    "defect": (frame_message(b""), call(path="/a.A/Defect"), Status.INTERNAL),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_cannot_be_answered_has_a_status(name: str) -> None:
    body, fields, expected = REFUSED[name]
    client = Client()
    messages, answer = client.ask(body, fields)
    assert messages == []
    assert answer[":status"] == "200"
    assert status(answer) == expected
    assert client.options.budget.used == 0
    assert client.ask(frame_message(b"next"))[0] == [b"next"]


def test_a_message_of_a_status_is_encoded() -> None:
    _, fields = Client().ask(frame_message(b""), call(path="/a.A/Fail"))
    assert unquote(fields["grpc-message"]) == "100 % nö\n"
    assert fields["grpc-message"].isascii()


def test_the_text_of_an_exception_is_not_sent() -> None:
    _, fields = Client().ask(frame_message(b"secret"), call(path="/a.A/Defect"))
    assert fields["grpc-message"] == "internal error (KeyError)"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (call(method="GET"), "405"),
        (call(content_type=""), "415"),
        (call(content_type="application/json"), "415"),
        (call(content_type="application/grpc-web"), "415"),
    ],
)
def test_what_is_not_grpc_gets_a_status_of_http(fields: list[Header], code: str) -> None:
    assert Client().ask(b"", fields)[1][":status"] == code


@pytest.mark.parametrize("kind", ["application/grpc+proto", "application/grpc;a=b"])
def test_content_types_of_grpc(kind: str) -> None:
    assert Client().ask(frame_message(b"a"), call(content_type=kind))[0] == [b"a"]


def test_a_response_over_the_limit_is_not_sent() -> None:
    client = Client(Options(max_send=5000))
    assert status(client.ask(frame_message(b"x" * 10), call(path="/a.A/Long"))[1]) == (
        Status.RESOURCE_EXHAUSTED
    )


def test_a_stream_without_a_message_ends() -> None:
    clock = [0.0]
    client = Client(clock=lambda: clock[0])
    client.connection.feed(headers(1, CALL) + headers(3, call(grpc_timeout="500m")))
    client.connection.feed(data(1, b"\0\0", end=False))
    clock[0] = 1.0
    assert [each.stream for each in read(client.connection.expire())] == [3, 3]
    clock[0] = 3.0
    written = client.connection.expire()
    assert errors(written) == [("stream", 1, 0)]
    assert client.options.budget.used == 0
    assert not client.connection.streams


def test_incomplete_messages_share_a_budget() -> None:
    client = Client(Options(budget=100))
    assert client.send(headers(1, CALL) + data(1, b"\0\0\0\1\0" + b"x" * 50, end=False)) == ([], {})
    _, fields = client.send(headers(3, CALL) + data(3, b"\0\0\0\1\0" + b"x" * 50, end=False))
    assert status(fields) == Status.RESOURCE_EXHAUSTED
    client.connection.lost()
    assert client.options.budget.used == 0


def test_a_message_counts_in_the_budget_until_it_is_answered() -> None:
    """Compressed, what has arrived of it is far less than what is kept."""
    client = Client(Options(budget=1000))
    assert client.send(headers(1, GZIPPED) + data(1, ZIPPED, end=False)) == ([], {})
    assert client.options.budget.used == 900
    _, fields = client.send(headers(3, GZIPPED) + data(3, ZIPPED, end=False))
    assert status(fields) == Status.RESOURCE_EXHAUSTED
    assert client.options.budget.used == 900
    assert client.send(data(1, b"")) == (
        [b"x" * 900],
        {
            ":status": "200",
            "content-type": "application/grpc",
            "grpc-status": "0",
        },
    )
    assert client.options.budget.used == 0


@pytest.mark.parametrize("how", ["reset", "lost", "another message", "late"])
def test_a_message_that_is_dropped_no_longer_counts(how: str) -> None:
    clock = [0.0]
    client = Client(clock=lambda: clock[0])
    client.send(headers(1, GZIPPED) + data(1, ZIPPED, end=False))
    assert client.options.budget.used == 900
    if how == "reset":
        client.connection.feed(reset(1))
    elif how == "lost":
        client.connection.lost()
    elif how == "another message":
        client.send(data(1, frame_message(b"abc"), end=False))
    else:
        clock[0] = 3.0
        client.connection.expire()
    assert client.options.budget.used == 0
    assert not client.connection.streams


# Streaming


REPEAT = call(path="/a.A/Repeat")


def test_a_streaming_call() -> None:
    client = Client()
    messages, fields = client.send(headers(1, REPEAT) + data(1, frame_message(b"a"), end=False))
    assert messages == [b"a", b"a"]
    assert "grpc-status" not in fields
    messages, fields = client.send(data(1, frame_message(b"b")))
    assert messages == [b"b", b"b"]
    assert status(fields) == Status.OK
    assert not client.connection.streams


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (frame_message(b"bad"), Status.INVALID_ARGUMENT),
        (frame_message(b"defect"), Status.INTERNAL),
        (b"\0\0\0\0\5ab", Status.INTERNAL),
        (b"\0\0\0\5\0", Status.RESOURCE_EXHAUSTED),
    ],
)
def test_a_streaming_call_that_fails(body: bytes, expected: Status) -> None:
    Repeat.cancelled = 0
    client = Client()
    _, fields = client.ask(body, REPEAT)
    assert status(fields) == expected
    assert Repeat.cancelled == 1
    assert client.options.budget.used == 0


def test_a_streaming_call_has_the_clients_deadline() -> None:
    clock = [0.0]
    client = Client(clock=lambda: clock[0])
    client.connection.feed(headers(1, call(path="/a.A/Repeat", grpc_timeout="1S")))
    clock[0] = 2.0
    assert [each.kind for each in read(client.connection.expire())] == [
        FrameType.HEADERS,
        FrameType.RST_STREAM,
    ]


def test_a_reset_cancels_a_streaming_call() -> None:
    Repeat.cancelled = 0
    client = Client()
    client.connection.feed(headers(1, REPEAT))
    client.connection.feed(frame(FrameType.RST_STREAM, 0, 1, b"\0\0\0\x08"))
    assert Repeat.cancelled == 1


def test_an_empty_piece_of_a_message_changes_nothing() -> None:
    client = Client()
    client.send(headers(1, CALL) + data(1, b"", end=False))
    assert client.send(data(1, frame_message(b"a")))[0] == [b"a"]
    client.send(headers(3, REPEAT) + data(3, b"", end=False))
    assert status(client.send(data(3))[1]) == Status.OK


def test_the_paths_of_all_methods_are_known() -> None:
    services = Services({"/a.A/Echo": bytes}, {"/a.A/Repeat": Repeat})
    assert list(services.paths) == ["/a.A/Echo", "/a.A/Repeat"]


def test_a_refusal_of_a_cancelled_call_is_forgotten() -> None:
    client = Client()
    client.send(settings((Setting.INITIAL_WINDOW_SIZE, 0)))
    client.send(headers(1, call(path="/a.A/No")))
    client.connection.lost()
    assert not client.connection.streams


@pytest.mark.parametrize("how", ["reset", "lost"])
def test_a_call_that_ends_early_cancels_its_method(how: str) -> None:
    cancellations: list[Cancellation] = []

    class Slow:
        def run(
            self,
            method: Method,
            message: bytes,
            done: Callable[[bytes | GrpcError], None],
            cancellation: Cancellation,
        ) -> bytes | GrpcError | None:
            cancellations.append(cancellation)
            return None

    services = Services({"/a.A/Echo": lambda message: message}, runner=Slow())
    connection = Connection(services, clock=lambda: 0.0, on_expired=expire)
    connection.feed(PREFACE + settings())
    connection.feed(headers(1, CALL) + data(1, frame_message(b"abc")))
    assert [each.is_cancelled for each in cancellations] == [False]
    if how == "reset":
        connection.feed(reset(1))
    else:
        connection.lost()
    assert [each.is_cancelled for each in cancellations] == [True]
