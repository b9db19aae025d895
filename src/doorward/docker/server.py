"""The socket that the daemon calls: HTTP/1.1 on one event loop.

    bytes -> HttpConnection -> begin(path, body) -> Response | Waiting -> bytes

What is decided from the call alone is answered on the loop. What has to wait for others (files of
the host, the daemon, a decision point elsewhere, policies that are known to be slow) and long
bodies are answered by threads, so that no call waits for another one. A call has a limit in size
and time.

A daemon that meets a kept connection which is just being closed repeats its call without the body,
which is denied. So connections are kept only where the kernel tells a sender at once that nobody
reads any more, which is on Unix sockets; others end with their answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, MutableMapping
from functools import partial
from time import monotonic, sleep
from typing import Any, Final, TypeAlias

from doorward.base.cancellation import Cancellation
from doorward.base.os_errors import describe_os_error, describe_unreadable
from doorward.docker.plugin import Response, Waiting
from doorward.edge import FAULTS, Edge, Part, Parts
from doorward.telemetry.rate_limited_log import RateLimitedLog
from doorward.transport import listeners, unix_sockets
from doorward.transport.http1 import messages
from doorward.transport.http1.bodies import BodyBudget
from doorward.transport.http1.connection import LATER, Application, HttpConnection, Respond
from doorward.transport.http1.limits import Limits
from doorward.transport.http1.messages import Request
from doorward.transport.inherited import inherited_socket
from doorward.transport.loop import (
    Connections,
    Endpoint,
    LoopServer,
    NotServingError,
    exhaustion,
)
from doorward.transport.pool import Pool
from doorward.transport.slow_calls import History
from doorward.transport.unix_sockets import PathTakenError

__all__ = [
    "BACKLOG",
    "BODY_BUDGET",
    "CLOSING",
    "HANDOVER",
    "LISTEN_FD",
    "BindError",
    "PluginServer",
    "bind_tcp",
    "bind_unix",
    "open_inherited",
    "take_inherited",
    "tls_context",
]

THREADS: Final = 256
"""Calls that may wait for others at the same time."""
BACKLOG: Final = 1024
CONNECTIONS: Final = 1024
"""Calls at the same time; further ones are refused, which denies them."""
MAX_BODY: Final = 8 << 20
"""Twice what a daemon sends: 1 MiB of body in base64, its headers, and those of the answer."""
LONG: Final = 64 * 1024
"""Bytes of a body from which on it is read by a thread: that takes milliseconds."""
LONG_THREADS: Final = 2
"""Long bodies that are read at the same time: one becomes twenty times its bytes in memory."""
LONG_WAITING: Final = 32
"""Long bodies that are read or wait; further ones are refused, which denies them."""
BODY_BUDGET: Final = 64 << 20
"""Bytes that all bodies may take together, while they arrive, wait and are read: but for the first
`LONG` of each, so that short calls are answered beside long ones."""
LIMITS: Final = Limits(
    head_timeout=10.0, body_timeout=10.0, keep_alive=60.0, body_buffered=MAX_BODY, unread=MAX_BODY
)
"""A daemon sends a call at once; the decision has a deadline of its own. A daemon keeps two
connections for as long as they stay open; without one, this process sleeps."""
ACCEPT_QUIET: Final = 10.0
"""Seconds between two lines in the log about calls that could not be accepted."""
CLOSING: Final = ".closing"
"""The suffix that a socket's name gets while the last calls on it are answered."""
HANDOVER: Final = 0.2
"""Seconds in which a daemon under load has used each of its connections, and they have ended."""
LONGEST_HANDOVER: Final = 5 * HANDOVER
"""Seconds that a watchdog may take to remove the name after that."""
LISTEN_FD: Final = "DOORWARD_LISTEN_FD"
"""The variable with the descriptor of the socket that our watchdog listens on."""
STUCK_AFTER: Final = 120.0
"""Seconds in which the loop must have come round, and one of many calls have ended: twice the
longest time for a decision."""
# SD_LISTEN_FDS_START of sd_listen_fds(3).
_FIRST_INHERITED: Final = 3
# The type that dockerd asks for in `Accept`.
_HEADERS: Final = b"content-type: application/vnd.docker.plugins.v1.2+json\r\n"

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("docker-call", "a call of the Docker daemon failed: denied")

Begin: TypeAlias = Callable[[str, bytes], Response | Waiting]


class BindError(Exception):
    """The plugin cannot listen at a path or address; the message says at which, and why."""


def bind_unix(path: str, *, mode: int = 0o600) -> socket.socket:
    """Return a socket that listens at `path`, accessible only with `mode` from the beginning.

    Creates the folder and replaces a stale socket. Raise BindError if another process listens
    there, a file is in the way, or binding fails.
    """
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
        # A process that was killed in its handover has left this name behind.
        unix_sockets.clear_stale(path + CLOSING)
        return unix_sockets.bind_unix(path, mode=mode, backlog=BACKLOG)
    except PathTakenError as error:
        raise BindError(f"listen {path}: {error}") from None
    except OSError as error:
        raise BindError(f"listen {path}: {describe_os_error(error)}") from None


