"""Listeners for the HTTP API: sockets bound before anything is announced, one loop for all.

A listener that cannot be bound is an error to the caller, at once; nothing is served half.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from doorward.edge import FAULTS, Edge, Part, Parts
from doorward.pdp.quiet import Quiet
from doorward.pdp.unix_sockets import PathTakenError, bind_unix
from doorward.rest.bounded import bounded
from doorward.transport.listeners import bind_tcp

__all__ = ["MAX_CONNECTIONS", "BindError", "HttpServer", "Listener", "bind"]

BACKLOG: Final = 1024
MAX_CONNECTIONS: Final = 1_000
"""Of a listener; fewer where the process may have few descriptors."""
KEEP_ALIVE: Final = 30
ACCEPT_QUIET: Final = 10.0
"""Seconds between two lines in the log about connections that could not be accepted."""

STUCK_AFTER: Final = 30.0
"""Seconds in which the loop must have come round once."""
_BEAT: Final = 1.0

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("http-server", "the HTTP server failed")


class BindError(Exception):
    """An address that cannot be listened on; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket, the name it is known by, what it serves, and to how many at once."""

    address: str
    socket: socket.socket
    app: ASGIApp
    connections: int = MAX_CONNECTIONS


def bind(address: str, *, unix_permissions: int = 0o755) -> socket.socket:
    """A listening socket at `host:port`, `:port`, `http://host:port` or `unix:///path`.

    A socket file that a dead server left behind is replaced; one that answers is not.
    """
    try:
        if address.startswith("unix:"):
            path = address.removeprefix("unix:").removeprefix("//")
            return bind_unix(path, mode=unix_permissions, backlog=BACKLOG)
        return _bind_tcp(address.removeprefix("http://"))
    except PathTakenError as error:
        raise BindError(f"listen {address}: {error}") from None
    except OSError as error:
        raise BindError(f"listen {address}: {(error.strerror or str(error)).lower()}") from None


def _bind_tcp(address: str) -> socket.socket:
    host, colon, port = address.rpartition(":")
    if not colon or "://" in address or not port.isdecimal() or int(port) > 65535:
        raise BindError(f"listen {address}: expected HOST:PORT, :PORT or unix:///PATH")
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        dual_stack = socket.has_dualstack_ipv6()
        every = "::" if dual_stack else "0.0.0.0"
        return bind_tcp(every, int(port), backlog=BACKLOG, dual_stack=dual_stack)
    return bind_tcp(host, int(port), backlog=BACKLOG)


class HttpServer:
    """Serves listeners from one event loop in a thread of its own."""

    def __init__(
        self, listeners: Sequence[Listener], *, grace: float = 10.0, parts: Parts | None = None
    ) -> None:
        self._listeners = tuple(listeners)
        self._servers = [uvicorn.Server(_settings(each, grace)) for each in listeners]
        _hush()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._grace = grace
        self._parts = parts or Parts()
        self._part = Part("http-server", within=STUCK_AFTER)
        self._quiet = Quiet(ACCEPT_QUIET)
        names = [each.socket.getsockname() for each in listeners]
        self._files = [(n, os.stat(n).st_ino) for n in names if isinstance(n, str) and n]

    def start(self, timeout: float = 60.0) -> None:
        """Serve from now on; returns when every listener takes requests."""
        self._thread.start()
        self._part.thread = self._thread
        self._parts.add(self._part)
        waited = threading.Event()
        for _ in range(int(timeout / 0.01)):
            if all(server.started for server in self._servers):
                for each in self._listeners:
                    each.socket.listen(BACKLOG)
                return
            if not self._thread.is_alive():
                break
            waited.wait(0.01)
        raise BindError("the HTTP server did not start")

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Take no more requests, and give those under way the grace period to end."""
        self._parts.remove(self._part)
        for server in self._servers:
            server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(self._grace + 5.0)
        for each in self._listeners:
            each.socket.close()
        for path, inode in self._files:
            with contextlib.suppress(OSError):
                if os.stat(path).st_ino == inode:
                    os.unlink(path)

    def _run(self) -> None:
        # The thread ends all the same: its sockets are closed. The supervisor ends the process.
        try:
            asyncio.run(self._serve())
        except FAULTS as fault:
            _EDGE.report(fault)

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._complain)
        pairs = zip(self._servers, self._listeners, strict=True)
        beating = asyncio.create_task(self._beat())
        try:
            await asyncio.gather(*[server.serve([each.socket]) for server, each in pairs])
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._part.beat()
            await asyncio.sleep(_BEAT)

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What the loop has nobody to raise to; without descriptors it says so at each attempt."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
            return
        if (more := self._quiet.suppressed("accept")) is not None:
            _log.error("accept failed", extra={"error": error.strerror, "more": more})


class _OneOfAKind(logging.Filter):
    """Of what clients can cause, one line a second for each kind."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet = Quiet()

    def filter(self, record: logging.LogRecord) -> bool:
        return (
            record.levelno != logging.WARNING or self._quiet.suppressed(str(record.msg)) is not None
        )


def _hush() -> None:
    logger = logging.getLogger("uvicorn.error")
    if not any(isinstance(each, _OneOfAKind) for each in logger.filters):
        logger.addFilter(_OneOfAKind())


def _settings(listener: Listener, grace: float) -> uvicorn.Config:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return uvicorn.Config(
        listener.app,
        loop="asyncio",
        http=bounded(max(8, min(listener.connections, descriptors // 4))),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        # To asyncio this is also how often it accepts before it looks at anything else. Without
        # descriptors it makes as many attempts, and a timer for each (Python 3.11 and 3.12).
        backlog=1,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, int(grace)),
    )
