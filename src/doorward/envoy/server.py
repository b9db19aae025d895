"""Options become a gRPC server: Checks come in as bytes, and go out as bytes.

`http2_server` serves on Doorward's own transport, `grpcio_server` on grpcio; the option
`transport` selects one. A server that cannot listen does not start: that is an error of its
caller's start-up, not a line in the log.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from doorward.base.os_errors import describe_os_error
from doorward.config.limits import DEADLINE
from doorward.edge import Parts
from doorward.envoy.check import Check, Decider, Observer, make_check
from doorward.envoy.http2_server import Http2CheckServer, bind_each
from doorward.envoy.options import Options
from doorward.envoy.request.descriptors import load_services
from doorward.envoy.request.input import Version
from doorward.envoy.serving import SERVICES, Server, StartError, State

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = ["Server", "StartError", "State", "bind_workers", "make_server"]


def make_server(
    pdp: Decider,
    options: Options,
    *,
    observer: Observer | None = None,
    on_state: Callable[[State], object] = lambda _state: None,
    parts: Parts | None = None,
    deadline: float = DEADLINE,
    listeners: Sequence[socket.socket] = (),
    tracer: Tracer | None = None,
) -> Server:
    """Return a server for Checks that decides by `pdp`; `start` then makes it listen.

    `listeners` are the sockets of `bind_workers` for this worker, `tracer` makes a span for each
    Check, `deadline` is the evaluation deadline in seconds. Raise StartError if `addr` is malformed
    or the descriptor set cannot be read.
    """
    services = None
    if options.proto_descriptor:
        try:
            services = load_services(options.proto_descriptor)
        except (OSError, ValueError) as error:
            on_state("ERROR")
            reason = describe_os_error(error) if isinstance(error, OSError) else str(error)
            raise StartError(f"proto-descriptor cannot be read: {reason}") from None
    checks: dict[Version, Check] = {
        version: make_check(pdp, options, services=services, observer=observer, version=version)
        for version in SERVICES
    }
    if options.transport == "grpcio":
        # Imported where it is used: grpcio's core takes 8 MB and a tenth of a second.
        from doorward.envoy.grpcio_server import GrpcioServer

        return GrpcioServer(
            checks, options, on_state, parts=parts, deadline=deadline, tracer=tracer
        )
    return Http2CheckServer(
        checks,
        options,
        on_state,
        parts=parts,
        deadline=deadline,
        listeners=listeners,
        tracer=tracer,
    )


def bind_workers(options: Options, workers: int) -> list[list[socket.socket]]:
    """Return the bound sockets of each worker.

    Raise StartError if one is not available or `transport` is grpcio, which serves one process
    only.
    """
    if options.transport == "grpcio":
        raise StartError("several workers need the option `transport: http2` of the Envoy plugin")
    return bind_each(options.addr, workers, mode=options.socket_mode)
