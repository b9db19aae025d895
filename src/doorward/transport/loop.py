"""The event loop around every server: endpoints, their connections, a clock, and the end.

One thread runs one loop (uvloop where it is installed). Listening sockets come from the caller, who
knows addresses and permissions. A connection keeps no timer of its own: a sweep looks at all of
them, which costs nothing on the path of a request.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from email.utils import formatdate
from time import monotonic
from typing import Any, Final, Protocol

from doorward.base.records import record
from doorward.edge import FAULTS, Edge, Part, Parts
from doorward.transport.direct import DirectListener
from doorward.transport.tls import HANDSHAKE

__all__ = [
    "SWEEP",
    "Connections",
    "Endpoint",
    "LoopServer",
    "ServedConnection",
    "exhaustion",
    "new_loop",
]

_EDGE: Final = Edge("transport", "a server's event loop failed")

SWEEP: Final = 0.5
"""Seconds between two looks for what is over its time."""
_IDLE_SWEEP: Final = 10.0
"""The same while there is no connection: an idle server lets the processor sleep."""
_DRAINING_SWEEP: Final = SWEEP / 10
_BACKLOG: Final = 1_024
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ServedConnection(Protocol):
    """One connection, as its server sees it."""

    @property
    def idle_since(self) -> float | None:
        """Since when (monotonic seconds) the client has kept us waiting; None while we work."""

    def expire(self) -> None:
        """End what is over its time."""

    def shutdown(self) -> None:
        """Take no more requests, answer those under way, and close."""

    def close(self) -> None:
        """Tell the client and close, whatever is open."""

    def refuse(self) -> None:
        """There is no room: say so, as far as the protocol can, and close."""

    def abort(self) -> None:
        """Close without a word."""


class Connections:
    """The open connections of an endpoint: at most so many at the same time.

    A further one replaces the one whose client has kept us waiting longest, and is refused where
    every one is at work.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[ServedConnection, None] = {}
        self.draining = False
        self.ends_soon = False
        """Whether each connection ends with the answer that it gets next."""
        self.has_successor = True
        """Whether a client that is refused here is answered by another process."""
        self.now = monotonic()
        """The time of the last sweep."""
        self.date = b""
        """The same as HTTP's `date` header."""
        self.tell_time()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: ServedConnection) -> None:
        """A connection was accepted."""
        if len(self._open) >= self._most and not self._replace_idle():
            connection.refuse()
            return
        self._open[connection] = None
        if self.draining:
            connection.shutdown()

    def _replace_idle(self) -> bool:
        """Close the connection that is idle for longest; return False if none is idle."""
        idle = [(each.idle_since, each) for each in self._open]
        waiting = [(since, each) for since, each in idle if since is not None]
        if not waiting:
            return False
        _, oldest = min(waiting, key=lambda pair: pair[0])
        self.remove(oldest)
        oldest.close()
        return True

    def remove(self, connection: ServedConnection) -> None:
        """A connection was closed."""
        self._open.pop(connection, None)

    def tell_time(self) -> None:
        self.now = monotonic()
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()

    def sweep(self) -> None:
        self.tell_time()
        for connection in list(self._open):
            connection.expire()

    def drain(self) -> None:
        self.draining = True
        for connection in list(self._open):
            connection.shutdown()

    def abort(self) -> None:
        for connection in list(self._open):
            connection.abort()


@record
class Endpoint:
    """A listening socket, its connections, and what makes the protocol of one."""

    socket: socket.socket
    connections: Connections
    make_protocol: Callable[[], asyncio.BaseProtocol]
    accepts: int = 16
    """Connections that asyncio accepts before it looks at anything else; without descriptors it
    makes as many attempts, and a timer for each (Python 3.11 and 3.12)."""
    tls: ssl.SSLContext | None = None
    is_direct: bool = False
    """Whether every connection is one request, and the socket listens already."""


