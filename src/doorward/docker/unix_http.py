"""HTTP over a Unix socket, for the few questions that are asked of the daemon and of the plugin."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from typing import Any, Final

__all__ = ["UnixConnection", "call_plugin", "listener_pid"]

_MAX_ANSWER: Final = 1 << 20
_CREDENTIALS: Final = struct.Struct("3i")


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket, for `http.client`."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the Unix socket; OSError if nothing listens there."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def listener_pid(path: str) -> int | None:
    """Return the id of the process that listens on the Unix socket `path`, asked of the kernel;
    None if nobody listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2.0)
        try:
            client.connect(path)
            raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except (OSError, ValueError):
            return None
    pid = int(_CREDENTIALS.unpack(raw)[0])
    return pid if pid > 0 else None


def call_plugin(path: str, call: str, body: bytes = b"", *, timeout: float = 5.0) -> Any:
    """Post a call to the plugin at the socket `path` and return the JSON of its answer; None if
    nothing answers in `timeout` seconds, for a status other than 200, and for other content.
    """
    connection = UnixConnection(path, timeout)
    try:
        # With an empty Host, as dockerd calls plugins.
        connection.request("POST", call, body, {"Host": ""})
        response = connection.getresponse()
        content = response.read(_MAX_ANSWER)
        return json.loads(content) if response.status == 200 else None
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return None
    finally:
        connection.close()
