"""The response of a service, or the reason why there is none: the types that all clients share.

`client.py` sends requests, with a library that most decision points never import.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from doorward.base.records import record

if TYPE_CHECKING:
    from doorward.config.services import Service

__all__ = ["WITHIN", "Answer", "Client", "ServiceError", "status_text"]

WITHIN: Final = 900.0
"""The seconds within which a response must be complete."""


class ServiceError(Exception):
    """A request got no complete response, or one that cannot be used; the message says why."""


@record
class Answer:
    """The complete response of a service to a request."""

    status: int
    headers: Mapping[str, str]
    """The headers by lower-case name."""
    body: bytes


class Client(Protocol):
    """Sends requests to one service; thread-safe."""

    @property
    def service(self) -> Service:
        """The configuration of the service."""

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        wait: float = 0.0,
        limit: int = 1 << 20,
    ) -> Answer:
        """Send one request and return the response, whatever its status. ServiceError if none comes
        in time or its body is larger than `limit` bytes. `path` is below the service's URL; `wait`
        adds seconds for a long poll.
        """

    def close(self) -> None:
        """Close all connections; requests in progress, and later ones, fail with ServiceError."""


def status_text(status: int) -> str:
    """Return the name of an HTTP status, such as `Not Found`; "" for an unknown one."""
    try:
        return _GO_NAMES.get(status) or HTTPStatus(status).phrase
    except ValueError:
        return ""


# As Go says them in OPA's errors, where Python's names differ: from 3.13 on more than one.
_GO_NAMES: Final = {
    413: "Request Entity Too Large",
    414: "Request URI Too Long",
    416: "Requested Range Not Satisfiable",
    418: "I'm a teapot",
    422: "Unprocessable Entity",
}
