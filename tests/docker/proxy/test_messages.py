"""Heads are read strictly: what two readers could read differently is refused."""

from __future__ import annotations

import pytest

from doorward.docker.proxy.messages import (
    HeadError,
    parse_request_head,
    parse_response_head,
    write_head,
)

HOST = b"\r\nHost: x"


def test_head_is_read_with_repeated_fields() -> None:
    head = parse_request_head(b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nX-A:  1 \r\nx-a: 2")
    assert (head.method, head.target, head.length) == ("POST", "/a?b=c", 0)
    assert head.fields == [("host", "x"), ("x-a", "1"), ("x-a", "2")]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"GET / HTTP/1.0" + HOST, 505),
        (b"GET  / HTTP/1.1" + HOST, 400),
        (b"GET / HTTP/1.1 " + HOST, 400),
        (b"get / HTTP/1.1" + HOST, 400),
        (b"GET http://x/_ping HTTP/1.1" + HOST, 400),
        (b"GET /\xe9 HTTP/1.1" + HOST, 400),
        (b"OPTIONS * HTTP/1.1" + HOST, 400),
        (b"GET / HTTP/1.1", 400),
        (b"GET / HTTP/1.1" + HOST + HOST, 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\n folded: 1", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nX : 1", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nX", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\n: 1", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nX: a\nY: b", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nX: a\rY: b", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nX: \x00", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nContent-Length: 1\r\nContent-Length: 1", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nContent-Length: +1", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nContent-Length: 1, 1", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nContent-Length: 0x1", 400),
        (b"GET / HTTP/1.1" + HOST + "\r\nContent-Length: \u0661".encode(), 400),
        (
            b"GET / HTTP/1.1" + HOST + b"\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
            400,
        ),
        (b"GET / HTTP/1.1" + HOST + b"\r\nTransfer-Encoding: gzip, chunked", 501),
        (b"GET / HTTP/1.1" + HOST + b"\r\nTransfer-Encoding: chunked\r\n" * 2, 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nX: 1" * 300, 431),
    ],
)
def test_head_that_could_be_read_in_two_ways_is_refused(content: bytes, status: int) -> None:
    with pytest.raises(HeadError) as caught:
        parse_request_head(content)
    assert caught.value.status == status


def test_protocol_that_a_client_asks_for() -> None:
    lines = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: %b\r\nUpgrade: TCP"
    assert parse_request_head(lines % b"keep-alive, Upgrade").upgrade == "tcp"
    assert parse_request_head(lines % b"keep-alive").upgrade == ""


@pytest.mark.parametrize(
    "content", [b"HTTP/1.0 200 OK", b"HTTP/1.1 099 X", b"HTTP/1.1 200 OK\r\nX", b"", b"HTTP/2 200"]
)
def test_answer_that_is_not_http_is_refused(content: bytes) -> None:
    with pytest.raises(HeadError) as caught:
        parse_response_head(content)
    assert caught.value.status >= 400


def test_length_of_an_answer() -> None:
    assert parse_response_head(b"HTTP/1.1 200 OK").length is None
    assert parse_response_head(b"HTTP/1.1 200 OK\r\nContent-Length: 7").length == 7
    chunked = parse_response_head(b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked")
    assert (chunked.length, chunked.keeps_alive) == (-1, True)


def test_head_is_written() -> None:
    assert write_head(404, [("A", "b")]) == b"HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n"
    assert write_head("GET / HTTP/1.1", []) == b"GET / HTTP/1.1\r\n\r\n"
    assert write_head(499, []) == b"HTTP/1.1 499 \r\n\r\n"
