"""The rules of RFC 9113, frame by frame, and the bounds of a connection."""

from __future__ import annotations

import pytest
from tests.transport.http2.frames import (
    GET,
    POST,
    Echo,
    connected,
    data,
    errors,
    frame,
    headers,
    read,
    reset,
    settings,
    window_update,
)

from doorward.transport.http2.codes import ErrorCode, Flag, FrameType, Setting
from doorward.transport.http2.connection import PREFACE, Connection
from doorward.transport.http2.hpack import encode
from doorward.transport.http2.limits import Limits
from doorward.transport.http2.streams import Stream

REQUEST = headers(1) + data(1, b"hello")


def body_of(written: bytes, stream: int = 1) -> bytes:
    return b"".join(
        each.payload
        for each in read(written)
        if each.kind == FrameType.DATA and each.stream == stream
    )


def is_closed(connection: Connection) -> bool:
    return connection.closed


def is_drained(connection: Connection) -> bool:
    return connection.drained


def is_complete(written: bytes, stream: int = 1) -> bool:
    return any(each.stream == stream and each.flags & Flag.END_STREAM for each in read(written))


def test_a_request_is_answered() -> None:
    connection, echo = connected()
    written = connection.feed(REQUEST)
    assert body_of(written) == b"hello"
    assert is_complete(written)
    assert not connection.streams
    assert echo.resolved[0].path == b"/echo"


@pytest.mark.parametrize("size", [1, 2, 5, 9, 10])
def test_bytes_may_come_in_any_pieces(size: int) -> None:
    echo = Echo()
    connection = Connection(echo)
    wire = PREFACE + settings() + REQUEST + headers(3) + data(3, b"again")
    written = b"".join(connection.feed(wire[at : at + size]) for at in range(0, len(wire), size))
    assert body_of(written) == b"hello"
    assert body_of(written, 3) == b"again"


def test_the_servers_preface_is_its_settings() -> None:
    written = Connection(Echo()).feed(PREFACE)
    first = next(read(written))
    assert (first.kind, first.flags) == (FrameType.SETTINGS, 0)


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"\0"])
def test_another_protocol_is_closed(start: bytes) -> None:
    connection = Connection(Echo())
    connection.feed(start)
    assert connection.closed


def test_a_block_that_is_known_is_not_decoded_again() -> None:
    connection, echo = connected()
    for stream in (1, 3, 5):
        connection.feed(headers(stream) + data(stream))
    assert len(echo.resolved) == 1


def test_a_known_block_is_decoded_again_once_the_table_has_changed() -> None:
    connection, echo = connected()
    entry = encode(POST)
    connection.feed(headers(1, entry + b"\x40\x01a\x011") + data(1))
    connection.feed(headers(3, entry + b"\xbe") + data(3))
    connection.feed(headers(5, entry + b"\xbe") + data(5))
    assert [request.get(b"a") for request in echo.resolved] == [b"1", b"1"]
    connection.feed(headers(7, entry + b"\x40\x01a\x012") + data(7))
    connection.feed(headers(9, entry + b"\xbe") + data(9))
    assert echo.resolved[-1].get(b"a") == b"2"


def test_trailers_that_change_the_table_make_known_blocks_unknown() -> None:
    connection, echo = connected()
    connection.feed(headers(1, encode(POST) + b"\x40\x01a\x011") + data(1))
    connection.feed(headers(3, encode(POST) + b"\xbe") + data(3))
    connection.feed(headers(5) + headers(5, b"\x40\x01a\x012", Flag.END_STREAM))
    connection.feed(headers(7, encode(POST) + b"\xbe") + data(7))
    assert echo.resolved[-1].get(b"a") == b"2"


@pytest.mark.parametrize(
    "first", [frame(FrameType.PING, 0, 0, b"\0" * 8), frame(FrameType.SETTINGS, Flag.ACK)]
)
def test_the_first_frame_is_settings(first: bytes) -> None:
    connection = Connection(Echo())
    assert errors(connection.feed(PREFACE + first)) == [("connection", 0, ErrorCode.PROTOCOL_ERROR)]


