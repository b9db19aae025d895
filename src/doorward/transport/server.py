"""The HTTP/2 core on sockets: gRPC services served from an event loop.

The server stops reading from a client that does not read its responses, which bounds the memory for
them, and reads from many that send without a pause in turns.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import field
from time import monotonic
from typing import Final

from doorward.base.records import record
from doorward.edge import FAULTS, Edge, Parts
from doorward.transport.grpc.methods import Services, expire
from doorward.transport.http2.connection import Connection
from doorward.transport.http2.limits import Limits
from doorward.transport.loop import Connections, Endpoint, LoopServer
from doorward.transport.turns import MOST, Account, Turns

__all__ = ["Http2Server", "ServerOptions"]

_EDGE: Final = Edge("http2", "an HTTP/2 connection failed")

SILENT: Final = 5.0
"""Seconds without the end of a request after which a connection counts as idle in spite of its open
streams: who only opens them takes nobody's place."""
WRITE_BUFFER: Final = 1 << 20
"""Bytes that may wait for a client that does not read."""
LINGER: Final = 4
"""Sweeps that a closing connection may take to send what is written."""


@record
class ServerOptions:
    """Bounds of a server."""

    limits: Limits = field(default_factory=Limits)
    stuck_after: float = 60.0
    """Seconds without a sweep after which the loop counts as stuck."""
    shares_sockets: bool = False
    """Whether another process accepts as well."""
    max_connections: int = 1_000
    """Connections at the same time; a further one replaces the one that was idle longest, or is
    closed where every one is at work."""


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
        self._server = LoopServer(
            self._endpoints,
            name=name,
            parts=parts,
            stuck_after=self._options.stuck_after,
            shares_sockets=self._options.shares_sockets,
        )

    def start(self) -> None:
        """Serve; returns when connections are accepted."""
        self._server.start()

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` in the loop's thread."""
        self._server.call(function)

    def stop(self, grace: float) -> None:
        """Accept no more, let open streams end within `grace` seconds, and close."""
        self._server.stop(grace)
        for each in self._sockets:
            each.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Return True if the server ended within `timeout` seconds."""
        return self._server.wait(timeout)

    def _endpoints(self, loop: asyncio.AbstractEventLoop) -> list[Endpoint]:
        """Return an endpoint per socket; all connections of the loop share a read buffer and a
        limit.
        """
        services = self._make_services(loop)
        connections = Connections(self._options.max_connections)
        limits = self._options.limits
        turns = Turns(loop)
        # One buffer for all: a loop fills it and hands it on before it reads another socket.
        buffer = memoryview(bytearray(MOST))

        def make_protocol() -> _Protocol:
            return _Protocol(connections, services, limits, turns, buffer)

        return [Endpoint(each, connections, make_protocol) for each in self._sockets]


class _Protocol(asyncio.BufferedProtocol):
    """One connection: bytes from the socket to the core and back."""

    def __init__(
        self,
        connections: Connections,
        services: Services,
        limits: Limits,
        turns: Turns,
        buffer: memoryview,
    ) -> None:
        self._connections = connections
        self._connection = Connection(services, limits, on_expired=expire, on_output=self._flush)
        self._turns = turns
        self._buffer = buffer
        self._unread = memoryview(b"")
        """What waits for this connection's turn; nothing is taken from the socket meanwhile."""
        self._may_write = True
        self._transport: asyncio.Transport | None = None
        self._sweeps_closing = 0
        self.account = Account()

    @property
    def idle_since(self) -> float | None:
        """When the client last ended a request, if it does not wait for an answer: who never did
        so is the first to go."""
        requested = self._connection.requested
        is_at_work = self._connection.streams and self._connections.now - requested < SILENT
        return None if is_at_work else requested

    @property
    def answered(self) -> int:
        return self._connection.answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection and limit its write buffer."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]  # uvloop's has no common base
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes now if it is this connection's turn; else keep them and pause
        reading.
        """
        data = bytes(self._buffer[:nbytes])
        turns = self._turns
        if not self._unread and turns.may_read(self, nbytes):
            begun = monotonic()
            self._feed(data)
            turns.spend(self, begun, nbytes)
            return
        self._unread = memoryview(bytes(self._unread) + data)
        self._pause_reading()
        if self._may_write:
            turns.wait(self)

    @property
    def is_waiting(self) -> bool:
        return self._may_write and len(self._unread) > 0

    def read_piece(self) -> int:
        """Handle the next piece of unread bytes and return its size; then resume reading."""
        size = self.account.piece
        piece, self._unread = self._unread[:size], self._unread[size:]
        self._feed(bytes(piece))
        if self._transport is None or self._transport.is_closing():
            self._unread = memoryview(b"")
        elif not self._unread:
            self._resume_reading()
        return len(piece)

    def _feed(self, data: bytes) -> None:
        """Feed the HTTP/2 connection, write what it answers, and close the transport when it is
        closed.
        """
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

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._may_write and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """No more requests: close once the written responses are sent."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and abort its streams."""
        self._connections.remove(self)
        self._turns.leave(self)
        try:
            self._connection.lost()
        except FAULTS as fault:
            _EDGE.report(fault)
        self._transport = None

    def pause_writing(self) -> None:
        self._may_write = False
        self._turns.leave(self)
        self._pause_reading()

    def resume_writing(self) -> None:
        """Continue with unread bytes, or resume reading, when the client has read enough."""
        self._may_write = True
        if self._unread:
            self._turns.wait(self)
        else:
            self._resume_reading()

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
        self.account.fade()
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

    def refuse(self) -> None:
        """There is no room: the client may try another endpoint."""
        self.abort()

    def abort(self) -> None:
        """Close without a word."""
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
