"""A request as it was parsed, and a response as it is written."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias

from doorward.base.cancellation import Cancellation
from doorward.transport.http1.bodies import Share

__all__ = ["Headers", "Request", "Response", "response_head"]

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Names in lower case, with their values, in order."""


class Request:
    """A request with its body, or with the part of it that was collected so far."""

    __slots__ = (
        "body",
        "cancellation",
        "client",
        "expects_continue",
        "fields",
        "headers",
        "keeps_alive",
        "method",
        "share",
        "target",
        "version",
    )

    def __init__(self, version: str, method: bytes, target: bytes, headers: Headers) -> None:
        self.version = version
        self.method = method
        self.target = target
        self.headers = headers
        self.fields = dict(headers)
        """The headers by name; of several with one name the last."""
        self.keeps_alive = False
        self.expects_continue = False
        self.body = b""
        self.cancellation: Cancellation | None = None
        """Cancelled if the client leaves before the answer; None unless an `answer` that answers
        later set it."""
        self.share: Share | None = None
        """The part of the server's budget that the body takes while a reference to the request
        exists."""
        self.client: object = None
        """The address of the client's socket: a tuple, or for a Unix socket not one."""


class Response(NamedTuple):
    """A complete response. `headers` are lines with CRLF, without `date` and `content-length`."""

    status: int
    headers: bytes
    body: bytes


_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


def response_head(status: int) -> bytes:
    """Return the status line with its CRLF; without a phrase for an unknown status."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
