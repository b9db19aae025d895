"""A bypass becomes a connection from its origin, and what came back on it becomes statuses."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tests.redirect.bypasses import Bypass
from tests.redirect.frames import read_status, write_http2
from tests.redirect.pod import ADDRESSES, Network, Origin, entered
from tests.waiting import PATIENCE

_QUIET: Final = 0.4  # seconds without a byte, after which no more than was expected will come
_PAUSE: Final = 0.2


@contextmanager
def connect(network: Network, position: Origin, port: int) -> Iterator[socket.socket]:
    """A connection that somebody in that origin makes to the pod."""
    with entered(network.origin(position)):
        connection = socket.create_connection((ADDRESSES[position], port), timeout=PATIENCE)
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


def converse(connection: socket.socket, bypass: Bypass, tokens: Mapping[str, str]) -> bytes:
    """Send what the bypass says; everything that comes back until it ends or is quiet."""
    for number, part in enumerate(_write(bypass, tokens)):
        if number:
            time.sleep(0.0005 if bypass.bytewise else _PAUSE)
        try:
            connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            break  # it was answered before it was whole
    received = b""
    try:
        connection.settimeout(PATIENCE if bypass.statuses else 1.5)
        while chunk := connection.recv(65536):
            received += chunk
            is_due = len(read_statuses(bypass, received)) < len(bypass.statuses)
            connection.settimeout(PATIENCE if is_due else _QUIET)
    except (TimeoutError, ConnectionResetError):
        pass
    return received


def _write(bypass: Bypass, tokens: Mapping[str, str]) -> list[bytes]:
    if bypass.http2:
        return [
            write_http2({name: value.format_map(tokens) for name, value in bypass.http2.items()})
        ]
    parts = []
    for part in bypass.parts:
        for name in ("guest", "admin"):
            part = part.replace(b"{%s}" % name.encode(), tokens[name].encode())
        parts.append(part)
    return [bytes([byte]) for byte in b"".join(parts)] if bypass.bytewise else parts


def read_statuses(bypass: Bypass, received: bytes) -> tuple[int, ...]:
    """The statuses of the answers, in their order."""
    if bypass.http2:
        status = read_status(received)
        return () if status is None else (status,)
    return tuple(int(actual) for actual in re.findall(rb"HTTP/1\.1 (\d{3}) ", received))
