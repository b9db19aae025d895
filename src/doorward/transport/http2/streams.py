"""The streams of a connection: the open ones, who gets their data, and those that ended."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from doorward.transport.http2.headers import Request

if TYPE_CHECKING:
    from doorward.transport.http2.connection import Connection

__all__ = ["Application", "ClosedStreams", "Route", "Stream"]

MAX_CLOSED: Final = 1_000
"""Streams whose end is remembered, to tell a late frame from a wrong one."""


class Route(Protocol):
    """What receives the data of one kind of request; one route serves any number of streams."""

    def open(self, stream: Stream) -> None:
        """The header section of `stream` has arrived."""

    def receive(self, stream: Stream, data: bytes, ended: bool) -> None:
        """More of the body; `ended` with the last piece, which may be empty."""

    def abort(self, stream: Stream) -> None:
        """The stream was reset, or the connection ended, before the response was complete."""


class Application(Protocol):
    """What is served."""

    def resolve(self, request: Request) -> Route:
        """The route of `request`: a function of its header section only, since it is cached."""


class Stream:
    """One request that is not answered completely. `state` belongs to the route."""

    __slots__ = (
        "body_size",
        "connection",
        "deadline",
        "expected",
        "id",
        "is_sending",
        "pending",
        "receive_window",
        "receiving",
        "route",
        "send_window",
        "state",
        "trailers",
    )

    def __init__(
        self, connection: Connection, stream_id: int, route: Route, expected: int | None
    ) -> None:
        self.connection = connection
        self.id = stream_id
        self.route = route
        self.expected = expected
        """The announced length of the body."""
        self.body_size = 0
        self.receiving = True
        self.receive_window = connection.limits.stream_window
        self.send_window = connection.initial_send_window
        self.pending = bytearray()
        """Data of the response that waits for the client's window."""
        self.trailers: bytes | None = None
        """The block behind the data, once the response is complete."""
        self.is_sending = False
        self.deadline = 0.0
        """When `expire` hands the stream to `on_expired`; 0: never."""
        self.state: object = None


class ClosedStreams:
    """How streams ended lately: by this side, so that frames that come late are ignored, or not."""

    def __init__(self) -> None:
        self._ignored: OrderedDict[int, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ignored)

    def remember(self, stream_id: int, *, ignored: bool) -> None:
        """A stream has ended; the oldest is forgotten for it."""
        self._ignored[stream_id] = ignored
        if len(self._ignored) > MAX_CLOSED:
            self._ignored.popitem(last=False)

    def ignores(self, stream_id: int) -> bool | None:
        """Whether late frames of a stream are ignored; None where its end is not remembered."""
        return self._ignored.get(stream_id)