def test_nothing_is_read_behind_a_connection_error() -> None:
    connection, echo = connected()
    connection.feed(headers(1, [*POST, (b"content-length", b"1")]) + data(0) + REQUEST)
    assert echo.answered == []
    assert connection.expire() == b""
    assert connection.shutdown() == b""
    assert connection.close() == b""


def test_a_known_stream_that_was_refused_may_still_send_trailers() -> None:
    connection, _ = connected()
    connection.feed(headers(1, [*POST, (b"X", b"")]))
    assert connection.feed(headers(1, [(b"t", b"1")], Flag.END_STREAM)) == b""


def test_an_application_may_end_the_connection() -> None:
    class Ending(Echo):
        def open(self, stream: Stream) -> None:
            connection.close()

    echo = Ending()
    connection = Connection(echo)
    connection.feed(PREFACE + settings() + headers(1) + headers(3))
    assert len(echo.resolved) == 1
    assert is_closed(connection)


def test_a_request_with_trailers_and_a_length_is_answered() -> None:
    connection, echo = connected()
    fields = [*POST, (b"content-length", b"5")]
    trailers = headers(1, [(b"t", b"1")], Flag.END_STREAM)
    connection.feed(headers(1, fields) + data(1, b"he", end=False))
    connection.feed(data(1, b"llo", end=False) + trailers)
    assert echo.answered == [b"hello"]


def test_a_request_in_one_frame_is_answered() -> None:
    connection, echo = connected()
    connection.feed(headers(1, [*GET, (b"content-length", b"0")], Flag.END_STREAM))
    assert echo.answered == [b""]


def test_a_priority_is_read_over() -> None:
    connection, echo = connected()
    block = b"\0\0\0\0\x0f" + encode(POST)
    connection.feed(headers(1, block, Flag.PRIORITY) + data(1, b"body"))
    assert echo.answered == [b"body"]


def test_a_client_that_goes_away_is_still_answered() -> None:
    connection, _ = connected()
    away = frame(FrameType.GOAWAY, 0, 0, b"\0" * 8)
    assert body_of(connection.feed(away + REQUEST)) == b"hello"


def test_a_connection_is_closed_at_once() -> None:
    connection, echo = connected()
    connection.feed(headers(1))
    last = next(read(connection.close()))
    assert last.payload[:4] == b"\0\0\0\x01"
    assert echo.aborted == [1]
    silent = Connection(echo)
    assert silent.close() == b""


def test_output_outside_of_feed_is_announced() -> None:
    told: list[bytes] = []
    echo = Echo()
    connection = Connection(echo, on_output=lambda: told.append(connection.take()))
    connection.feed(PREFACE + settings() + headers(1) + headers(3))
    late, last = connection.streams.values()
    late.sender.respond(late, Echo.HEADERS, b"late", Echo.TRAILERS)
    last.sender.finish(last, Echo.TRAILERS)
    assert body_of(b"".join(told)) == b"late"
    assert is_complete(b"".join(told), 3)


def test_a_stream_is_reset_once() -> None:
    connection, _ = connected()
    connection.feed(headers(1))
    stream = connection.streams[1]
    stream.sender.reset(stream, ErrorCode.CANCEL)
    stream.sender.reset(stream, ErrorCode.CANCEL)
    assert errors(connection.take()) == [("stream", 1, ErrorCode.CANCEL)]


def test_an_expired_stream_that_its_application_leaves_is_reset() -> None:
    clock = [0.0]
    expired: list[int] = []
    connection = Connection(
        Echo(), clock=lambda: clock[0], on_expired=lambda stream: expired.append(stream.id)
    )
    connection.feed(PREFACE + settings() + headers(1))
    connection.streams[1].deadline = 1.0
    clock[0] = 2.0
    assert errors(connection.expire()) == [("stream", 1, ErrorCode.CANCEL)]
    assert expired == [1]


