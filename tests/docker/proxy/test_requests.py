"""The head of a request as it is decided, and as the daemon gets it."""

from __future__ import annotations

import pytest

from doorward.docker.proxy.answers import View
from doorward.docker.proxy.messages import parse_request_head
from doorward.docker.proxy.requests import read_request, to_authz, write_request
from doorward.docker.request.call import Caller

ANN = Caller("ann", "peer")
ALL = View(True, "")


def head(line: str, *fields: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: h", *fields]).encode()


@pytest.mark.parametrize(
    ("line", "body", "headers"),
    [
        ("GET /info", None, {"content-length": "0"}),
        ("POST /containers/c/stop", None, {"content-length": "0"}),
        ("POST /containers/create", b"{}", {"content-type": "application/json"}),
        ("POST /images/load", None, {}),
    ],
)
def test_a_stream_has_no_length_for_the_policy(
    line: str, body: bytes | None, headers: dict[str, str]
) -> None:
    reading = read_request(parse_request_head(head(line)))
    assert to_authz(reading, ANN, body).headers == headers


UPGRADE = ("Connection: Upgrade", "Upgrade: h2c")
LENGTH, CHUNKED = "Content-Length: 7", "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("line", "fields", "framing"),
    [
        ("GET /info", (), {}),
        ("GET /info", (LENGTH,), {}),
        ("POST /containers/c/stop", (LENGTH,), {"content-length": "0"}),
        (
            "POST /images/load",
            (LENGTH,),
            {"content-type": "application/x-tar", "content-length": "7"},
        ),
        (
            "POST /images/load",
            (CHUNKED,),
            {"content-type": "application/x-tar", "transfer-encoding": "chunked"},
        ),
        ("POST /images/load", (), {"content-length": "0"}),
        # The body of what is taken over was read, and is not sent.
        ("POST /session", (*UPGRADE, LENGTH), {"content-length": "0"}),
        ("POST /session", (*UPGRADE, CHUNKED), {"content-length": "0"}),
        ("POST /grpc", (*UPGRADE, LENGTH), {"content-length": "0"}),
    ],
)
def test_the_daemon_is_told_of_the_body_that_it_gets(
    line: str, fields: tuple[str, ...], framing: dict[str, str]
) -> None:
    reading = read_request(parse_request_head(head(line, *fields)))
    upstream = write_request(reading, None, None, ALL)
    assert upstream.body == b""
    lines = upstream.head.decode().rstrip().split("\r\n")[1:]
    written = {name.lower(): value for name, _, value in [each.partition(": ") for each in lines]}
    names = ("content-type", "content-length", "transfer-encoding")
    assert {name: written[name] for name in names if name in written} == framing