def bind_tcp(address: str) -> socket.socket:
    """Return a socket that listens at `host:port`; raise BindError for another form or if it cannot
    be bound.
    """
    host, port = listeners.split_host_port(address) or ("", 0)
    if not host:
        raise BindError(f"listen {address}: expected HOST:PORT")
    try:
        return listeners.bind_tcp(host, port, backlog=BACKLOG)
    except OSError as error:
        raise BindError(f"listen {address}: {describe_os_error(error)}") from None


def tls_context(*, certificate: str, key: str, authority: str) -> ssl.SSLContext:
    """Return a TLS context with the PEM files `certificate` and `key` that accepts only clients
    with certificates of `authority`.

    Raise BindError if one of the files cannot be used.
    """
    # OpenSSL does not say which of the files it could not read.
    if unreadable := describe_unreadable((authority, certificate, key)):
        raise BindError(unreadable)
    try:
        # Not `create_default_context`: from Python 3.13 on it refuses certificates that Go accepts,
        # and those that were issued here before they named their issuer's key.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
    except OSError as error:
        reason = describe_os_error(error)
        files = f"{authority}, {certificate} and {key}"
        raise BindError(f"one of the files {files} cannot be used for TLS: {reason}") from None
    return context


def take_inherited() -> socket.socket | None:
    """Return the listening socket that our watchdog passed or, if LISTEN_PID is this process,
    systemd; None if there is none. The environment stays as it is.

    Raise BindError if systemd passes another number of sockets than one, or if the descriptor is
    not a socket.
    """
    if LISTEN_FD in os.environ:
        return open_inherited(os.environ[LISTEN_FD])
    # As in sd_listen_fds(3): children inherit the variables without being meant.
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    if os.environ.get("LISTEN_FDS") != "1":
        raise BindError(
            "expected one socket from the service manager, but LISTEN_FDS is "
            f"{os.environ.get('LISTEN_FDS')}"
        )
    return open_inherited(str(_FIRST_INHERITED))


def open_inherited(descriptor: str) -> socket.socket:
    """Return the socket with a descriptor that another process passed; raise BindError if it is not
    the number of a socket.
    """
    inherited = inherited_socket(descriptor)
    if inherited is None:
        raise BindError(
            f"the file descriptor `{descriptor}` that was passed to the plugin is not a socket"
        )
    return inherited


