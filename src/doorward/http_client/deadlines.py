"""Deadlines of whole exchanges with httpx, whose own timeouts start again with every byte.

Otherwise a server could send the head of its response byte by byte, or interim responses without
end, and the client would wait for ever.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, Final

import httpcore
import httpx

__all__ = ["finished_by", "with_deadlines"]

# By context: httpx passes to a connection no more than the time for one wait. Each thread has its
# own.
_UNTIL: Final[ContextVar[float]] = ContextVar("doorward_exchange_until", default=inf)


@contextmanager
def finished_by(until: float) -> Iterator[None]:
    """Context manager: network waits of this thread end at `until` (monotonic seconds) with
    `httpx.TimeoutException`, if the client is one of `with_deadlines`.
    """
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


def with_deadlines(client: httpx.Client) -> httpx.Client:
    """Change a client so that its waits observe `finished_by`, and return it. Transports that are
    not httpx's are unchanged.
    """
    # Its private parts, since httpx offers no way to give it a network backend.
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend)
    return client


def _seconds_left(timeout: float | None, error: type[Exception]) -> float | None:
    """Return the seconds that one wait may take: `timeout`, but not more than remain until the
    deadline of `finished_by`. None: no limit. Raise `error` if that deadline has passed.
    """
    until = _UNTIL.get()
    if until == inf:
        return timeout
    left = until - time.monotonic()
    if left <= 0:
        raise error("the HTTP request was not answered in full before its deadline")
    return left if timeout is None else min(timeout, left)


class _Backend(httpcore.NetworkBackend):
    """A network backend of httpcore whose connections observe `finished_by`."""

    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect over TCP within `timeout` seconds and the exchange's deadline;
        httpcore.ConnectTimeout after the earlier of them.
        """
        # The time is for each address of the host, one after the other, and the resolution of its
        # name has no limit: Python offers none.
        left = _seconds_left(timeout, httpcore.ConnectTimeout)
        return _Stream(
            self._inner.connect_tcp(host, port, left, local_address, socket_options=socket_options)
        )

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect over a Unix socket within `timeout` seconds and the exchange's deadline;
        httpcore.ConnectTimeout after the earlier of them.
        """
        left = _seconds_left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_unix_socket(path, left, socket_options=socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


_PIECE: Final = 1 << 14
"""The largest number of bytes in one write, so that the deadline is checked while a slow server
reads.
"""


class _Stream(httpcore.NetworkStream):
    """A connection of httpcore whose reads and writes observe `finished_by`."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return at most `max_bytes`, b"" at the end, within `timeout` seconds and the deadline of
        the exchange; httpcore.ReadTimeout after the earlier of them.
        """
        return self._inner.read(max_bytes, _seconds_left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all bytes in pieces of `_PIECE`, each within `timeout` seconds and the deadline of
        the exchange; httpcore.WriteTimeout after the earlier of them.
        """
        for at in range(0, len(buffer), _PIECE):
            self._inner.write(
                buffer[at : at + _PIECE], _seconds_left(timeout, httpcore.WriteTimeout)
            )

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Perform the TLS handshake within `timeout` seconds and the deadline of the exchange;
        httpcore.ConnectTimeout after the earlier of them.
        """
        left = _seconds_left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
