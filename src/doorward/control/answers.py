"""The answer of a service, or the reason why there is none: the types that all clients share.

`client.py` asks, with a library that most decision points never need.
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
"""Seconds in which a response must be here as a whole."""


class ServiceError(Exception):
    """A request that got no whole response, or none that may be used."""


@record
class Answer:
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes


class Client(Protocol):
    """Asks one service."""

    @property
    def service(self) -> Service: ...

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
        """Send one request; return the answer, whatever its status.

        Raise `ServiceError` if there is none in time. `wait` adds seconds for a long poll; `limit`
        bounds the body in bytes.
        """

    def close(self) -> None: ...


def status_text(status: int) -> str:
    """The name of an HTTP status, such as `Not Found`; empty for an unknown one."""
    try:
        return _GO_NAMES.get(status) or HTTPStatus(status).phrase
    except ValueError:
        return ""


_GO_NAMES: Final = {413: "Request Entity Too Large"}
