"""`grpc.health.v1`: Check, Watch and List over a table of services and their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2

from doorward.transport.grpc.methods import Call, Method, StreamMethod
from doorward.transport.grpc.status import GrpcError, Status

__all__ = ["SERVICE", "Health"]

SERVICE: Final = "grpc.health.v1.Health"
MAX_WATCHES: Final = 100
"""The largest number of open Watch calls: each gets a message for each change."""

_Response: Final = health_pb2.HealthCheckResponse
_SERVING: Final = _Response.SERVING
_NOT_SERVING: Final = _Response.NOT_SERVING
_UNKNOWN: Final = _Response.SERVICE_UNKNOWN


class Health:
    """The health states of one server's services; "" stands for the server. Used on the loop
    only.
    """

    def __init__(self, services: tuple[str, ...]) -> None:
        self._states = dict.fromkeys(("", *services), _NOT_SERVING)
        self._watches: dict[_Watch, None] = {}

    def set_serving(self, serving: bool) -> None:
        """Set the state of all services to SERVING or NOT_SERVING, and tell the clients that
        watch.
        """
        state = _SERVING if serving else _NOT_SERVING
        self._states = dict.fromkeys(self._states, state)
        for watch in list(self._watches):
            watch.tell()

    @property
    def unary(self) -> Mapping[str, Method]:
        return {f"/{SERVICE}/Check": self._check, f"/{SERVICE}/List": self._list}

    @property
    def streaming(self) -> Mapping[str, StreamMethod]:
        return {f"/{SERVICE}/Watch": self._watch}

    def _check(self, message: bytes) -> bytes:
        """Answer Check with the state of a service; GrpcError NOT_FOUND for an unknown one."""
        state = self._states.get(_service(message))
        if state is None:
            # Check ends with NOT_FOUND; Watch of the same name says SERVICE_UNKNOWN and stays open,
            # since the service may come (health/v1/health.proto).
            raise GrpcError(Status.NOT_FOUND, "unknown service")
        return _to_bytes(_Response(status=state))

    def _list(self, _message: bytes) -> bytes:
        """Answer List with the states of all services."""
        response = health_pb2.HealthListResponse()
        for name, state in self._states.items():
            response.statuses[name].status = state
        return _to_bytes(response)

    def _watch(self, call: Call) -> _Watch:
        return _Watch(self, call)

    def state_of(self, service: str) -> int:
        """Return the state of a service; SERVICE_UNKNOWN if there is no such service."""
        state: int = self._states.get(service, _UNKNOWN)
        return state

    def add(self, watch: _Watch) -> None:
        """Tell `watch` of changes from now on; raise GrpcError RESOURCE_EXHAUSTED if there are too
        many.
        """
        if len(self._watches) >= MAX_WATCHES:
            message = f"more than {MAX_WATCHES} watches are open: call Check instead"
            raise GrpcError(Status.RESOURCE_EXHAUSTED, message)
        self._watches[watch] = None

    def remove(self, watch: _Watch) -> None:
        """Tell `watch` of no more changes."""
        self._watches.pop(watch, None)


class _Watch:
    """One Watch call: it sends the current state at once, and each change."""

    def __init__(self, health: Health, call: Call) -> None:
        self._health = health
        self._call = call
        self._service: str | None = None
        self._last: int | None = None

    def receive(self, message: bytes) -> None:
        """Begin to watch the service that the message names, and send its state. Raise GrpcError
        for a second or malformed message, and if too many watches are open.
        """
        if self._service is not None:
            raise GrpcError(Status.INTERNAL, "a call of this method must have only one message")
        self._service = _service(message)
        self._health.add(self)
        self._call.notify_drained(self.tell)
        self.tell()

    def half_close(self) -> None:
        """Raise GrpcError if the client ends its side without a message; otherwise the watch goes
        on.
        """
        if self._service is None:
            raise GrpcError(Status.INTERNAL, "the call ended before its message was complete")

    def cancel(self) -> None:
        self._health.remove(self)

    def tell(self) -> None:
        """Send the state if it changed.

        While an earlier message waits for the client, nothing is sent; this is called again when it
        is sent. So a slow client skips states, but gets the newest one.
        """
        state = self._health.state_of(self._service or "")
        if state != self._last and not self._call.pending:
            self._last = state
            self._call.send(_to_bytes(_Response(status=state)))


def _service(message: bytes) -> str:
    """Return the service that a HealthCheckRequest names; GrpcError if the bytes are not one."""
    try:
        service: str = health_pb2.HealthCheckRequest.FromString(message).service
    except DecodeError:
        raise GrpcError(Status.INTERNAL, "message is not a HealthCheckRequest") from None
    return service


def _to_bytes(message: Message) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded
