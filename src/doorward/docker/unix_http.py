"""HTTP over a Unix socket, for the few questions that are asked of the daemon and of the plugin."""

from __future__ import annotations

import http.client
import socket
import struct
from typing import Final

__all__ = ["UnixConnection", "listener_pid"]

_CREDENTIALS: Final = struct.Struct("3i")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def listener_pid(path: str) -> int | None:
    """The process that listens on the Unix socket `path`, as the kernel says; None for nobody."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2.0)
        try:
            client.connect(path)
            raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except (OSError, ValueError):
            return None
    pid = int(_CREDENTIALS.unpack(raw)[0])
    return pid if pid > 0 else None
