"""Listeners for the HTTP API: sockets bound before anything is announced, one loop for all.

A listener that cannot be bound is an error to the caller, at once; nothing is served half.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.edge import Parts
from doorward.telemetry.rate_limited_log import RateLimitedLog
from doorward.transport.http1.asgi import AsgiApp
from doorward.transport.http1.connection import Answer, Application, HttpConnection, no_answer
from doorward.transport.http1.limits import Limits
from doorward.transport.listeners import bind_tcp, split_host_port
from doorward.transport.loop import (
    Connections,
    Endpoint,
    LoopServer,
    NotServingError,
    exhaustion,
)
from doorward.transport.tls import TlsContext
from doorward.transport.unix_sockets import PathTakenError, bind_unix

__all__ = ["MAX_CONNECTIONS", "BindError", "HttpServer", "Listener", "bind"]

BACKLOG: Final = 1024
MAX_CONNECTIONS: Final = 1_000
"""The largest number of connections of a listener; fewer if the process may have few
descriptors."""
ACCEPT_QUIET: Final = 10.0
"""Seconds between two log lines about connections that could not be accepted."""
REFUSALS_QUIET: Final = 1.0
"""Seconds between two log lines with the same reason about requests refused while being read."""

STUCK_AFTER: Final = 30.0
"""Seconds without a sweep after which the loop counts as stuck."""

_log: Final = logging.getLogger(__name__)


class BindError(Exception):
    """An address cannot be listened on; the message says which and why."""


@record
class Listener:
    """A bound socket with its name, its application and its limits."""

    address: str
    socket: socket.socket
    app: AsgiApp
    connections: int = MAX_CONNECTIONS
    limits: Limits = field(default_factory=Limits)
    short_path: Callable[[asyncio.AbstractEventLoop], Answer | None] = lambda _loop: None
    """Returns the function that answers requests before `app` gets them, or None."""
    tls: TlsContext | None = None


def bind(address: str, *, unix_permissions: int = 0o755) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`, `:PORT` (also after `http://` or `https://`) or
    `unix:///PATH`.

    A stale socket file is deleted. Raise BindError if the address is malformed or not available.
    """
    try:
        if address.startswith("unix:"):
            path = address.removeprefix("unix:").removeprefix("//")
            return bind_unix(path, mode=unix_permissions, backlog=BACKLOG)
        return _bind_tcp(address.removeprefix("http://").removeprefix("https://"))
    except PathTakenError as error:
        raise BindError(f"listen {address}: {error}") from None
    except OSError as error:
        raise BindError(f"listen {address}: {describe_os_error(error)}") from None


def _bind_tcp(address: str) -> socket.socket:
    """Return a socket that listens at `HOST:PORT`, or at all addresses without a host.

    Raise BindError for another form, OSError if the address is not available.
    """
    parts = split_host_port(address)
    if parts is None:
        raise BindError(f"listen {address}: expected HOST:PORT, :PORT or unix:///PATH")
    host, port = parts
    if not host:
        dual_stack = socket.has_dualstack_ipv6()
        every = "::" if dual_stack else "0.0.0.0"
        return bind_tcp(every, port, backlog=BACKLOG, dual_stack=dual_stack)
    return bind_tcp(host, port, backlog=BACKLOG)


class HttpServer:
    """Serves listeners from one event loop in a thread of its own."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        *,
        grace: float = 10.0,
        parts: Parts | None = None,
        owns_files: bool = True,
    ) -> None:
        """Prepare a server for listeners; `start` serves them. `grace` are the seconds that open
        requests get in `close`. `owns_files`: socket files are deleted in `close`, since no other
        process serves them.
        """
        self._listeners = tuple(listeners)
        self._server = LoopServer(
            self._endpoints,
            name="http-server",
            parts=parts,
            stuck_after=STUCK_AFTER,
            on_error=self._complain,
            shares_sockets=not owns_files,
        )
        self._grace = grace
        self._quiet = RateLimitedLog(ACCEPT_QUIET)
        self._refusals = RateLimitedLog(REFUSALS_QUIET)
        names = [each.socket.getsockname() for each in listeners if owns_files]
        self._files = [(n, os.stat(n).st_ino) for n in names if isinstance(n, str) and n]

    def start(self) -> None:
        """Start the thread and block until every listener accepts requests; raise BindError if it
        fails.
        """
        try:
            self._server.start()
        except NotServingError:
            raise BindError(
                "the HTTP server did not start: see the previous error in the log"
            ) from None

    @property
    def alive(self) -> bool:
        return self._server.alive

    def close(self) -> None:
        """Accept no more requests, let open ones end within the grace period, and close; blocks
        until then.

        Also deletes the socket files that it owns, unless another server has replaced them.
        """
        self._server.stop(self._grace)
        for each in self._listeners:
            each.socket.close()
        for path, inode in self._files:
            with contextlib.suppress(OSError):
                # A successor may have bound the same path meanwhile: its file stays.
                if os.stat(path).st_ino == inode:
                    os.unlink(path)

    def _endpoints(self, loop: asyncio.AbstractEventLoop) -> list[Endpoint]:
        return [self._endpoint(loop, each) for each in self._listeners]

    def _endpoint(self, loop: asyncio.AbstractEventLoop, listener: Listener) -> Endpoint:
        """Return the endpoint of a listener; at most a quarter of the file descriptors are its
        connections.
        """
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        connections = Connections(max(8, min(listener.connections, descriptors // 4)))
        answer = listener.short_path(loop) or no_answer
        application = Application(answer, listener.app, self._note_refusal)

        def make_protocol() -> HttpConnection:
            return HttpConnection(connections, application, listener.limits, loop)

        return Endpoint(listener.socket, connections, make_protocol, tls=listener.tls)

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error of the loop; failures to accept are rate-limited, since each attempt makes
        one.
        """
        error = exhaustion(context)
        if error is None:
            loop.default_exception_handler(context)
            return
        if (more := self._quiet.suppressed("accept")) is not None:
            _log.error("accept failed", extra={"error": describe_os_error(error), "more": more})

    def _note_refusal(self, reason: str) -> None:
        """Log a refused request, at most one line a second for each reason, since clients cause
        them.
        """
        if (more := self._refusals.suppressed(reason)) is not None:
            _log.warning("An HTTP request was refused.", extra={"reason": reason, "more": more})