CONNECTION_ERRORS = {
    "data-on-0": (data(0), ErrorCode.PROTOCOL_ERROR),
    "data-idle": (data(1), ErrorCode.PROTOCOL_ERROR),
    "data-even": (data(2), ErrorCode.PROTOCOL_ERROR),
    "data-padding": (
        headers(1) + frame(FrameType.DATA, Flag.PADDED, 1, b"\x05abc"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "data-no-padding": (
        headers(1) + frame(FrameType.DATA, Flag.PADDED, 1),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "data-after-end": (REQUEST + data(1), ErrorCode.STREAM_CLOSED),
    "headers-on-0": (headers(0), ErrorCode.PROTOCOL_ERROR),
    "headers-even": (headers(2), ErrorCode.PROTOCOL_ERROR),
    "headers-after-end": (REQUEST + headers(1, flags=Flag.END_STREAM), ErrorCode.STREAM_CLOSED),
    "headers-padding": (
        frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.PADDED, 1, b"\x05ab"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "headers-lower": (headers(3) + data(3) + headers(1), ErrorCode.STREAM_CLOSED),
    "headers-priority-cut": (
        frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.PRIORITY, 1, b"\0\0"),
        ErrorCode.FRAME_SIZE_ERROR,
    ),
    "headers-on-itself": (
        frame(
            FrameType.HEADERS, Flag.END_HEADERS | Flag.PRIORITY, 1, b"\0\0\0\x01\0" + encode(POST)
        ),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "compression": (headers(1, b"\x80"), ErrorCode.COMPRESSION_ERROR),
    "interrupted": (
        frame(FrameType.HEADERS, 0, 1, encode(POST)) + data(1),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "continuation-alone": (frame(FrameType.CONTINUATION, 4, 1), ErrorCode.PROTOCOL_ERROR),
    "continuation-other": (
        frame(FrameType.HEADERS, 0, 1, encode(POST)) + frame(FrameType.CONTINUATION, 4, 3),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "continuation-flood": (
        frame(FrameType.HEADERS, 0, 1, encode(POST))
        + frame(FrameType.CONTINUATION, 0, 1, b"\x82" * 16_000) * 3,
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "priority-on-0": (frame(FrameType.PRIORITY, 0, 0, b"\0" * 5), ErrorCode.PROTOCOL_ERROR),
    "priority-size": (frame(FrameType.PRIORITY, 0, 1, b"\0" * 4), ErrorCode.FRAME_SIZE_ERROR),
    "priority-on-itself": (
        frame(FrameType.PRIORITY, 0, 1, b"\0\0\0\x01\0"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "reset-idle": (reset(1), ErrorCode.PROTOCOL_ERROR),
    "reset-on-0": (reset(0), ErrorCode.PROTOCOL_ERROR),
    "reset-size": (frame(FrameType.RST_STREAM, 0, 1, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    "settings-stream": (frame(FrameType.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
    "settings-size": (frame(FrameType.SETTINGS, 0, 0, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    "settings-ack": (frame(FrameType.SETTINGS, 1, 0, b"\0" * 6), ErrorCode.FRAME_SIZE_ERROR),
    "settings-window": (
        settings((Setting.INITIAL_WINDOW_SIZE, 2**31)),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "settings-push": (settings((Setting.ENABLE_PUSH, 2)), ErrorCode.PROTOCOL_ERROR),
    "settings-frame": (settings((Setting.MAX_FRAME_SIZE, 100)), ErrorCode.PROTOCOL_ERROR),
    "push": (frame(FrameType.PUSH_PROMISE, 4, 1), ErrorCode.PROTOCOL_ERROR),
    "ping-stream": (frame(FrameType.PING, 0, 1, b"\0" * 8), ErrorCode.PROTOCOL_ERROR),
    "ping-size": (frame(FrameType.PING, 0, 0, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    "goaway-stream": (frame(FrameType.GOAWAY, 0, 1, b"\0" * 8), ErrorCode.PROTOCOL_ERROR),
    "goaway-size": (frame(FrameType.GOAWAY, 0, 0, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    "window-size": (frame(FrameType.WINDOW_UPDATE, 0, 0, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    "window-0": (window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
    "window-idle": (window_update(1, 1), ErrorCode.PROTOCOL_ERROR),
    "window-overflow": (window_update(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    "frame-size": (frame(99, 0, 0, b"\0" * 16_385), ErrorCode.FRAME_SIZE_ERROR),
}


@pytest.mark.parametrize("name", CONNECTION_ERRORS)
def test_a_connection_error_ends_the_connection(name: str) -> None:
    wire, code = CONNECTION_ERRORS[name]
    connection, _ = connected()
    assert errors(connection.feed(wire))[-1] == ("connection", 0, code)
    assert connection.closed
    assert connection.feed(REQUEST) == b""


STREAM_ERRORS = {
    "uppercase": (headers(1, [*POST, (b"X", b"")]), ErrorCode.PROTOCOL_ERROR),
    "colon": (headers(1, [*POST, (b"a:b", b"")]), ErrorCode.PROTOCOL_ERROR),
    "no-name": (headers(1, [*POST, (b"", b"")]), ErrorCode.PROTOCOL_ERROR),
    "line-break": (headers(1, [*POST, (b"x", b"a\nb")]), ErrorCode.PROTOCOL_ERROR),
    "space": (headers(1, [*POST, (b"x", b" a")]), ErrorCode.PROTOCOL_ERROR),
    "pseudo-late": (headers(1, [(b"x", b""), *POST]), ErrorCode.PROTOCOL_ERROR),
    "pseudo-unknown": (headers(1, [*POST, (b":x", b"")]), ErrorCode.PROTOCOL_ERROR),
    "pseudo-twice": (headers(1, [*POST, POST[0]]), ErrorCode.PROTOCOL_ERROR),
    "pseudo-missing": (headers(1, POST[:2]), ErrorCode.PROTOCOL_ERROR),
    "pseudo-empty": (headers(1, [*POST[:2], (b":path", b"")]), ErrorCode.PROTOCOL_ERROR),
    "connection": (headers(1, [*POST, (b"connection", b"close")]), ErrorCode.PROTOCOL_ERROR),
    "te": (headers(1, [*POST, (b"te", b"gzip")]), ErrorCode.PROTOCOL_ERROR),
    "host": (headers(1, [*POST, (b"host", b"b")]), ErrorCode.PROTOCOL_ERROR),
    "length-text": (headers(1, [*POST, (b"content-length", b"x")]), ErrorCode.PROTOCOL_ERROR),
    "length-twice": (
        headers(1, [*POST, (b"content-length", b"1"), (b"content-length", b"2")]),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "length-more": (
        headers(1, [*POST, (b"content-length", b"1")]) + data(1, b"12"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "length-less": (
        headers(1, [*POST, (b"content-length", b"3")]) + data(1, b"12"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "length-none": (
        headers(1, [*POST, (b"content-length", b"3")], Flag.END_STREAM),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "trailers-open": (headers(1) + headers(1, [(b"a", b"b")]), ErrorCode.PROTOCOL_ERROR),
    "trailers-too-large": (
        headers(1) + headers(1, [(b"x", b"y")] * 500, Flag.END_STREAM),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "trailers-cut-the-body": (
        headers(1, [*POST, (b"content-length", b"3")])
        + headers(1, [(b"a", b"b")], Flag.END_STREAM),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "trailers-pseudo": (headers(1) + headers(1, GET, Flag.END_STREAM), ErrorCode.PROTOCOL_ERROR),
    "window-0": (headers(1) + window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
    "window-overflow": (headers(1) + window_update(1, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    "after-reset": (headers(1) + reset(1) + data(1), ErrorCode.STREAM_CLOSED),
}


@pytest.mark.parametrize("name", STREAM_ERRORS)
def test_a_stream_error_ends_the_stream_alone(name: str) -> None:
    wire, code = STREAM_ERRORS[name]
    connection, echo = connected()
    assert errors(connection.feed(wire)) == [("stream", 1, code)]
    assert not echo.answered
    assert body_of(connection.feed(headers(3) + data(3, b"x")), 3) == b"x"


def test_a_frame_of_a_stream_that_is_answered_ends_the_connection() -> None:
    connection, _ = connected()
    connection.feed(REQUEST)
    assert errors(connection.feed(data(1))) == [("connection", 0, ErrorCode.STREAM_CLOSED)]


def test_frames_of_a_stream_that_was_refused_are_ignored() -> None:
    connection, _ = connected()
    connection.feed(headers(1, [*POST, (b"X", b"")]))
    assert connection.feed(data(1, b"abc")) == b""
    assert not connection.closed


def test_a_request_without_a_body_over_the_limit_needs_no_reset() -> None:
    connection, _ = connected(Limits(header_list_size=100))
    fields = [*POST, (b"x", b"y" * 100)]
    written = list(read(connection.feed(headers(1, fields, Flag.END_STREAM))))
    assert [each.kind for each in written] == [FrameType.HEADERS]


def test_a_reset_and_a_window_update_of_a_closed_stream_are_ignored() -> None:
    connection, _ = connected()
    connection.feed(REQUEST)
    assert connection.feed(reset(1) + window_update(1, 5)) == b""


def test_a_larger_window_of_streams_may_be_too_large() -> None:
    connection, _ = connected()
    connection.feed(headers(1) + window_update(1, 2**31 - 1 - 65_535))
    assert errors(connection.feed(settings((Setting.INITIAL_WINDOW_SIZE, 65_536)))) == [
        ("connection", 0, ErrorCode.FLOW_CONTROL_ERROR)
    ]


def test_a_header_list_that_is_too_large_gets_431() -> None:
    connection, echo = connected(Limits(header_list_size=100))
    written = list(read(connection.feed(headers(1, [*POST, (b"x", b"y" * 100)]))))
    assert [each.kind for each in written] == [FrameType.HEADERS, FrameType.RST_STREAM]
    assert not echo.resolved


def test_streams_over_the_limit_are_refused() -> None:
    connection, _ = connected(Limits(max_concurrent_streams=2))
    written = connection.feed(headers(1) + headers(3) + headers(5))
    assert errors(written) == [("stream", 5, ErrorCode.REFUSED_STREAM)]
    assert body_of(connection.feed(data(1, b"x"))) == b"x"
    assert errors(connection.feed(headers(7))) == []


def test_a_request_that_is_reset_in_the_same_bytes_is_not_answered() -> None:
    connection, echo = connected()
    assert connection.feed(REQUEST + reset(1)) == b""
    assert echo.answered == []
    assert echo.aborted == [1]


# Flow control


def test_a_response_waits_for_the_windows_and_goes_on() -> None:
    connection, _ = connected(None, (Setting.INITIAL_WINDOW_SIZE, 10))
    body = b"0123456789abcdef"
    assert body_of(written := connection.feed(headers(1) + data(1, body))) == body[:10]
    assert not is_complete(written)
    assert body_of(connection.feed(window_update(1, 3))) == body[10:13]
    written = connection.feed(settings((Setting.INITIAL_WINDOW_SIZE, 13)))
    assert body_of(written) == body[13:]
    assert is_complete(written)


def test_a_window_may_become_negative() -> None:
    connection, _ = connected(None, (Setting.INITIAL_WINDOW_SIZE, 10))
    connection.feed(headers(1) + data(1, b"x" * 30))
    assert body_of(connection.feed(settings((Setting.INITIAL_WINDOW_SIZE, 0)))) == b""
    assert body_of(connection.feed(window_update(1, 10))) == b""
    assert body_of(connection.feed(window_update(1, 5))) == b"x" * 5


def test_a_response_larger_than_the_connection_window_shares_it() -> None:
    connection, _ = connected(None, (Setting.INITIAL_WINDOW_SIZE, 1_000_000))
    bodies = {1: b"a" * 60_000, 3: b"b" * 60_000}
    written = b""
    for stream, body in bodies.items():
        pieces = [
            data(stream, body[at : at + 10_000], end=at == 50_000)
            for at in range(0, 60_000, 10_000)
        ]
        written += connection.feed(headers(stream) + b"".join(pieces))
    assert sum(len(body_of(written, stream)) for stream in bodies) == 65_535
    written += connection.feed(window_update(0, 100_000))
    assert {stream: body_of(written, stream) for stream in bodies} == bodies


def test_frames_of_a_response_have_the_clients_size() -> None:
    connection, _ = connected(None, (Setting.MAX_FRAME_SIZE, 16_384))
    pieces = b"".join(data(1, b"x" * 10_000, end=at == 3) for at in range(4))
    sizes = [
        len(each.payload)
        for each in read(connection.feed(headers(1) + pieces))
        if each.kind == FrameType.DATA
    ]
    assert sizes == [16_384, 16_384, 7_232]


def test_the_windows_of_a_long_request_are_restored() -> None:
    connection, echo = connected(Limits(stream_window=100_000, connection_window=200_000))
    written = connection.feed(headers(1))
    for _ in range(100):
        written += connection.feed(data(1, b"x" * 10_000, end=False))
    connection.feed(data(1))
    assert len(echo.answered[0]) == 1_000_000
    granted = {0: 0, 1: 0}
    for each in read(written):
        assert each.kind == FrameType.WINDOW_UPDATE
        granted[each.stream] += int.from_bytes(each.payload, "big")
    assert granted[0] > 700_000
    assert granted[1] > 800_000


def test_data_past_the_windows_is_an_error() -> None:
    connection, _ = connected(Limits(stream_window=65_535, connection_window=10**6))
    connection._receive_window = 10**6
    connection.feed(headers(1))
    connection.streams[1].receive_window = 5
    assert errors(connection.feed(data(1, b"123456"))) == [
        ("stream", 1, ErrorCode.FLOW_CONTROL_ERROR)
    ]
    connection.feed(headers(3))
    connection._receive_window = 5
    assert errors(connection.feed(data(3, b"123456"))) == [
        ("connection", 0, ErrorCode.FLOW_CONTROL_ERROR)
    ]


def test_padding_counts_for_the_window_and_not_for_the_body() -> None:
    connection, _ = connected()
    padded = frame(FrameType.DATA, Flag.PADDED | Flag.END_STREAM, 1, b"\x03abc\0\0\0")
    assert body_of(connection.feed(headers(1) + padded)) == b"abc"


# Floods


@pytest.mark.parametrize(
    "flood",
    [
        settings() * 3000,
        settings((Setting.INITIAL_WINDOW_SIZE, 5)) * 1500,
        frame(FrameType.PING, 0, 0, b"\0" * 8) * 3000,
        frame(FrameType.PRIORITY, 0, 1, b"\0" * 5) * 3000,
        frame(99) * 3000,
        headers(1) + data(1, end=False) * 3000,
        headers(1) + window_update(1, 1) * 3000,
        b"".join(headers(n) + reset(n) for n in range(1, 1001, 2)),
        b"".join(headers(n, [*POST, (b"X", b"")]) for n in range(1, 1001, 2)),
        headers(1) + reset(1) + data(1, end=False) * 3000,
    ],
    ids=[
        "settings",
        "settings-window",
        "ping",
        "priority",
        "unknown",
        "empty-data",
        "window",
        "rapid-reset",
        "malformed",
        "closed",
    ],
)
def test_a_flood_ends_the_connection(flood: bytes) -> None:
    connection, _ = connected()
    assert errors(connection.feed(flood))[-1][2] == ErrorCode.ENHANCE_YOUR_CALM


def test_frames_that_come_with_requests_or_slowly_are_no_flood() -> None:
    clock = [0.0]
    connection, echo = connected(clock=clock)
    ping = frame(FrameType.PING, 0, 0, b"\0" * 8)
    for stream in range(1, 20_001, 2):
        connection.feed(ping * 2 + headers(stream) + data(stream, b"x") + window_update(0, 1))
    assert len(echo.answered) == 10_000
    for _ in range(10):
        clock[0] += 1
        connection.feed(ping * 900)
    assert not connection.closed


def test_what_is_kept_of_closed_streams_is_bounded() -> None:
    clock = [0.0]
    connection, _ = connected(clock=clock)
    for stream in range(1, 10_001, 2):
        clock[0] += 0.1
        connection.feed(headers(stream) + reset(stream))
    assert len(connection._sender.closed) <= 1_000


# Deadlines and the end


def test_a_preface_and_a_header_block_have_a_deadline() -> None:
    clock = [0.0]
    silent = Connection(Echo(), clock=lambda: clock[0])
    silent.feed(PREFACE[:5])
    cut, _ = connected(clock=clock)
    cut.feed(frame(FrameType.HEADERS, 0, 1, encode(POST)))
    clock[0] = 4.0
    silent.expire()
    cut.expire()
    assert [is_closed(silent), is_closed(cut)] == [False, False]
    clock[0] = 6.0
    silent.expire()
    cut.expire()
    assert [is_closed(silent), is_closed(cut)] == [True, True]


def test_a_response_that_nobody_reads_has_a_deadline() -> None:
    clock = [0.0]
    connection, echo = connected(None, (Setting.INITIAL_WINDOW_SIZE, 1), clock=clock)
    connection.feed(REQUEST)
    clock[0] = 31.0
    assert errors(connection.expire()) == [("stream", 1, ErrorCode.CANCEL)]
    assert echo.aborted == [1]


def test_shutdown_serves_what_is_on_its_way_and_nothing_later() -> None:
    connection, _ = connected()
    connection.feed(headers(1))
    first, ping = read(connection.shutdown())
    assert first.payload[:4] == b"\x7f\xff\xff\xff"
    assert body_of(connection.feed(headers(3) + data(3, b"late")), 3) == b"late"
    last = list(read(connection.feed(frame(FrameType.PING, Flag.ACK, 0, ping.payload))))
    assert last[0].payload[:4] == b"\0\0\0\x03"
    assert connection.feed(headers(5) + data(5)) == b""
    assert not is_drained(connection)
    assert body_of(connection.feed(data(1, b"x"))) == b"x"
    assert is_drained(connection)


def test_shutdown_does_not_wait_for_a_silent_client() -> None:
    clock = [0.0]
    connection, _ = connected(clock=clock)
    connection.shutdown()
    assert not is_drained(connection)
    clock[0] = 1.5
    connection.expire()
    assert is_drained(connection)


def test_shutdown_serves_a_client_that_has_just_connected() -> None:
    clock = [0.0]
    connection = Connection(Echo(), clock=lambda: clock[0])
    assert connection.shutdown() == b""
    assert not is_drained(connection)
    answers = connection.feed(PREFACE + settings() + headers(1) + data(1, b"x"))
    assert body_of(answers) == b"x"
    assert [each.payload[:4] for each in read(answers) if each.kind == FrameType.GOAWAY] == [
        b"\x7f\xff\xff\xff"
    ]
    silent = Connection(Echo(), clock=lambda: clock[0])
    silent.shutdown()
    clock[0] = 1.5
    assert silent.expire() == b""
    assert is_drained(silent)


def test_a_lost_connection_aborts_its_streams() -> None:
    connection, echo = connected()
    connection.feed(headers(1) + headers(3))
    connection.lost()
    assert echo.aborted == [1, 3]
    assert is_drained(connection)


def test_a_lowered_header_table_is_acknowledged_in_the_next_block() -> None:
    connection, _ = connected(None, (Setting.HEADER_TABLE_SIZE, 0))
    written = list(read(connection.feed(REQUEST)))
    assert written[0].payload[:1] == b"\x20"
    written = list(read(connection.feed(headers(3) + data(3))))
    assert written[0].payload[:1] != b"\x20"


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("between", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("acknowledges", [True, False])
def test_a_request_that_meets_the_end_is_answered_or_was_not_taken(
    before: int, between: int, after: int, *, acknowledges: bool
) -> None:
    """Clients may repeat elsewhere what comes after the last stream that a GOAWAY names."""
    clock = [0.0]
    connection, _ = connected(clock=clock)
    written = b""
    sent: list[int] = []

    def send(count: int) -> None:
        nonlocal written
        for _ in range(count):
            sent.append(2 * len(sent) + 1)
            written += connection.feed(headers(sent[-1]) + data(sent[-1], b"x"))

    send(before)
    written += connection.shutdown()
    send(between)
    if acknowledges:
        pings = [each for each in read(written) if each.kind == FrameType.PING]
        written += connection.feed(frame(FrameType.PING, Flag.ACK, 0, pings[-1].payload))
    else:
        clock[0] += 3600.0
        written += connection.expire()
    send(after)
    frames = list(read(written))
    ends = [each for each in frames if each.kind == FrameType.GOAWAY]
    last = int.from_bytes(ends[-1].payload[:4], "big")
    answered = {each.stream for each in frames if each.flags & Flag.END_STREAM and each.stream}
    assert answered == {stream for stream in sent if stream <= last}
    assert len(answered) >= before + between
