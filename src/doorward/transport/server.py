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
"""After this many seconds without the end of a request a connection counts as idle in spite of open
streams: a client that only opens streams must not keep its place."""
WRITE_BUFFER: Final = 1 << 20
"""Above this number of unsent bytes nothing more is read from the client."""
LINGER: Final = 2.0
"""Seconds in which a closing connection may send what is written. They count from the first sweep
that finds it closing."""


@record
class ServerOptions:
    """The options of an HTTP/2 server: its limits, and when its loop counts as stuck."""

    limits: Limits = field(default_factory=Limits)
    stuck_after: float = 60.0
    """Seconds without a sweep after which the loop counts as stuck."""
    shares_sockets: bool = False
    """True if another process accepts connections on the same sockets."""
    max_connections: int = 1_000
    """The largest number of connections; a further one replaces the one that is idle for longest,
    or is closed if none is idle."""


class Http2Server:
    """gRPC services on listening sockets, served by a loop in a thread of its own."""

    def __init__(
        self,
        make_services: Callable[[asyncio.AbstractEventLoop], Services],
        sockets: Sequence[socket.socket],
        *,
        options: ServerOptions | None = None,
        parts: Parts | None = None,
        name: str = "grpc",
    ) -> None:
        """Prepare a gRPC server on sockets that listen already and that `stop` closes;
        `make_services` is called once on the loop.
        """
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
        """Start the thread and block until connections are accepted; raise NotServingError if that
        fails.
        """
        self._server.start()

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` on the loop's thread, soon; a fault of it is reported."""
        self._server.call(function)

    def stop(self, grace: float) -> None:
        """Accept no more, let open streams end within `grace` seconds, and close; blocks until
        then.
        """
        self._server.stop(grace)
        for each in self._sockets:
            each.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server ends, at most `timeout` seconds (None: forever); return False on
        timeout.
        """
        return self._server.wait(timeout)

    def _endpoints(self, loop: asyncio.AbstractEventLoop) -> list[Endpoint]:
        """Return an endpoint for each socket; their connections share a read buffer and one
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
    """Passes the bytes of one socket to its HTTP/2 connection and back."""

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
        """Bytes that wait for this connection's turn; nothing is read from the socket meanwhile."""
        self._may_write = True
        self._transport: asyncio.Transport | None = None
        self._closing_since: float | None = None
        self.account = Account()

    @property
    def idle_since(self) -> float | None:
        """The time at which the client last ended a request (0 if never), in monotonic seconds.

        None while it has open streams and ended a request within the last `SILENT` seconds.
        """
        requested = self._connection.requested
        is_at_work = self._connection.streams and self._connections.now - requested < SILENT
        return None if is_at_work else requested

    @property
    def answered(self) -> int:
        return self._connection.answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Limit the write buffer and add this connection to those of the server, which refuses
        one that is too many.
        """
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]  # uvloop's has no common base
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the `nbytes` bytes that the loop has read into the shared buffer. If `Turns` does
        not allow that now, or earlier bytes wait, they are kept for this connection's turn, and
        reading from the socket pauses.
        """
        # A copy: the next socket that is read overwrites the shared buffer.
        data = bytes(self._buffer[:nbytes])
        turns = self._turns
        if not self._unread and turns.may_read(self, nbytes):
            begun = monotonic()
            self._feed(data)
            turns.spend(self, begun, nbytes)
            return
        # Grows by one read at most: from here on the socket is not read.
        self._unread = memoryview(bytes(self._unread) + data)
        self._pause_reading()
        # Else `resume_writing` asks for turns: bytes that are read make answers that
        # cannot be sent.
        if self._may_write:
            turns.wait(self)

    @property
    def is_waiting(self) -> bool:
        """True if kept bytes wait for this connection's turn, and answers can be sent."""
        return self._may_write and len(self._unread) > 0

    def read_piece(self) -> int:
        """Handle the next piece of the bytes that wait, and return its size; the account decides
        how large it is. Reading from the socket resumes after the last piece. If the connection
        closes, the rest is dropped.
        """
        size = self.account.piece
        piece, self._unread = self._unread[:size], self._unread[size:]
        self._feed(bytes(piece))
        if self._transport is None or self._transport.is_closing():
            self._unread = memoryview(b"")
        elif not self._unread:
            self._resume_reading()
        return len(piece)

    def _feed(self, data: bytes) -> None:
        """Pass bytes to the HTTP/2 connection, write what it returns, and close when it has ended.

        A fault of ours is reported and aborts the connection.
        """
        try:
            written = self._connection.feed(data)
        except FAULTS as fault:
            _EDGE.report(fault)
            self.abort()
            return
        if written:
            self._transport.write(written)  # type: ignore[union-attr]
        # After the write: the last bytes are the GOAWAY with the reason.
        if self._connection.closed:
            self._close()

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._may_write and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """Return False: the transport closes once the written responses are sent."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, which the loop reports as closed: free its slot and its turns, and
        abort its open streams. A fault of a stream's route is reported. Nothing is written.
        """
        self._connections.remove(self)
        # A reader that waits would be called once more, on a connection that is gone.
        self._turns.leave(self)
        try:
            self._connection.lost()
        except FAULTS as fault:
            _EDGE.report(fault)
        self._transport = None

    def pause_writing(self) -> None:
        """Pause the connection's turns and reading while the client does not read its answers."""
        self._may_write = False
        self._turns.leave(self)
        self._pause_reading()

    def resume_writing(self) -> None:
        """Continue with kept bytes, or resume reading, once the client has read enough."""
        self._may_write = True
        if self._unread:
            self._turns.wait(self)
        else:
            self._resume_reading()

    def _flush(self) -> None:
        """Write what the HTTP/2 connection has ready to send outside of `_feed`, such as answers
        made later, and close once it is drained after a shutdown. Does nothing if the client is
        gone.
        """
        if self._transport is None:
            return
        written = self._connection.take()
        if written:
            self._transport.write(written)
        if self._connection.drained:
            self._close()

    def expire(self) -> None:
        """Let the HTTP/2 connection end what is past its time limit, and write what it answers;
        called in each sweep. Closes once it is drained. A connection that is still closing `LINGER`
        seconds after the first sweep that found it so is aborted. The account of reading time is
        halved.
        """
        self.account.fade()
        if self._transport is not None and self._transport.is_closing():
            now = self._connections.now
            if self._closing_since is None:
                self._closing_since = now
            elif now - self._closing_since >= LINGER:
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
        """Tell the client that the connection ends, and close it once all streams are answered."""
        written = self._connection.shutdown()
        if written and self._transport is not None:
            self._transport.write(written)
        if self._connection.drained:
            self._close()

    def close(self) -> None:
        """Close whatever is open: abort the streams and tell the client by GOAWAY, which is still
        sent.
        """
        written = self._connection.close()
        if written and self._transport is not None:
            self._transport.write(written)
        self._close()

    def refuse(self) -> None:
        """Abort: there is no room, and the client may try another endpoint."""
        self.abort()

    def abort(self) -> None:
        """Close without telling the client."""
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
