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
    "NotServingError",
    "ServedConnection",
    "exhaustion",
    "new_loop",
]

_EDGE: Final = Edge("transport", "a server's event loop failed")

SWEEP: Final = 0.5
"""Seconds between two sweeps, which end what is past its time limit."""
_IDLE_SWEEP: Final = 10.0
"""Seconds between two sweeps without a connection: an idle server lets the processor sleep."""
# An orderly end should not wait half a second for the last connection to be noticed.
_DRAINING_SWEEP: Final = SWEEP / 10
# Connections that may wait while the loop is busy; the kernel lowers it to its own limit.
_BACKLOG: Final = 1_024
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class NotServingError(Exception):
    """A server whose loop ended before it served; the fault was reported."""


class ServedConnection(Protocol):
    """A connection as its server sees it."""

    @property
    def idle_since(self) -> float | None:
        """The time since which the client is silent, in monotonic seconds; None while we work for
        it.
        """

    def expire(self) -> None:
        """End what is past its time limit."""

    def shutdown(self) -> None:
        """Accept no more requests, answer the open ones, and close."""

    def close(self) -> None:
        """Tell the client and close at once, whatever is open."""

    def refuse(self) -> None:
        """Tell the client, as far as the protocol can, that there is no room, and close."""

    def abort(self) -> None:
        """Close without telling the client."""


class Connections:
    """The open connections of an endpoint, at most `most`.

    A further one replaces the connection that is idle for longest, and is refused if none is idle.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[ServedConnection, None] = {}
        self.draining = False
        self.ends_soon = False
        """True if each connection must end with its next response."""
        self.has_successor = True
        """True if another process answers a client that comes back."""
        self.now = monotonic()
        """The time of the last sweep, in monotonic seconds."""
        self.date = b""
        """The time of the last sweep as a line of HTTP's `date` header."""
        self.tell_time()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: ServedConnection) -> None:
        """Register an accepted connection, or refuse it if there is no room.

        While draining it is shut down at once.
        """
        # Not registered: a refused connection must not count, or be expired.
        if len(self._open) >= self._most and not self._replace_idle():
            connection.refuse()
            return
        self._open[connection] = None
        # The kernel may have accepted it before the listener closed.
        if self.draining:
            connection.shutdown()

    def _replace_idle(self) -> bool:
        """Close the connection that is idle for longest; return False if none is idle."""
        idle = [(each.idle_since, each) for each in self._open]
        waiting = [(since, each) for since, each in idle if since is not None]
        if not waiting:
            return False
        _, oldest = min(waiting, key=lambda pair: pair[0])
        # Before `close`, which reports the loss only in a later turn: the slot is free now.
        self.remove(oldest)
        oldest.close()
        return True

    def remove(self, connection: ServedConnection) -> None:
        """Forget a connection that was closed."""
        self._open.pop(connection, None)

    def tell_time(self) -> None:
        """Update the cached time, and the header line with the date."""
        self.now = monotonic()
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()

    def sweep(self) -> None:
        """Update the cached time, and let each connection close itself if a deadline has passed."""
        self.tell_time()
        for connection in list(self._open):
            connection.expire()

    def drain(self) -> None:
        """Let each connection end after the requests that run; one that is registered later is shut
        down at once.
        """
        self.draining = True
        for connection in list(self._open):
            connection.shutdown()

    def abort(self) -> None:
        for connection in list(self._open):
            connection.abort()


@record
class Endpoint:
    """A listening socket, its open connections, and the function that makes the protocol of a new
    one.
    """

    socket: socket.socket
    connections: Connections
    make_protocol: Callable[[], asyncio.BaseProtocol]
    accepts: int = 16
    """The connections that asyncio accepts in one turn. Without free descriptors it makes as many
    attempts, and a timer for each (Python 3.11 and 3.12)."""
    tls: ssl.SSLContext | None = None
    is_direct: bool = False
    """True to serve with `DirectListener`: the socket listens already, and connections are
    short."""