class PluginServer:
    """Serves calls on one listening socket, each answered by `begin`, from `start` until
    `close`.
    """

    def __init__(
        self,
        listener: socket.socket,
        begin: Begin,
        *,
        context: ssl.SSLContext | None = None,
        threads: int = THREADS,
        unlink: bool = True,
        is_watched: bool = False,
    ) -> None:
        """Prepare to serve calls on `listener`, with TLS if there is a `context`; `begin` answers
        them. `threads` is the number of threads that decide.

        `unlink`: remove the socket's file at the end. `is_watched`: the watchdog removes it.
        """
        self._listener = listener
        self._is_watched = is_watched
        self._connections = Connections(CONNECTIONS)
        self._begin = begin
        self._context = context
        self._most_waiting = threads
        self._quiet = RateLimitedLog(ACCEPT_QUIET)
        self._long = History()
        self.bodies: Final = BodyBudget(BODY_BUDGET, free=LONG)
        self._pool: Pool | None = None
        self._long_pool: Pool | None = None
        self._pool_part = Part("docker-pool", within=STUCK_AFTER)
        self._loop_parts = Parts()
        self._server = LoopServer(
            self._start_endpoints,
            name="docker-plugin",
            parts=self._loop_parts,
            stuck_after=STUCK_AFTER,
            on_error=self._complain,
            shares_sockets=True,
        )
        name = listener.getsockname()
        self._file = (name, os.stat(name).st_ino) if unlink and isinstance(name, str) else None

    def start(self) -> None:
        """Answer calls in a thread from now on, and return. Raise BindError if the server does not
        begin.
        """
        try:
            self._server.start()
        except NotServingError:
            raise BindError(
                "the plugin's server did not start: see the previous error in the log"
            ) from None

    @property
    def is_stuck(self) -> bool:
        """True if no call is answered and none will be: an event loop hangs, or the queue is full
        and every thread has worked on one call for too long.
        """
        is_full = self._pool is not None and self._pool.queued >= self._most_waiting
        if is_full and self._pool_part.problem is not None:
            return True
        return any(self._loop_parts.problems.values())

    def close(self, grace: float = 10.0) -> None:
        """Answer until the daemon has closed its connections, which takes at most a second; then
        accept no more calls, and give open ones `grace` seconds to end.

        The daemon's connections are closed after an answer, since a call written to a closed
        connection is lost. The socket is renamed before it stops listening, so that the daemon
        waits for a successor.
        """
        if self._file is not None or self._is_watched:
            self._await_handover()
        closing = ""
        if self._file is not None:
            with contextlib.suppress(OSError):
                if os.stat(self._file[0]).st_ino == self._file[1]:
                    # Renamed before the socket closes: dockerd waits where the name is missing, and
                    # a call to a socket that nobody serves fails.
                    os.rename(self._file[0], self._file[0] + CLOSING)
                    closing = self._file[0] + CLOSING
        self.drain(grace)
        if closing:
            os.unlink(closing)
        self._listener.close()

    def _await_handover(self) -> None:
        """Let each connection end with its next answer, and wait until the daemon has closed its
        connections or, with a watchdog, until the watchdog has removed the socket's name; each for
        a limited time. Sets `has_successor` of the connections if the name is still there then.
        """
        # Each connection ends with its next answer, so that none is closed with a call under way.
        self._connections.ends_soon = True
        until = monotonic() + (LONGEST_HANDOVER if self._is_watched else HANDOVER)
        while monotonic() < until and (self._has_name if self._is_watched else self._connections):
            sleep(HANDOVER / 20)
        self._connections.has_successor = self._is_watched and self._has_name

    @property
    def _has_name(self) -> bool:
        """True if a file has the name of this Unix socket, by which the daemon reaches it."""
        name = self._listener.getsockname()
        return isinstance(name, str) and os.path.exists(name)

    def drain(self, grace: float = 10.0) -> None:
        """Accept no more calls, and give those that were accepted `grace` seconds to end. The
        listening socket stays open: new connections wait in its queue.
        """
        self._server.stop(grace)
        for pool in (self._pool, self._long_pool):
            if pool is not None:
                pool.close()

    # On the loop

    def _start_endpoints(self, loop: asyncio.AbstractEventLoop) -> list[Endpoint]:
        """Start the thread pools, one for usual calls and one for long ones, and return the one
        endpoint: a copy of the listening socket, which stays open when the server ends.
        """
        pool = self._pool = Pool(loop, self._most_waiting, name="plugin", part=self._pool_part)
        long = self._long_pool = Pool(loop, LONG_THREADS, name="plugin-long", most=LONG_WAITING)
        connections = self._connections
        answer = partial(self._answer, pool, long)
        is_direct = self._context is None
        # Over TCP a sender is not told at once that nobody reads (module docstring).
        keeps_alive = is_direct and self._listener.family == socket.AF_UNIX
        application = Application(answer, _refuse_body, keeps_alive=keeps_alive)

        def make_protocol() -> HttpConnection:
            return HttpConnection(connections, application, LIMITS, loop, self.bodies)

        # A socket of its own: the one that was given goes on listening when the server has ended.
        shared = self._listener.dup()
        return [
            Endpoint(shared, connections, make_protocol, tls=self._context, is_direct=is_direct)
        ]

    def _answer(
        self, pool: Pool, long: Pool, request: Request, respond: Respond
    ) -> messages.Response:
        """Return the answer to an HTTP request, or LATER if `respond` gets it after work in a
        thread.

        405 for methods other than POST, 503 if too many calls wait. Long bodies have their own
        pool.
        """
        if request.method != b"POST":
            return _http(Response(405, b'{"Err":"only POST is answered"}'))
        work: Callable[[], Response | Waiting]
        work = partial(self._begin, request.target.decode("latin-1"), request.body)
        history = self._long
        # Short ones are tried on the loop: most need no wait, and a thread costs more than they do.
        if len(request.body) < LONG:
            outcome = _run_guarded(work)
            if isinstance(outcome, Response):
                return _http(outcome)
            work, history = outcome
        else:
            pool = long
        finish = partial(_finish, work)
        done = partial(_respond, respond, request)
        if pool.submit(finish, done, Cancellation(), history):
            return LATER
        return _http(Response(503, b'{"Err":"too many calls wait"}'))

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that the event loop reports because no caller could catch it. Failures to
        accept, which repeat while descriptors or memory are exhausted, are logged at a limited
        rate.
        """
        error = exhaustion(context)
        if error is None:
            loop.default_exception_handler(context)
        elif (more := self._quiet.suppressed("accept")) is not None:
            _log.error("accept failed", extra={"error": describe_os_error(error), "more": more})


def _run_guarded(work: Callable[[], Response | Waiting]) -> Response | Waiting:
    """Return the result of `work`; a failure is reported and becomes a response with status 500."""
    try:
        return work()
    except FAULTS as fault:
        _EDGE.report(fault)
        return Response(500, b'{"Err":"internal error"}')


def _finish(work: Callable[[], Response | Waiting]) -> Response:
    """Return the response to a call, computed in this thread: runs `work`, then each further step
    that a result asks for, however long they take.
    """
    outcome = _run_guarded(work)
    while not isinstance(outcome, Response):
        outcome = _run_guarded(outcome.finish)
    return outcome


def _respond(respond: Respond, request: Request, response: Response) -> None:
    respond(request, _http(response))


def _http(response: Response) -> messages.Response:
    return messages.Response(response.status, _HEADERS, response.body)


async def _refuse_body(
    scope: MutableMapping[str, Any], _receive: object, send: Callable[..., Any]
) -> None:
    """Refuse a call whose body is not read: 413 if it is too long, 417 if the client waits for `100
    Continue`.
    """
    waits = any(name == b"expect" for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 417 if waits else 413, "headers": []})
    await send({"type": "http.response.body", "body": b'{"Err":"the call cannot be read"}'})
