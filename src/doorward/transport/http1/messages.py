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
    """A request with its body, or as much of it as was collected."""

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
        """Cancelled when the client leaves before its answer; set by those who answer later."""
        self.share: Share | None = None
        """What the body takes of its server's budget, for as long as somebody has the request."""
        self.client: object = None
        """The address of the client's socket; of a Unix socket no pair."""


class Response(NamedTuple):
    """A whole response. `headers`: lines with their ends, without `date` and `content-length`."""

    status: int
    headers: bytes
    body: bytes


_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


def response_head(status: int) -> bytes:
    """The status line."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
