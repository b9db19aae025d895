"""Requests that are attacks by how they arrive, and so cannot stand in the matrix."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest
from tests.acceptance.conftest import Run
from tests.waiting import PATIENCE

from acceptance.row import person

LIMIT = 8192
PAUSE = 0.3  # between two parts of a request: mostly long enough to read the first alone
QUIET = 2.0  # without a byte, after an answer


def test_a_chunked_body_cannot_go_on_after_the_limit(run: Run) -> None:
    seen = person("Charlie").ljust(LIMIT)
    with _unreached(run):
        head = _head(run, "POST", "admin", "transfer-encoding: chunked")
        chunks = (b"%x\r\n%s\r\n" % (LIMIT, seen), b"5\r\n12345\r\n0\r\n\r\n")
        assert _status(_exchange(run, (head, *chunks))) == 400


def test_a_body_cannot_be_longer_than_what_the_policy_saw_of_it(run: Run) -> None:
    seen = person("Charlie").ljust(LIMIT)
    with _unreached(run):
        head = _head(run, "POST", "admin", f"content-length: {LIMIT + 5}")
        assert _status(_exchange(run, (head + seen, b"12345"))) == 400


def test_a_body_that_never_ends_gets_no_further(run: Run) -> None:
    with _unreached(run):
        head = _head(run, "POST", "admin", "content-length: 100")
        assert _exchange(run, (head + b"{",), within=1.0) == b""


def test_each_request_of_a_connection_is_decided_alone(run: Run) -> None:
    arrived = len(run.stack.arrivals())
    first = _head(run, "GET", "guest")
    second = b"DELETE /people/1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answers = _exchange(run, (first + second,))
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 403 " in answers
    assert run.stack.arrivals()[arrived:] == ["GET /people 200"]


@pytest.mark.parametrize(
    "framing",
    [
        ("content-length: 4", "transfer-encoding: chunked"),
        ("content-length: 4", "content-length: 40"),
        ("transfer-encoding: chunked, identity",),
        ("transfer-encoding: xchunked",),
        ("transfer-encoding : chunked",),
        ("content-length: +4",),
    ],
)
def test_a_request_cannot_be_smuggled_in_a_body(run: Run, framing: Sequence[str]) -> None:
    smuggled = b"0\r\n\r\nDELETE /people/1 HTTP/1.1\r\nhost: x\r\n\r\n"
    with _unreached(run):
        answer = _exchange(run, (_head(run, "POST", "guest", *framing) + smuggled,))
        assert _status(answer) in {400, 501}


@contextmanager
def _unreached(run: Run) -> Iterator[None]:
    arrived = run.stack.arrivals()
    yield
    assert run.stack.arrivals() == arrived


def _head(run: Run, method: str, token: str, *headers: str) -> bytes:
    lines = [
        f"{method} /people HTTP/1.1",
        "host: x",
        f"authorization: Bearer {run.tokens[token]}",
        "content-type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def _exchange(run: Run, parts: Sequence[bytes], within: float = PATIENCE) -> bytes:
    """What comes back; what was denied for want of time, which Envoy has little of, is repeated."""
    until = time.monotonic() + PATIENCE
    while True:
        answer = _exchange_once(run, parts, within)
        if not answer.startswith(b"HTTP/1.1 403 ") or time.monotonic() > until:
            return answer


def _exchange_once(run: Run, parts: Sequence[bytes], within: float) -> bytes:
    """What comes back until the connection ends, or nothing more does."""
    with closing(socket.create_connection(("127.0.0.1", run.stack.ports.envoy))) as connection:
        connection.settimeout(within)
        for number, part in enumerate(parts):
            time.sleep(PAUSE if number else 0)
            connection.sendall(part)
        received = b""
        try:
            while chunk := connection.recv(65536):
                received += chunk
                connection.settimeout(QUIET if b"\r\n\r\n" in received else within)
        except (TimeoutError, ConnectionResetError):
            pass
        return received
