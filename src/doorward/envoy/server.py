"""Options become a gRPC server: Checks come in as bytes, and go out as bytes.

`http2_server` serves on Doorward's own transport, `grpcio_server` on grpcio; the option
`transport` selects one. A server that cannot listen does not start: that is an error of its
caller's start-up, not a line in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from doorward.edge import Parts
from doorward.envoy.check import Check, Decider, Observer, make_check
from doorward.envoy.http2_server import Http2CheckServer
from doorward.envoy.options import Options
from doorward.envoy.request.descriptors import load_services
from doorward.envoy.request.input import Version
from doorward.envoy.serving import SERVICES, Server, StartError, State
from doorward.pdp.deadline import DEADLINE

__all__ = ["PLUGIN", "Server", "StartError", "State", "make_server"]

PLUGIN: Final = "envoy_ext_authz_grpc"
"""The name under which the server's state is reported."""


def make_server(
    pdp: Decider,
    options: Options,
    *,
    observer: Observer | None = None,
    on_state: Callable[[State], object] = lambda _state: None,
    parts: Parts | None = None,
    deadline: float = DEADLINE,
) -> Server:
    """The server that decides by `pdp`; StartError when the options cannot be followed."""
    services = None
    if options.proto_descriptor:
        try:
            services = load_services(options.proto_descriptor)
        except (OSError, ValueError) as error:
            on_state("ERROR")
            raise StartError(f"proto-descriptor cannot be read: {error}") from None
    checks: dict[Version, Check] = {
        version: make_check(pdp, options, services=services, observer=observer, version=version)
        for version in SERVICES
    }
    if options.transport == "grpcio":
        # Imported where it is used: grpcio's core takes 8 MB and a tenth of a second.
        from doorward.envoy.grpcio_server import GrpcioServer

        return GrpcioServer(checks, options, on_state, parts=parts, deadline=deadline)
    return Http2CheckServer(checks, options, on_state, parts=parts, deadline=deadline)
