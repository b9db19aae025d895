"""Options become a gRPC server of external processing, on Doorward's own transport.

It listens beside the server of Checks, at an address of its own. A server that cannot listen does
not start: that is an error of its caller's start-up, not a line in the log.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from doorward.config.limits import DEADLINE
from doorward.edge import Parts
from doorward.envoy.ext_proc.exchange import Observer, Processor
from doorward.envoy.ext_proc.messages import SERVICE
from doorward.envoy.ext_proc.options import Options
from doorward.envoy.http2_server import GrpcListener
from doorward.envoy.serving import State
from doorward.pdp.pdp import PDP
from doorward.transport.grpc import health, methods
from doorward.transport.grpc.exchanges import ExchangeLimits, Exchanges
from doorward.transport.runner import AdaptiveRunner

__all__ = ["ExtProcServer"]


class ExtProcServer:
    """The gRPC server by which Envoy has responses filtered (`ext_proc`). `start` listens, `stop`
    lets open calls end within its grace.
    """

    def __init__(
        self,
        pdp: PDP,
        options: Options,
        *,
        observer: Observer | None = None,
        on_state: Callable[[State], object] = lambda _state: None,
        parts: Parts | None = None,
        deadline: float = DEADLINE,
        listeners: Sequence[socket.socket] = (),
    ) -> None:
        """Prepare a server that decides on responses by `pdp`; `start` makes it listen.

        `listeners` are sockets that `bind_each` bound for this worker; without them `start` binds
        `addr`. `deadline` is the evaluation deadline in seconds, `on_state` is told each change of
        state. Raise StartError if `addr` is malformed.
        """
        self._options = options
        self._processor = Processor(pdp, options, observer)
        self._runner: AdaptiveRunner | None = None
        self._listener = GrpcListener(
            options.addr,
            self._services,
            [SERVICE],
            socket_mode=options.socket_mode,
            on_state=on_state,
            parts=parts,
            deadline=deadline,
            listeners=listeners,
            name="ext-proc",
        )

    def _services(self, loop: asyncio.AbstractEventLoop, states: health.Health) -> methods.Services:
        """Create the runner of calls, and return the gRPC services of this server: processing and
        health checks.
        """
        options = self._options
        calls = methods.Options(max_receive=options.grpc_max_recv_msg_size)
        self._runner = AdaptiveRunner(loop, options.threads, calls.budget)
        limits = ExchangeLimits(calls=options.max_streams)
        # `Services` gets no runner: only these calls may be slow, and they have it already.
        exchanges = Exchanges(self._processor.open, limits, self._runner)
        return methods.Services(
            states.unary,
            {**states.streaming, f"/{SERVICE}/Process": exchanges.open},
            options=calls,
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

    def stop(self, grace: float = 5.0) -> None:
        """Accept no more calls, let open calls end within `grace` seconds, and close."""
        self._listener.stop(grace)
        if self._runner is not None:
            self._runner.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server ends, at most `timeout` seconds (None: forever); return False on
        timeout. True if it was never started.
        """
        return self._listener.wait(timeout)
