"""Connections to the daemon: kept between requests, one for each that is taken over.

Only a socket whose other end belongs to root, or to the user of this process, is the daemon: one
that somebody put in its place gets no request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from time import monotonic
from typing import Final

from doorward.docker.proxy.wire import Wire
from doorward.transport.direct import DirectTransport

__all__ = ["Daemon", "DaemonGoneError"]

MOST_IDLE: Final = 32
CONNECTING: Final = 5.0
"""Seconds in which the daemon must take a connection: its queue may be full for a moment."""
SO_SNDBUFFORCE: Final = 32
SEND_BUFFER: Final = 512 * 1024
"""Bytes that the kernel keeps for the daemon: it goes on reading while we wait for a processor."""
_PAUSE: Final = 0.01
_CREDENTIALS: Final = struct.Struct("3i")


class DaemonGoneError(Exception):
    """The daemon cannot be reached, or ended before it answered."""


class Daemon:
    """The daemon at a Unix socket, for the coroutines of one loop."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._idle: list[Wire] = []

    def take_idle(self) -> Wire | None:
        """Take an idle connection from the pool; None if no usable one is left.

        Connections that the daemon ended, or on which unexpected bytes came, are aborted and
        dropped.
        """
        while self._idle:
            wire = self._idle.pop()
            # Bytes that nobody asked for would be taken for the next answer.
            if not wire.at_end and not wire.data:
                return wire
            wire.abort()
        return None

    async def connect(self) -> Wire:
        """Open a new connection to the daemon's socket.

        Retries for `CONNECTING` seconds while the daemon's backlog is full. Raise DaemonGoneError
        if it stays full, if the socket cannot be connected to, or if it belongs to an untrusted
        user.
        """
        until = monotonic() + CONNECTING
        while True:
            end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            try:
                end.connect(self._path)
            except BlockingIOError:
                end.close()
                if monotonic() > until:
                    raise DaemonGoneError(
                        "the Docker daemon is too busy to be reached: try again later"
                    ) from None
                await asyncio.sleep(_PAUSE)
                continue
            except OSError:
                end.close()
                raise DaemonGoneError("the Docker daemon cannot be reached") from None
            # Before the first byte: a socket of another user would get the request,
            # with credentials.
            if not _is_trusted(end):
                end.close()
                raise DaemonGoneError(
                    "the process that listens on the Docker daemon's socket runs as neither root "
                    "nor the proxy's own user"
                )
            with contextlib.suppress(OSError):  # only root may have more than others
                end.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER)
            wire = Wire(self._loop)
            DirectTransport(self._loop, end, wire).begin()
            return wire

    def keep(self, wire: Wire) -> None:
        """Return a connection to the pool after an answer was read to its end. It is aborted
        instead if `MOST_IDLE` are there, if the daemon has ended it, or if further bytes came.
        """
        if len(self._idle) < MOST_IDLE and not wire.at_end and not wire.data:
            self._idle.append(wire)
        else:
            wire.abort()

    def close(self) -> None:
        """Abort the idle connections of the pool."""
        while self._idle:
            self._idle.pop().abort()


def _is_trusted(end: socket.socket) -> bool:
    """Return True if the process that listens at the other end runs as root or as this process's
    user.
    """
    raw = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    # By the listener's credentials, which the kernel keeps from its `listen` (unix(7)).
    return _CREDENTIALS.unpack(raw)[1] in (0, os.geteuid())