class LoopServer:
    """Serves endpoints on one event loop in a thread of its own: `start`, then `stop`."""

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
        """Prepare a server in a thread of its own; `start` makes it serve.

        `open_endpoints` is called once on the loop. `stuck_after` are seconds without a sweep
        after which `parts` report the server as stuck. `shares_sockets`: another process accepts as
        well, so that this one may stop accepting at the end.
        """
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

    def start(self) -> None:
        """Start the thread, and block until its loop listens on all endpoints. From then on
        `parts`, if any, watch the thread. Raise NotServingError if the loop fails before that; the
        fault was reported.
        """
        self._thread.start()
        # The thread sets it in every case, so that a fault at the start does not block here.
        self._ready.wait()
        if not self._serving:
            raise NotServingError
        if self._parts is not None:
            self._part.thread = self._thread
            self._parts.add(self._part)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` on the loop's thread, soon; a fault of it is reported.

        Does nothing once the loop is closed.
        """

        def run() -> None:
            """Call the function; report a fault instead of raising it in the loop."""
            try:
                function()
            except FAULTS as fault:
                _EDGE.report(fault)

        # Closed by a fault of the loop itself; `call_soon_threadsafe` would raise here.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(run)

    def stop(self, grace: float) -> None:
        """Stop the server, and block until its thread has ended, at most `grace` + 2 seconds. Open
        requests may end within `grace` seconds; then their connections are aborted.

        Listening stops at once with `shares_sockets`, else with the server. One that was never
        started only closes its loop.
        """
        if self._parts is not None:
            self._parts.remove(self._part)
        if self._thread.is_alive() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain, grace)
            # The loop ends itself after `grace`; the rest is for its last turns.
            self._thread.join(grace + 2)
        # Never started: nobody else closes the loop, and its descriptors would leak.
        elif self._thread.ident is None:
            self._loop.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server ends, at most `timeout` seconds (None: forever); return False on
        timeout.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # In the thread of the loop

    def _run(self) -> None:
        """Run the loop until the server ends; a fault is reported, and `start` is always
        released.
        """
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except FAULTS as fault:
            _EDGE.report(fault)
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        """Run the server: listen on all endpoints, let `start` return, and wait until `_end` is
        called. Then close the listeners, abort the connections and wait until they are gone. An
        exception before `start` is released makes it raise NotServingError.
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
        # An aborted transport tells its protocol in a later turn of the loop.
        while any(map(len, self._connections)):
            await asyncio.sleep(0)
        await self._loop.shutdown_asyncgens()

    async def _listen(self, endpoint: Endpoint) -> asyncio.AbstractServer | DirectListener:
        """Listen at an endpoint and return the listener: a `DirectListener` if it `is_direct`, else
        asyncio's server, with TLS if the endpoint has a context. The socket's file, if any, stays
        when it closes.
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
        # asyncio's `backlog` is the kernel's queue and its own accepts in a turn: the
        # queue is set again.
        endpoint.socket.listen(_BACKLOG)
        return server

    def _accept(self, endpoint: Endpoint) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection; first update the clock of an idle server."""
        if self._is_idle:
            self._sweep()  # a connection begins with the time as it is now
            self._schedule_sweep(SWEEP)
        return endpoint.make_protocol()

    def _close_listeners(self) -> None:
        """Stop listening; open connections go on."""
        for server in self._listening:
            server.close()
        self._listening = []

    @property
    def _connections(self) -> list[Connections]:
        # Endpoints may share their connections, which must be swept once.
        return list(dict.fromkeys(each.connections for each in self._endpoints))

    def _sweep(self) -> None:
        """Report that the loop is alive, let connections past a time limit end, and schedule the
        next sweep: sooner while the server drains, later without connections. A draining server
        without connections ends.
        """
        self._part.beat()
        for each in self._connections:
            each.sweep()
        is_idle = not any(map(len, self._connections))
        if self._draining:
            if is_idle:
                self._end()
            self._schedule_sweep(_DRAINING_SWEEP)
        else:
            self._schedule_sweep(_IDLE_SWEEP if is_idle else SWEEP)
            # After `_schedule_sweep`, which clears it.
            self._is_idle = is_idle

    def _schedule_sweep(self, seconds: float) -> None:
        """Schedule the next sweep in `seconds`, and cancel the one that was scheduled. None is
        scheduled once the server is ending. The server no longer counts as idle.
        """
        if self._next_sweep is not None:
            self._next_sweep.cancel()
        self._is_idle = False
        if self._ended is not None and not self._ended.done():
            self._next_sweep = self._loop.call_later(seconds, self._sweep)

    def _drain(self, grace: float) -> None:
        """Begin the end of the server: let its connections end after their open requests, and end
        the server with the last of them, after `grace` seconds at the latest.

        What waits at direct listeners is accepted first. Listening stops only if other processes
        share the sockets; else new connections are accepted and drained too.
        """
        self._draining = True
        for each in self._listening:
            if isinstance(each, DirectListener):
                # The kernel has accepted these connections already; closing the socket would reset
                # them.
                each.accept_rest()
        # Alone, it keeps its socket open: the kernel would refuse who connects during the drain.
        if self._shares_sockets:
            self._close_listeners()
        for connections in self._connections:
            connections.drain()
        self._loop.call_later(grace, self._end)
        # The scheduled sweep may be ten seconds away.
        self._loop.call_soon(self._sweep)

    def _end(self) -> None:
        """Let the server's loop end, unless it is ending already."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def exhaustion(context: dict[str, Any]) -> OSError | None:
    """Return the OSError for which a loop could not accept (no descriptors or memory left), else
    None.
    """
    error = context.get("exception")
    return error if isinstance(error, OSError) and error.errno in _EXHAUSTED else None


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop of uvloop if it is installed (extra `speed`), else of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
