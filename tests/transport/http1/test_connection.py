"""One HTTP/1.1 connection: what is answered, what is refused, and when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.transport.http1.wire import Wire, responses

from doorward.base.cancellation import Cancellation
from doorward.edge import counts
from doorward.transport import loop as loops
from doorward.transport.http1.asgi import CANCELLATION
from doorward.transport.http1.connection import LATER, Application, HttpConnection, Respond
from doorward.transport.http1.limits import Limits
from doorward.transport.http1.messages import Request, Response
from doorward.transport.loop import Connections

TEXT = b"content-type: text/plain\r\n"


@pytest.fixture
def wire() -> Iterator[Callable[..., Wire]]:
    wires: list[Wire] = []

    def make(
        answer: Any = None, app: Any = None, limits: Limits | None = None, **options: Any
    ) -> Wire:
        application = Application(answer or (lambda *_: None), app, **options)
        wires.append(Wire(application, limits))
        return wires[-1]

    yield make
    for each in wires:
        each.abort()
        each.run()
        each.loop.close()


def echo(request: Request, _respond: object) -> Response:
    return Response(200, TEXT, request.method + b" " + request.target + b" " + request.body)


GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


def test_requests_are_answered_at_once(wire: Callable[..., Wire]) -> None:
    server = wire(echo)
    answer = server.send(POST)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
    assert answer.endswith(b"content-type: text/plain\r\ncontent-length: 10\r\n\r\nPOST /a {}")
    assert responses(server.send(GET + CHUNKED + POST)) == [
        (200, b"GET /a "),
        (200, b"POST /a {}"),
        (200, b"POST /a {}"),
    ]
    assert not server.is_closing()


@pytest.mark.parametrize("data", [POST, CHUNKED, GET, POST + CHUNKED + GET])
def test_bytes_may_come_one_by_one(wire: Callable[..., Wire], data: bytes) -> None:
    whole, split = wire(echo), wire(echo)
    whole.send(data)
    for n in range(len(data)):
        split.send(data[n : n + 1])
    assert responses(split.written) == responses(whole.written)


def test_a_head_request_has_no_body(wire: Callable[..., Wire]) -> None:
    answer = wire(echo).send(b"HEAD /a HTTP/1.1\r\nhost: x\r\n\r\n")
    assert answer.endswith(b"content-length: 8\r\n\r\n")


HOST = b"POST /a HTTP/1.1\r\nhost: x\r\n"
REFUSED = {
    "two lengths": (400, HOST + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}"),
    "a list of lengths": (400, HOST + b"content-length: 2, 2\r\n\r\n{}"),
    "a signed length": (400, HOST + b"content-length: +2\r\n\r\n{}"),
    "length and chunks": (
        400,
        HOST + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "chunks and length": (
        400,
        HOST + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n",
    ),
    "chunks twice": (
        400,
        HOST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "another coding": (501, HOST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "another coding on a line of its own": (
        501,
        HOST + b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "another coding on the last line": (
        400,
        HOST + b"transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n0\r\n\r\n",
    ),
    "an unknown coding": (501, HOST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "chunks in 1.0": (
        400,
        b"POST /a HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "a folded header": (400, HOST + b"x-a: b\r\n c\r\n\r\n"),
    "a folded first header": (400, b"GET /a HTTP/1.1\r\n host: x\r\n\r\n"),
    "a space before a colon": (400, b"GET /a HTTP/1.1\r\nhost : x\r\n\r\n"),
    "bare line feeds": (400, b"GET /a HTTP/1.1\nhost: x\n\n"),
    "a line feed in a head": (400, b"GET /a HTTP/1.1\r\nhost: x\nx-a: b\r\n\r\n"),
    "a NUL in a value": (400, b"GET /a HTTP/1.1\r\nhost: x\0\r\n\r\n"),
    "no host": (400, b"GET /a HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /a HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n"),
    "HTTP/0.9": (505, b"GET /a\r\n\r\n"),
    "HTTP/2.0": (505, b"GET /a HTTP/2.0\r\nhost: x\r\n\r\n"),
    "HTTP/1.2": (400, b"GET /a HTTP/1.2\r\nhost: x\r\n\r\n"),
    "an unknown method": (400, b"FROB /a HTTP/1.1\r\nhost: x\r\n\r\n"),
    "an unknown expectation": (417, HOST + b"expect: more\r\ncontent-length: 2\r\n\r\n{}"),
    "rubbish": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "a chunk without its size": (
        400,
        HOST + b"transfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    ),
}


@pytest.mark.parametrize(("status", "data"), REFUSED.values(), ids=list(REFUSED))
def test_what_can_be_read_in_two_ways_is_refused(
    wire: Callable[..., Wire], status: int, data: bytes
) -> None:
    reasons: list[str] = []
    server = wire(echo, on_refused=reasons.append)
    ((actual, text),) = responses(server.send(data + GET))
    assert actual == status
    assert text.startswith(b"%d " % status)
    assert text.decode().rstrip().endswith(reasons[0])
    assert b"connection: close\r\n" in server.written
    assert server.is_closing() or server.half_closed
    assert server.send(GET) == b""


def test_a_refused_request_after_a_good_one_is_no_answer_to_it(wire: Callable[..., Wire]) -> None:
    server = wire(echo)
    assert [status for status, _ in responses(server.send(POST + REFUSED["no host"][1]))] == [
        200,
        400,
    ]


# Bounds


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\nx-a: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 300 + b"\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 300,
        b"GET /a HTTP/1.1\r\nhost: x\r\nx-a: " + b"a" * 70_000,
    ],
    ids=["target", "value", "many", "many, not ended", "value, not ended"],
)
@pytest.mark.parametrize("size", [1_000_000, 1_000])
def test_a_large_head_is_refused(wire: Callable[..., Wire], head: bytes, size: int) -> None:
    server = wire(echo)
    for n in range(0, len(head), size):
        server.send(head[n : n + size])
    assert [status for status, _ in responses(server.written)] == [431]


def test_requests_behind_one_under_way_are_answered_in_order_and_bounded(
    wire: Callable[..., Wire],
) -> None:
    later: list[tuple[Request, Callable[[Request, Response], None]]] = []

    def answer(request: Request, respond: Any) -> Response:
        if request.method == b"POST":
            later.append((request, respond))
            return LATER
        return echo(request, respond)

    server = wire(answer, limits=Limits(pipelined=3))
    assert server.send(POST + GET) == b""
    assert not server.reads()
    server.send(GET + GET + GET)
    request, respond = later[0]
    respond(request, Response(201, TEXT, b"!"))
    assert responses(server.written) == [(201, b"!"), *[(200, b"GET /a ")] * 3]
    assert server.half_closed
    respond(request, Response(201, TEXT, b"!"))
    assert len(responses(server.written)) == 4


def test_data_after_the_end_is_read_for_a_while_only(wire: Callable[..., Wire]) -> None:
    server = wire(echo, limits=Limits(unread=1_000))
    server.send(HOST + b"x: a\r\n b")
    assert server.half_closed
    server.send(b"a" * 900)
    assert not server.is_closing()
    server.send(b"a" * 200)
    assert server.was_aborted()


def test_a_client_that_does_not_read_the_last_response_is_cut_off(
    wire: Callable[..., Wire],
) -> None:
    server = wire(echo)
    server.send(HOST + b"x: a\r\n b")
    for _ in range(5):
        assert not server.is_closing()
        server.advance(0.5)
    assert server.was_aborted()


def test_a_client_has_as_long_to_read_the_last_response_while_the_server_drains(
    wire: Callable[..., Wire],
) -> None:
    server = wire(echo)
    server.send(HOST + b"x: a\r\n b")
    server.connection.shutdown()
    server.advance(0.0625)
    for _ in range(32):
        assert not server.is_closing()
        server.advance(0.0625)
    assert server.was_aborted()


@pytest.mark.parametrize(
    ("sent", "limit", "status"),
    [
        (b"", "head_timeout", None),
        (b"GET /a HTTP/1.1\r\nhos", "head_timeout", None),
        (POST[:-1], "body_timeout", 408),
        (GET, "keep_alive", 200),
    ],
)
def test_a_slow_client_is_closed(
    wire: Callable[..., Wire], sent: bytes, limit: str, status: int | None
) -> None:
    limits: Any = {limit: 5.0}
    server = wire(echo, limits=Limits(**limits))
    server.send(sent)
    server.advance(4.0)
    assert not server.is_closing()
    server.advance(2.0)
    assert server.is_closing() or server.half_closed
    assert [actual for actual, _ in responses(server.written)] == (
        [] if status is None else [status]
    )


def test_a_client_that_does_not_read_is_not_read_from_and_cut_off(
    wire: Callable[..., Wire],
) -> None:
    server = wire(echo)
    server.connection.pause_writing()
    assert not server.reads()
    server.connection.resume_writing()
    assert server.reads()
    server.connection.pause_writing()
    server.advance(59.0)
    assert not server.is_closing()
    server.advance(2.0)
    assert server.was_aborted()


def test_the_connection_that_waited_longest_makes_room(wire: Callable[..., Wire]) -> None:
    connections = Connections(2)
    application = Application(lambda _request, _respond: LATER)

    def connect() -> Wire:
        each = Wire(application)
        each.connection = HttpConnection(connections, application, Limits(), each.loop)
        each.connection.connection_made(each)  # type: ignore[arg-type]  # as above
        return each

    first = connect()
    connections.now += 1
    second = connect()
    third = connect()
    assert (first.is_closing(), second.is_closing(), len(connections)) == (True, False, 2)
    second.send(GET)
    third.send(GET)
    fourth = connect()
    assert b"503 Service Unavailable: too many connections" in fourth.written
    assert not second.is_closing()
    for each in (first, second, third, fourth):
        each.abort()
        each.loop.close()


# The end of a server


def test_a_draining_connection_answers_what_comes_and_ends(wire: Callable[..., Wire]) -> None:
    server = wire(echo)
    server.connection.shutdown()
    assert b"connection: close\r\n" in server.send(GET)
    assert server.is_closing()


@pytest.mark.parametrize(("requests", "sweeps"), [(0, 40), (1, 3)])
def test_a_draining_connection_without_a_request_is_closed_later_if_it_is_new(
    wire: Callable[..., Wire], requests: int, sweeps: int
) -> None:
    server = wire(echo)
    server.send(GET * requests)
    server.connection.shutdown()
    for _ in range(sweeps):
        assert not server.is_closing()
        server.advance(0.05)
    assert server.is_closing()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET /a HTTP/1.0\r\n\r\n",
        b"GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    ],
)
def test_a_last_request_ends_the_connection(wire: Callable[..., Wire], head: bytes) -> None:
    server = wire(echo)
    assert responses(server.send(head + GET)) == [(200, b"GET /a ")]
    assert server.is_closing()


# Upgrades


@pytest.mark.parametrize(
    "body",
    [
        b"\r\n",
        b"content-length: 2\r\n\r\n{}",
        b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_an_upgrade_is_ignored_and_the_body_is_read(wire: Callable[..., Wire], body: bytes) -> None:
    server = wire(echo)
    head = b"POST /a HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: h2c\r\n"
    wanted = b"POST /a " + (b"{}" if b"{}" in body else b"")
    assert responses(server.send(head + body + GET)) == [(200, wanted)]
    assert server.is_closing()
    split = wire(echo)
    for n in range(len(head + body)):
        split.send((head + body)[n : n + 1])
    assert responses(split.written) == [(200, wanted)]


# Applications


def test_what_is_left_to_the_application_gets_there(wire: Callable[..., Wire]) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        seen.append((scope["method"], scope["path"], scope["raw_path"], scope["query_string"]))
        seen.append((message["body"], message["more_body"]))
        await send({"type": "http.response.start", "status": 201, "headers": [(b"X-A", b"b")]})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    server = wire(app=app)
    answer = server.send(POST.replace(b"/a", b"/a%20b?c=d"))
    assert seen == [("POST", "/a b", b"/a%20b", b"c=d"), (b"{}", False)]
    assert answer.startswith(b"HTTP/1.1 201 Created\r\n")
    assert b"x-a: b\r\n" in answer
    assert answer.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert not server.is_closing()
    assert server.send(POST)
    old = server.send(POST.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert old.endswith(b"connection: close\r\n\r\nonetwo")
    assert server.is_closing()


def test_a_long_body_comes_in_pieces_and_waits_for_the_application(
    wire: Callable[..., Wire],
) -> None:
    go_on = asyncio.Event()
    read: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go_on.wait()
        while True:
            message = await receive()
            read.append(message["body"])
            if not message["more_body"]:
                break
        await send(
            {"type": "http.response.start", "status": 204, "headers": [(b"content-length", b"0")]}
        )
        await send({"type": "http.response.body"})

    server = wire(app=app)
    server.send(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + b"a" * 100_000)
    assert not server.reads()
    go_on.set()
    server.run()
    assert server.reads()
    server.send(b"a" * 100_000)
    assert b"".join(read) == b"a" * 200_000
    assert responses(server.written) == [(204, b"")]
    assert responses(server.send(POST))[0][0] == 204


def test_a_client_that_waits_for_it_is_told_to_go_on(wire: Callable[..., Wire]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/a":
            await receive()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
        )
        await send({"type": "http.response.body"})

    head = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
    server = wire(app=app)
    assert server.send(head) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert responses(server.send(b"{}")) == [(200, b"")]
    refused = wire(app=app)
    answer = refused.send(head.replace(b"/a", b"/b"))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close\r\n" in answer
    assert refused.half_closed


@pytest.mark.parametrize("chunk", [b"g\r\n", b"2\r\n{}x", b"-1\r\n"])
def test_a_body_that_is_broken_while_it_is_read_is_refused(
    wire: Callable[..., Wire], chunk: bytes
) -> None:
    ends: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            assert message["more_body"]
        ends.append(message["type"])

    head = (
        b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n"
    )
    server = wire(app=app)
    assert server.send(head) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert [status for status, _ in responses(server.send(chunk))] == [400]
    server.run()
    assert ends == ["http.disconnect"]


def test_a_target_has_no_fragment(wire: Callable[..., Wire]) -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["raw_path"], scope["query_string"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    for target in (b"/a#b", b"/a?b#c?d", b"//h/a", b"http://h/a?b"):
        server = wire(app=app)
        server.send(b"GET " + target + b" HTTP/1.1\r\nhost: h\r\n\r\n")
        server.run()
    assert seen == [(b"/a#b", b""), (b"/a", b"b#c?d"), (b"//h/a", b""), (b"/a", b"b")]
    server = wire(app=app)
    assert b" 400 " in server.send(b"GET http://h/a#b HTTP/1.1\r\nhost: h\r\n\r\n")


async def failing(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/late":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
    if scope["path"] == "/short":
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc"})
    if scope["path"] == "/long":
        headers = [(b"content-length", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc"})
    if scope["path"] == "/twice":
        for _ in range(2):
            await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/body-first":
        await send({"type": "http.response.body", "body": b"abc"})
    raise LookupError


@pytest.mark.parametrize("path", [b"/late", b"/short", b"/long", b"/twice"])
def test_an_application_that_fails_midway_ends_the_connection(
    wire: Callable[..., Wire], path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = counts()["asgi"]
    server = wire(app=failing)
    with caplog.at_level(logging.CRITICAL):
        server.send(GET.replace(b"/a", path))
    assert server.was_aborted()
    assert counts()["asgi"] == before + 1


@pytest.mark.parametrize("path", [b"/a", b"/body-first"])
def test_an_application_that_fails_is_answered_for(
    wire: Callable[..., Wire], path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = wire(app=failing)
    with caplog.at_level(logging.CRITICAL):
        assert responses(server.send(GET.replace(b"/a", path))) == [
            (500, b"500 Internal Server Error\n")
        ]
    assert not server.is_closing()


def test_an_answer_that_fails_ends_the_connection(
    wire: Callable[..., Wire], caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: Request, respond: Any) -> Response:
        if request.body:
            return LATER
        raise LookupError

    before = counts()["http1"]
    with caplog.at_level(logging.CRITICAL):
        server = wire(answer)
        server.send(GET)
        assert server.was_aborted()
        pipelined = wire(answer)
        pipelined.send(POST + GET)
        current = pipelined.connection._current
        assert current is not None
        pipelined.connection.respond(current, Response(200, TEXT, b"a"))
        assert pipelined.was_aborted()
    assert counts()["http1"] == before + 2


def test_without_an_application_nothing_is_found(wire: Callable[..., Wire]) -> None:
    assert responses(wire().send(GET)) == [(404, b"404 page not found\n")]


@pytest.mark.parametrize("target", [b"CONNECT h:1", b"OPTIONS *"])
def test_a_target_that_is_no_path_is_refused(wire: Callable[..., Wire], target: bytes) -> None:
    server = wire(app=failing)
    ((status, _),) = responses(server.send(target + b" HTTP/1.1\r\nhost: x\r\n\r\n"))
    assert status == 400


def test_work_for_a_client_that_is_gone_is_cancelled(wire: Callable[..., Wire]) -> None:
    cancellations: list[Cancellation] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        cancellations.append(scope[CANCELLATION])
        while (await receive())["type"] != "http.disconnect":
            pass

    def answer(request: Request, respond: Respond) -> Response:
        request.cancellation = Cancellation()
        cancellations.append(request.cancellation)
        return LATER

    for server in (wire(app=app), wire(answer)):
        server.send(POST)
        assert not cancellations[-1].is_cancelled
        server.close()
        server.run()
        assert cancellations[-1].is_cancelled
    assert len(cancellations) == 2


def test_an_application_learns_that_the_client_is_gone(wire: Callable[..., Wire]) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    server = wire(app=app)
    server.send(POST)
    assert seen == ["http.request"]
    server.close()
    server.run()
    assert seen == ["http.request", "http.disconnect"]
    assert server.written == b""


def test_an_application_waits_for_a_client_that_does_not_read(wire: Callable[..., Wire]) -> None:
    sent: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            sent.append(number)
        await send({"type": "http.response.body"})

    server = wire(app=app)
    server.connection.pause_writing()
    server.send(GET)
    assert sent == []
    server.connection.resume_writing()
    server.run()
    assert sent == [0, 1, 2]


def test_the_loop_is_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = loops.new_loop()
    assert type(loop).__module__.startswith("uvloop")
    loop.close()
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    plain = loops.new_loop()
    assert isinstance(plain, asyncio.SelectorEventLoop)
    plain.close()


def test_framing_that_outweighs_the_body_is_refused(wire: Callable[..., Wire]) -> None:
    """Chunks of one byte pass; long extensions of chunks are bytes that nobody reads."""
    head = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    small = wire(echo)
    small.send(head)
    for _ in range(2_000):
        small.send(b"1\r\nx\r\n")
    assert responses(small.send(b"0\r\n\r\n")) == [(200, b"POST /a " + b"x" * 2_000)]
    limits = Limits()
    large = wire(echo)
    large.send(head)
    chunk = b"1;" + b"e" * 1_000 + b"\r\nx\r\n"
    answers = b"".join(large.send(chunk) for _ in range(limits.head_bytes // 1_000 + 2))
    assert [status for status, _ in responses(answers)] == [431]
    assert large.send(GET) == b""
