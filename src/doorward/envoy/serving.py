"""The part that the servers of both transports share: services, states, the error of a failed
start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from doorward.envoy.addresses import Address
from doorward.envoy.check import Check
from doorward.envoy.errors import CallFailedError, StartError
from doorward.envoy.request.input import Version
from doorward.transport.grpc.status import Status

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = [
    "SERVICES",
    "STUCK_AFTER",
    "Server",
    "StartError",
    "State",
    "traced_check",
    "warn_if_public",
]

State: TypeAlias = Literal["NOT_READY", "OK", "ERROR"]
"""The state of a server, as OPA names the states of plugins."""

SERVICES: Final[dict[Version, str]] = {
    "v3": "envoy.service.auth.v3.Authorization",
    "v2": "envoy.service.auth.v2.Authorization",
}
STUCK_AFTER: Final = 60.0
"""A server counts as stuck after this many seconds plus four evaluation deadlines without
progress."""

_log: Final = logging.getLogger(__name__)


class Server(Protocol):
    """A gRPC server for Checks."""

    @property
    def port(self) -> int:
        """The TCP port of the listener; 0 for a Unix socket."""

    @property
    def address(self) -> str:
        """The address of the listener, in gRPC's words."""

    def start(self) -> None:
        """Listen and serve in threads; raise StartError if the address is not available or the
        server does not start.
        """

    def stop(self, grace: float = 5.0) -> None:
        """Accept no more calls, let open calls end within `grace` seconds, and close."""

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server ends, at most `timeout` seconds (None: forever); return False on
        timeout.
        """


def warn_if_public(address: Address) -> None:
    """Log a warning if other machines can reach the listener, which has no TLS."""
    if not address.local:
        _log.warning(
            "The gRPC server has no TLS and other machines can reach it: set `addr` to"
            " 127.0.0.1:9191 or to a Unix socket unless a network policy protects it.",
            extra={"addr": address.target},
        )


def traced_check(
    tracer: Tracer,
    header: Callable[[str], str | None],
    path: str,
    check: Check,
    message: bytes,
) -> bytes:
    """Return the answer of `check` to `message`, computed in a span for the gRPC method at `path`.

    `header` reads the call's headers, which may name a parent trace. The span gets the gRPC status;
    CallFailedError is passed on.
    """
    name = path.removeprefix("/")
    service, _, method = name.partition("/")
    kinds = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
    with tracer.serve(name, header, kinds) as span:
        try:
            answer = check(message)
        except CallFailedError as error:
            span.note({"rpc.grpc.status_code": Status[error.code].value})
            raise
        span.note({"rpc.grpc.status_code": Status.OK.value})
        return answer
