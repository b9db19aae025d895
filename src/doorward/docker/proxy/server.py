"""The listening sockets of the proxy, each with what it says of its callers.

    Listener(socket, consumer, TLS) -> ClientConnection -> Caller

On a socket of its own a consumer is known by that: the file is what carries the right. On a shared
one the kernel says who calls, and over TCP the client's certificate does.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from doorward.base.cancellation import Cancellation
from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.docker.plugin import Plugin
from doorward.docker.proxy.connection import ClientConnection
from doorward.docker.proxy.daemon import Daemon
from doorward.docker.proxy.decisions import PluginDecisions
from doorward.docker.proxy.exchange import Budget, Sides
from doorward.docker.proxy.peers import Names, Peer, PeerError
from doorward.docker.proxy.pins import Pins
from doorward.docker.proxy.recordings import Recordings
from doorward.docker.proxy.tls import TlsLayer
from doorward.docker.proxy.wire import Wire
from doorward.docker.request.call import Caller
from doorward.edge import FAULTS, Edge, Part, Parts
from doorward.telemetry.rate_limited_log import RateLimitedLog
from doorward.transport.loop import (
    Connections,
    Endpoint,
    LoopServer,
    NotServingError,
    exhaustion,
)
from doorward.transport.pool import Pool
from doorward.transport.slow_calls import History

__all__ = ["Listener", "ProxyError", "ProxyServer"]

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge(
    "docker-proxy-peer", "the user of a connection could not be looked up: the request is refused"
)

CONNECTIONS: Final = 2048
"""Connections at the same time, with streams; further ones replace idle ones, or are refused."""
MOST_OF_ONE: Final = 1024
"""Connections of one user or consumer at the same time: half, so that none takes all."""
MOST_BUFFERED: Final = 128 << 20
"""Bytes of bodies and answers that are held as a whole, of all connections together."""
THREADS: Final = 64
"""Decisions that wait for others at the same time."""
STUCK_AFTER: Final = 120.0
ACCEPT_QUIET: Final = 10.0
"""Seconds between two lines in the log about connections that could not be accepted."""


class ProxyError(Exception):
    """A proxy that cannot serve; the message says why."""


@record
class Listener:
    """A listening socket, and how callers on it are identified: as one `consumer`, by a certificate
    (`tls`), or else by the user of the process that connects.
    """

    socket: socket.socket
    consumer: str = ""
    """The name of the one consumer that it is for; "" for one that is shared."""
    tls: ssl.SSLContext | None = None


class ProxyServer:
    """Serves listeners in front of the daemon at a path. `start`, then `close` to drain and end."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        daemon: str,
        plugin: Plugin,
        *,
        pins: Pins | None = None,
        recordings: Recordings | None = None,
        has_owners: Callable[[], bool] = bool,
    ) -> None:
        self._listeners = listeners
        self._pins = pins
        self._recordings = recordings
        self._has_owners = has_owners
        self._path = daemon
        self._plugin = plugin
        self._names = Names()
        self._connections = Connections(CONNECTIONS)
        self._counts: Counter[str] = Counter()
        self._pool: Pool | None = None
        self._decisions: PluginDecisions | None = None
        self._pool_part = Part("docker-proxy-pool", within=STUCK_AFTER)
        self._parts = Parts()
        self._quiet = RateLimitedLog(ACCEPT_QUIET)
        self._history = History()
        self._server = LoopServer(
            self._endpoints,
            name="docker-proxy",
            parts=self._parts,
            stuck_after=STUCK_AFTER,
            on_error=self._complain,
            shares_sockets=True,
        )

    def start(self) -> None:
        """Serve in a thread of its own, and return. Raise ProxyError if that does not begin."""
        try:
            self._server.start()
        except NotServingError:
            raise ProxyError("the proxy did not start: see the previous error in the log") from None

    @property
    def is_stuck(self) -> bool:
        """True if the server has stopped answering and does not recover by itself."""
        is_full = self._pool is not None and self._pool.queued >= THREADS
        if is_full and self._pool_part.problem is not None:
            return True
        return any(self._parts.problems.values())

    def close(self, grace: float) -> None:
        """Stop accepting connections, and block while open requests end, for at most `grace`
        seconds; then abort the rest. After that, end the threads for decisions and recordings, and
        close the listening sockets.
        """
        self._server.stop(grace)
        if self._pool is not None:
            self._pool.close()
        if self._decisions is not None:
            self._decisions.close()
        if self._recordings is not None:
            self._recordings.close()
        for each in self._listeners:
            each.socket.close()

    # On the loop

    def _endpoints(self, loop: asyncio.AbstractEventLoop) -> list[Endpoint]:
        """Create the thread pool and the decisions, and return the endpoints of all listeners, on
        copies of their sockets. They share the pool, the daemon, the decisions and the buffer
        budget.
        """
        pool = self._pool = Pool(loop, THREADS, name="docker-proxy", part=self._pool_part)
        daemon = Daemon(self._path, loop)
        pins = self._pins
        decisions = self._decisions = PluginDecisions(
            self._plugin, pool, loop, pins=pins, has_owners=self._has_owners
        )
        budget = Budget(MOST_BUFFERED)
        translate = None if pins is None else pins.translate

        def make_protocol(listener: Listener) -> asyncio.BaseProtocol:
            """Return the protocol of a new client of a listener."""
            callers = _Caller(self, listener, pool, loop)
            connection = ClientConnection(
                loop,
                self._connections,
                Sides(daemon, decisions, callers.identify, budget, translate, self._recordings),
                callers.end,
            )
            if listener.tls is None:
                return connection
            return TlsLayer(connection, listener.tls, loop)

        return [
            Endpoint(
                each.socket.dup(),
                self._connections,
                partial(make_protocol, each),
                is_direct=True,
            )
            for each in self._listeners
        ]

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that the event loop could raise to nobody.

        Errors of `accept` without free descriptors are logged only now and then, with the number of
        suppressed ones.
        """
        error = exhaustion(context)
        if error is None:
            loop.default_exception_handler(context)
        elif (more := self._quiet.suppressed("accept")) is not None:
            _log.error("accept failed", extra={"error": describe_os_error(error), "more": more})

    def add_connections(self, name: str, step: int) -> int:
        """Add `step`, 1 or -1, to the number of connections of the caller `name`, and return the
        new number.
        """
        self._counts[name] += step
        count = self._counts[name]
        if not count:
            del self._counts[name]
        return count

    def find(self, uid: int) -> Caller | None:
        """Return the user with this number; None unless it was looked up lately."""
        return self._names.find(uid)

    def look_up(self, uid: int) -> Caller | PeerError:
        """Return the user with this number, however long that takes; an error is returned, not
        raised.
        """
        try:
            return self._names.look_up(uid)
        except PeerError as error:
            return error
        except FAULTS as fault:
            _EDGE.report(fault)
            return PeerError("the calling user could not be looked up")


class _Caller:
    """The caller of one connection, looked up at its first request."""

    def __init__(
        self, server: ProxyServer, listener: Listener, pool: Pool, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._server = server
        self._listener = listener
        self._pool = pool
        self._loop = loop
        self._caller: Caller | None = None
        self._counted = ""

    async def identify(self, wire: Wire) -> Caller:
        """Return the caller of a connection, found at its first request; groups are looked up again
        later.

        The first call counts the connection for its caller. Raise PeerError if the caller cannot be
        found, has ended, or has more than `MOST_OF_ONE` connections.
        """
        if self._caller is None:
            if self._listener.tls is not None:
                caller = _caller_of_certificate(wire)
            else:
                caller = await self._by_socket(wire)
            name = caller.name or f"container {caller.container}"
            # Counted first and taken back: no other connection runs in between.
            if self._server.add_connections(name, 1) > MOST_OF_ONE:
                self._server.add_connections(name, -1)
                raise PeerError(f"you have more than {MOST_OF_ONE} connections open: close some")
            self._caller, self._counted = caller, name
            # It ended while it was looked up, and `end` has been called with nothing counted yet.
            if wire.lost:
                self.end()
                raise PeerError("the calling process has ended")
        elif self._caller.method == "peer":
            # Its groups may have changed since the connection was made.
            uid = self._caller.uid
            self._caller = self._server.find(uid) or await self._look_up(uid)
        return self._caller

    def end(self) -> None:
        """Count the connection no longer for its caller; a second call does nothing."""
        if self._counted:
            self._server.add_connections(self._counted, -1)
            self._counted = ""

    async def _by_socket(self, wire: Wire) -> Caller:
        """Return the caller at the other end of a Unix socket: the listener's consumer, a
        container, or a user of this host. Raise PeerError if the process has gone or cannot be
        examined, or its user cannot be looked up.
        """
        end = wire.transport.get_extra_info("socket")
        if end is None:
            raise PeerError("the calling process has ended")
        try:
            peer = Peer(end)
        except OSError:
            raise PeerError("the calling process has ended") from None
        try:
            # Before the container: the right is in the file, whichever process opens it.
            if self._listener.consumer:
                name = f"socket:{self._listener.consumer}"
                return Caller(name, "socket", (), peer.uid)
            container = peer.container()
            if container is not None:
                return Caller("", "container", (), peer.uid, container)
            return self._server.find(peer.uid) or await self._look_up(peer.uid)
        finally:
            peer.close()

    async def _look_up(self, uid: int) -> Caller:
        """Look up a user by number in a thread of the pool, since that may wait for a directory
        server.

        Raise PeerError for a user of another user namespace, which has no number on this host, if
        the lookup fails, and if too many requests wait for a thread.
        """
        result: asyncio.Future[Caller | PeerError] = self._loop.create_future()

        def resolve(caller: Caller | PeerError) -> None:
            if not result.done():
                result.set_result(caller)

        work = partial(self._server.look_up, uid)
        # With a history of its own: how long a directory server takes says nothing of decisions.
        if not self._pool.submit(work, resolve, Cancellation(), History()):
            raise PeerError("too many requests wait for their user to be looked up: try again")
        caller = await result
        if isinstance(caller, PeerError):
            raise caller
        return caller


def _caller_of_certificate(wire: Wire) -> Caller:
    """Return the caller named by the last common name of the client's certificate, as dockerd reads
    it.

    Raise PeerError if there is none, or if it contains a colon.
    """
    tls = wire.transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert() if tls is not None else None
    names = [
        value
        for part in (certificate or {}).get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    if not names or not names[-1] or ":" in names[-1]:
        raise PeerError(
            "the client certificate names no user: its common name is missing or has a colon"
        )
    return Caller(names[-1], "TLS")
