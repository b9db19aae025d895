"""The gRPC server on Doorward's own transport (`transport: http2`, the default).

Binds the listener, registers the Check methods, health and reflection, and runs them on the loop of
`doorward.transport.server`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from doorward.base.os_errors import describe_os_error
from doorward.config.limits import DEADLINE
from doorward.edge import Parts
from doorward.envoy.addresses import (
    Address,
    AddressError,
    check_folder,
    parse_address,
    worker_addresses,
)
from doorward.envoy.check import Check
from doorward.envoy.errors import CallFailedError
from doorward.envoy.options import Options
from doorward.envoy.request.input import Version
from doorward.envoy.serving import (
    SERVICES,
    STUCK_AFTER,
    StartError,
    State,
    traced_check,
    warn_if_public,
)
from doorward.transport.grpc import health, methods
from doorward.transport.grpc.reflection import Reflection
from doorward.transport.grpc.status import GrpcError, Status
from doorward.transport.http2.headers import Request
from doorward.transport.listeners import bind_tcp
from doorward.transport.loop import NotServingError
from doorward.transport.runner import AdaptiveRunner
from doorward.transport.server import Http2Server, ServerOptions
from doorward.transport.unix_sockets import PathTakenError, bind_unix

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = ["GrpcListener", "Http2CheckServer", "bind_check", "bind_each"]

RECEIVE_TIMEOUT: Final = 2.0
"""Seconds within which the message of a Check must have arrived: a proxy sends it at once."""
_BACKLOG: Final = 1_024
_log: Final = logging.getLogger(__name__)


class GrpcListener:
    """A server for gRPC services at one address: `start` listens, `stop` ends open calls in its
    grace.
    """

    def __init__(
        self,
        addr: str,
        services: Callable[[asyncio.AbstractEventLoop, health.Health], methods.Services],
        names: Sequence[str],
        *,
        socket_mode: int,
        on_state: Callable[[State], object] = lambda _state: None,
        parts: Parts | None = None,
        deadline: float = DEADLINE,
        listeners: Sequence[socket.socket] = (),
        name: str = "grpc",
    ) -> None:
        """Prepare a gRPC server at `addr` that does not listen yet.

        `services` makes the methods on the loop that runs them; `names` are their services, for
        health checks. `deadline`: the seconds of an evaluation; the loop counts as stuck only long
        after them. `listeners` are sockets that others bound and whose files they delete; without
        them `start` binds `addr`. Raise StartError if `addr` is malformed.
        """
        self._addr = addr
        self._make_services = services
        self._socket_mode = socket_mode
        self._on_state = on_state
        self._parts = parts
        self._stuck_after = STUCK_AFTER + 4 * deadline
        self._name = name
        try:
            self._address = parse_address(addr)
        except AddressError as error:
            raise StartError(f"cannot listen on {error}") from None
        self._health = health.Health(tuple(names))
        self._server: Http2Server | None = None
        self._listeners = tuple(listeners)
        self._owns_file = not listeners
        self.port = 0
        """The TCP port of the listener; 0 for a Unix socket."""
        on_state("NOT_READY")

    @property
    def address(self) -> str:
        """The address of the listener, in gRPC's words."""
        return self._address.target

    def start(self) -> None:
        """Listen and serve in a thread; raise StartError if the address is not available or the
        server does not start.

        Also sets `port`, health to SERVING and the state to OK, or to ERROR if it fails.
        """
        if not self._listeners:
            try:
                self._listeners = (bind_check(self._addr, mode=self._socket_mode),)
            except StartError:
                self._on_state("ERROR")
                raise
        # Asked of the socket, since the configured port may be 0.
        if self._listeners[0].family != socket.AF_UNIX:
            self.port = self._listeners[0].getsockname()[1]
        self._server = Http2Server(
            lambda loop: self._make_services(loop, self._health),
            self._listeners,
            options=ServerOptions(
                stuck_after=self._stuck_after, shares_sockets=not self._owns_file
            ),
            parts=self._parts,
            name=self._name,
        )
        try:
            self._server.start()
        except NotServingError:
            self._on_state("ERROR")
            raise StartError(
                f"{self._addr}: the gRPC server did not start: see the previous error in the log"
            ) from None
        # On the loop, which alone may touch the health states.
        self._server.call(lambda: self._health.set_serving(True))
        self._on_state("OK")
        _log.info("Starting gRPC server.", extra={"addr": self.address})
        warn_if_public(self._address)

    def stop(self, grace: float = 5.0) -> None:
        """Accept no more calls, let open calls end within `grace` seconds, and close.

        Also deletes the socket file if this listener bound it.
        """
        self._on_state("NOT_READY")
        if self._server is not None:
            self._server.call(lambda: self._health.set_serving(False))
            self._server.stop(grace)
        if self._listeners and self._owns_file and self._address.path is not None:
            _remove(self._address.path)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server ends, at most `timeout` seconds (None: forever); return False on
        timeout.

        True if it was never started.
        """
        return self._server is None or self._server.wait(timeout)


class Http2CheckServer:
    """A gRPC server for Checks. `start` listens, `stop` lets open calls end within its grace."""

    def __init__(
        self,
        checks: dict[Version, Check],
        options: Options,
        on_state: Callable[[State], object] = lambda _state: None,
        *,
        parts: Parts | None = None,
        deadline: float = DEADLINE,
        listeners: Sequence[socket.socket] = (),
        tracer: Tracer | None = None,
    ) -> None:
        """Prepare a server for Checks that does not listen yet.

        `checks` has the check function of each API version. `listeners` are sockets that others
        bound and whose files they delete; without them `start` binds `addr`. Raise StartError if
        `addr` is malformed.
        """
        self._tracer = tracer
        self._checks = checks
        self._options = options
        self._names = [SERVICES[version] for version in checks]
        self._runner: AdaptiveRunner | None = None
        self._listener = GrpcListener(
            options.addr,
            self._services,
            self._names,
            socket_mode=options.socket_mode,
            on_state=on_state,
            parts=parts,
            deadline=deadline,
            listeners=listeners,
        )

    @property
    def port(self) -> int:
        """The TCP port of the listener; 0 for a Unix socket."""
        return self._listener.port

    @property
    def address(self) -> str:
        """The address of the listener, in gRPC's words."""
        return self._listener.address

    def start(self) -> None:
        """Listen and serve in a thread; raise StartError if the address is not available or the
        server does not start.
        """
        self._listener.start()

    def _services(self, loop: asyncio.AbstractEventLoop, states: health.Health) -> methods.Services:
        """Create the runner of calls on `loop`, and return the gRPC methods to serve: Checks,
        health, which reports `states`, and, if enabled, reflection.
        """
        options = self._options
        calls = methods.Options(
            max_receive=options.grpc_max_recv_msg_size,
            max_send=options.grpc_max_send_msg_size,
            receive_timeout=RECEIVE_TIMEOUT,
        )
        self._runner = AdaptiveRunner(loop, options.threads, calls.budget)
        unary = {
            f"/{SERVICES[version]}/Check": _to_method(check)
            for version, check in self._checks.items()
        }
        streaming = dict(states.streaming)
        if options.enable_reflection:
            reflection = Reflection((*self._names, health.SERVICE))
            streaming.update(reflection.streaming)
        return methods.Services(
            {**unary, **states.unary},
            streaming,
            options=calls,
            runner=self._runner,
            bind=None if self._tracer is None else _tracing(self._tracer, self._checks),
        )

    def stop(self, grace: float = 5.0) -> None:
        """Accept no more calls, let open calls end within `grace` seconds, and close."""
        self._listener.stop(grace)
        if self._runner is not None:
            self._runner.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server ends, at most `timeout` seconds (None: forever); return False on
        timeout.

        True if it was never started.
        """
        return self._listener.wait(timeout)


def bind_check(addr: str, *, mode: int) -> socket.socket:
    """Return a socket that listens at `addr`; raise StartError if the address is not available.

    `mode` are the permission bits of a socket file. A stale socket file is deleted.
    """
    try:
        return _bind(parse_address(addr), mode)
    except (AddressError, PathTakenError, OSError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else error
        raise StartError(f"cannot listen on {addr}: {reason}") from None


def bind_each(addr: str, workers: int, *, mode: int) -> list[list[socket.socket]]:
    """Return the bound sockets of each worker, at the addresses of `worker_addresses`.

    Raise StartError if one is not available; those bound so far are closed then.
    """
    bound: list[list[socket.socket]] = []
    try:
        for addresses in worker_addresses(addr, workers):
            bound.append([])
            for address in addresses:
                bound[-1].append(bind_check(address, mode=mode))
    except (AddressError, StartError) as error:
        for listener in [each for listeners in bound for each in listeners]:
            listener.close()
        raise StartError(str(error)) from None
    return bound


def _bind(address: Address, mode: int) -> socket.socket:
    """Return a listening socket: Unix (with permission bits `mode`), abstract Unix or TCP.

    Raise AddressError, PathTakenError or OSError if it is not available.
    """
    if address.path is not None:
        check_folder(address.path)
        return bind_unix(address.path, mode=mode, backlog=_BACKLOG)
    if address.target.startswith("unix-abstract:"):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("\0" + address.target.removeprefix("unix-abstract:"))
        listener.listen(_BACKLOG)
        return listener
    host, _, port = address.target.rpartition(":")
    host = host.strip("[]")
    # Only the unspecified address means both families; `::1` is of one.
    every = host == "::" and socket.has_dualstack_ipv6()
    return bind_tcp(host, int(port), backlog=_BACKLOG, dual_stack=every)


def _to_method(check: Check) -> methods.Method:
    """Return a check as a gRPC method: CallFailedError becomes GrpcError with the same code."""

    def method(message: bytes) -> bytes:
        """Run the check; raise GrpcError in place of a failed call."""
        try:
            return check(message)
        except CallFailedError as error:
            raise GrpcError(Status[error.code], error.message) from None

    return method


def _tracing(
    tracer: Tracer, checks: Mapping[Version, Check]
) -> Callable[[methods.Method, Request], methods.Method]:
    """Return a function that binds a method to its call so that a Check runs in a span.

    The span continues the trace that the call's headers name. Methods that are not Checks are
    returned unchanged.
    """
    known = {f"/{SERVICES[version]}/Check".encode(): each for version, each in checks.items()}

    def bind(method: methods.Method, request: Request) -> methods.Method:
        """Return the method that runs the check of this request in a span; other methods
        unchanged.
        """
        # Health and reflection are called often and make no spans.
        check = known.get(request.path)
        if check is None:
            return method

        def header(name: str) -> str | None:
            value = request.get(name.encode())
            return None if value is None else value.decode("latin-1")

        return _to_method(partial(traced_check, tracer, header, request.path.decode(), check))

    return bind


def _remove(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)
