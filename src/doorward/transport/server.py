"""The event loop around the HTTP/2 core: sockets, a clock, and the end of the server.

One thread runs one loop (uvloop where it is installed). Listening sockets come from the caller, who
knows addresses and permissions. The server stops reading from a client that does not read its
responses, which bounds the memory for them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from doorward.edge import FAULTS, Edge, Part, Parts
from doorward.transport.grpc.methods import Services, expire
from doorward.transport.http2.connection import Connection
from doorward.transport.http2.limits import Limits

__all__ = ["Http2Server", "ServerOptions"]

_EDGE: Final = Edge("http2", "an HTTP/2 connection failed")
_log: Final = logging.getLogger(__name__)

SWEEP: Final = 0.5
"""Seconds between two looks for streams and connections whose time is over."""
WRITE_BUFFER: Final = 1 << 20
"""Bytes that may wait for a client that does not read."""
LINGER: Final = 4
"""Sweeps that a closing connection may take to send what is written."""
_MAX_ACCEPT_BACKLOG: Final = 1_024


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Bounds of a server."""

    limits: Limits = field(default_factory=Limits)
    stuck_after: float = 60.0
    """Seconds without a sweep after which the loop counts as stuck."""
    max_connections: int = 1_000
    """Connections at the same time; a further one replaces the one that was idle longest, or is
    closed where every one has open streams."""


class Http2Server:
    """gRPC services on listening sockets, in a thread of their own."""

    def __init__(
        self,
        make_services: Callable[[asyncio.AbstractEventLoop], Services],
        sockets: Sequence[socket.socket],
        *,
        options: ServerOptions | None = None,
        parts: Parts | None = None,
        name: str = "grpc",
    ) -> None:
        self._make_services = make_services
        self._sockets = sockets
        self._options = options or ServerOptions()
        self._parts = parts
        self._part = Part(name, within=self._options.stuck_after)
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ready = threading.Event()
        self._connections: dict[_Protocol, None] = {}
        self._draining = False
        self._ended: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Serve; returns when connections are accepted."""
        self._thread.start()
        self._ready.wait()
        if self._parts is not None:
            self._part.thread = self._thread
            self._parts.add(self._part)

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` in the loop's thread."""

        def run() -> None:
            try:
                function()
            except FAULTS as fault:
                _EDGE.report(fault)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(run)

    def stop(self, grace: float) -> None:
        """Accept no more, let open streams end within `grace` seconds, and close."""
        if self._parts is not None:
            self._parts.remove(self._part)
        if self._thread.is_alive() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain, grace)
            self._thread.join(grace + 2)
        for each in self._sockets:
            each.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the server ended within `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # In the thread of the loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except FAULTS as fault:
            _EDGE.report(fault)
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._ended = self._loop.create_future()
        services = self._make_services(self._loop)
        servers = [
            await self._loop.create_server(
                lambda: _Protocol(self, services), sock=each, backlog=_MAX_ACCEPT_BACKLOG
            )
            if each.family != socket.AF_UNIX
            else await self._loop.create_unix_server(
                lambda: _Protocol(self, services), sock=each, backlog=_MAX_ACCEPT_BACKLOG
            )
            for each in self._sockets
        ]
        self._sweep()
        self._ready.set()
        await self._ended
        for server in servers:
            server.close()
        for protocol in list(self._connections):
            protocol.abort()
        while self._connections:
            await asyncio.sleep(0)

    def _sweep(self) -> None:
        self._part.beat()
        for protocol in list(self._connections):
            protocol.expire()
        if self._draining and not self._connections:
            self._end()
        elif self._ended is not None and not self._ended.done():
            self._loop.call_later(SWEEP if not self._draining else SWEEP / 10, self._sweep)

    def _drain(self, grace: float) -> None:
        self._draining = True
        for protocol in list(self._connections):
            protocol.shutdown()
        self._loop.call_later(grace, self._end)
        self._loop.call_soon(self._sweep)

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def add(self, protocol: _Protocol) -> bool:
        """Whether there is room for another connection."""
        if len(self._connections) >= self._options.max_connections:
            idle = next((each for each in self._connections if each.is_idle), None)
            if idle is None:
                return False
            self._connections.pop(idle)
            idle.close()
        self._connections[protocol] = None
        if self._draining:
            protocol.shutdown()
        return True

    def remove(self, protocol: _Protocol) -> None:
        """The connection is closed."""
        self._connections.pop(protocol, None)

    @property
    def limits(self) -> Limits:
        """The bounds of each connection."""
        return self._options.limits


class _Protocol(asyncio.Protocol):
    """One connection: bytes from the socket to the core and back."""

    def __init__(self, server: Http2Server, services: Services) -> None:
        self._server = server
        self._connection = Connection(
            services, server.limits, on_expired=expire, on_output=self._flush
        )
        self._transport: asyncio.Transport | None = None
        self._sweeps_closing = 0

    @property
    def is_idle(self) -> bool:
        return not self._connection.streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]  # uvloop's has no common base
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        if not self._server.add(self):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            written = self._connection.feed(data)
        except FAULTS as fault:
            _EDGE.report(fault)
            self.abort()
            return
        if written:
            self._transport.write(written)  # type: ignore[union-attr]
        if self._connection.closed:
            self._close()

    def eof_received(self) -> bool:
        """No more requests: close once the written responses are sent."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.remove(self)
        try:
            self._connection.lost()
        except FAULTS as fault:
            _EDGE.report(fault)
        self._transport = None

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _flush(self) -> None:
        """Write the responses that were made outside of `data_received`."""
        if self._transport is None:
            return
        written = self._connection.take()
        if written:
            self._transport.write(written)
        if self._connection.drained:
            self._close()

    def expire(self) -> None:
        """End what is over its time; a client that does not read the last frames is cut off."""
        if self._transport is not None and self._transport.is_closing():
            self._sweeps_closing += 1
            if self._sweeps_closing > LINGER:
                self._transport.abort()
            return
        try:
            written = self._connection.expire()
        except FAULTS as fault:
            _EDGE.report(fault)
            self.abort()
            return
        if written and self._transport is not None:
            self._transport.write(written)
        if self._connection.drained:
            self._close()

    def shutdown(self) -> None:
        """Tell the client that the connection ends."""
        written = self._connection.shutdown()
        if written and self._transport is not None:
            self._transport.write(written)
        if self._connection.drained:
            self._close()

    def close(self) -> None:
        """Tell the client and close, whatever is open."""
        written = self._connection.close()
        if written and self._transport is not None:
            self._transport.write(written)
        self._close()

    def abort(self) -> None:
        """Close without a word."""
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (extra `speed`), else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