class LoopServer:
    """Serves endpoints from one loop in a thread of its own. `start`, then `stop`."""

    def __init__(
        self,
        open_endpoints: Callable[[asyncio.AbstractEventLoop], Sequence[Endpoint]],
        *,
        name: str,
        parts: Parts | None = None,
        stuck_after: float = 60.0,
        on_error: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None,
        shares_sockets: bool = False,
    ) -> None:
        """`shares_sockets`: another process accepts what this one does not, so that it need not
        accept to the end."""
        self._open_endpoints = open_endpoints
        self._endpoints: Sequence[Endpoint] = ()
        self._listening: list[asyncio.AbstractServer | DirectListener] = []
        self._shares_sockets = shares_sockets
        self._parts = parts
        self._part = Part(name, within=stuck_after)
        self._loop = new_loop()
        if on_error is not None:
            self._loop.set_exception_handler(on_error)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ready = threading.Event()
        self._serving = False
        self._draining = False
        self._ended: asyncio.Future[None] | None = None
        self._next_sweep: asyncio.TimerHandle | None = None
        self._is_idle = False

    def start(self) -> bool:
        """Serve; returns when connections are accepted, and whether they are."""
        self._thread.start()
        self._ready.wait()
        if self._parts is not None and self._serving:
            self._part.thread = self._thread
            self._parts.add(self._part)
        return self._serving

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` in the loop's thread."""

        def run() -> None:
            """Call the function and report a fault instead of raising it in the loop."""
            try:
                function()
            except FAULTS as fault:
                _EDGE.report(fault)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(run)

    def stop(self, grace: float) -> None:
        """Accept no more, let open requests end within `grace` seconds, and close."""
        if self._parts is not None:
            self._parts.remove(self._part)
        if self._thread.is_alive() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain, grace)
            self._thread.join(grace + 2)
        elif self._thread.ident is None:
            self._loop.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Return True if the server ended within `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # In the thread of the loop

    def _run(self) -> None:
        """Run the event loop of this thread until the server ends; a fault is reported."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except FAULTS as fault:
            _EDGE.report(fault)
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        """Listen on all endpoints until the server ends, then close the listeners and the
        connections.
        """
        self._ended = self._loop.create_future()
        self._endpoints = self._open_endpoints(self._loop)
        self._listening = [await self._listen(each) for each in self._endpoints]
        self._sweep()
        self._serving = True
        self._ready.set()
        await self._ended
        self._close_listeners()
        for connections in self._connections:
            connections.abort()
        while any(map(len, self._connections)):
            await asyncio.sleep(0)
        await self._loop.shutdown_asyncgens()

    async def _listen(self, endpoint: Endpoint) -> asyncio.AbstractServer | DirectListener:
        """Return the listener of an endpoint: our own for direct sockets, asyncio's for TLS and
        others.
        """
        if endpoint.is_direct:
            return DirectListener(self._loop, endpoint.socket, lambda: self._accept(endpoint))
        options: dict[str, Any] = {"sock": endpoint.socket, "backlog": endpoint.accepts}
        if endpoint.tls is not None:
            options |= {"ssl": endpoint.tls, "ssl_handshake_timeout": HANDSHAKE}
        listen: Any = self._loop.create_server
        if endpoint.socket.family == socket.AF_UNIX:
            listen = self._loop.create_unix_server
            if sys.version_info >= (3, 13):
                options["cleanup_socket"] = False  # the file is the caller's, or another process's
        server: asyncio.AbstractServer = await listen(lambda: self._accept(endpoint), **options)
        endpoint.socket.listen(_BACKLOG)
        return server

    def _accept(self, endpoint: Endpoint) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection; wake an idle server's sweep first."""
        if self._is_idle:
            self._sweep()  # a connection begins with the time as it is now
            self._sweep_in(SWEEP)
        return endpoint.make_protocol()

    def _close_listeners(self) -> None:
        for server in self._listening:
            server.close()
        self._listening = []

    @property
    def _connections(self) -> list[Connections]:
        return list(dict.fromkeys(each.connections for each in self._endpoints))

    def _sweep(self) -> None:
        """Expire connections, schedule the next sweep, and end a drained server."""
        self._part.beat()
        for each in self._connections:
            each.sweep()
        is_idle = not any(map(len, self._connections))
        if self._draining:
            if is_idle:
                self._end()
            self._sweep_in(_DRAINING_SWEEP)
        else:
            self._sweep_in(_IDLE_SWEEP if is_idle else SWEEP)
            self._is_idle = is_idle

    def _sweep_in(self, seconds: float) -> None:
        """The next sweep comes after `seconds`, and no other before it."""
        if self._next_sweep is not None:
            self._next_sweep.cancel()
        self._is_idle = False
        if self._ended is not None and not self._ended.done():
            self._next_sweep = self._loop.call_later(seconds, self._sweep)

    def _drain(self, grace: float) -> None:
        """Stop accepting, let connections finish, and end after `grace` seconds at the latest."""
        self._draining = True
        for each in self._listening:
            if isinstance(each, DirectListener):
                each.accept_rest()
        if self._shares_sockets:
            self._close_listeners()
        for connections in self._connections:
            connections.drain()
        self._loop.call_later(grace, self._end)
        self._loop.call_soon(self._sweep)

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def exhaustion(context: dict[str, Any]) -> OSError | None:
    """Why no connection could be accepted, if that is what a loop reports."""
    error = context.get("exception")
    return error if isinstance(error, OSError) and error.errno in _EXHAUSTED else None


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (extra `speed`), else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
