"""A path becomes a listening Unix socket; what a dead server left there makes place for it.

A socket that answers, and a file that is none, stay where they are. What is served, and how a
refusal is worded around the path, is for the servers.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["MAX_SOCKET_PATH", "PathTakenError", "bind_unix", "clear_stale"]

# `sun_path` of unix(7) has 108 bytes, and the last one is NUL.
MAX_SOCKET_PATH: Final = 107

PROBE_TIMEOUT: Final = 1.0
"""Seconds that a listener at the path may take to accept the probe."""


class PathTakenError(Exception):
    """A file that is not a socket, or a socket that is in use, is at the path; the message does not
    name the path.
    """


def bind_unix(path: str | Path, *, mode: int, backlog: int) -> socket.socket:
    """Return a socket that listens at `path`, with permission bits `mode` from the first moment.

    A stale socket file is deleted. Raise PathTakenError if the path is in use, OSError if it is not
    available.
    """
    clear_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # `bind` creates the file, and a chmod after it would leave a moment for others to connect.
        # The mask belongs to the process: owner's bits only, so that it widens nobody's new file.
        before = os.umask(0o777 & ~(mode & 0o700))
        try:
            listener.bind(os.fspath(path))
        finally:
            os.umask(before)
        os.chmod(path, mode)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener


def clear_stale(path: str | Path) -> None:
    """Delete the socket file of a server that is gone; does nothing if there is no file.

    Raise PathTakenError if a server still listens on it or the file is not a socket, OSError if
    that cannot be found out in `PROBE_TIMEOUT` seconds or the file cannot be deleted.
    """
    try:
        # Not `stat`: a link could lead to a socket that belongs to something else.
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PathTakenError(
            "a file that is not a socket is in the way: move it, or use another path"
        )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        try:
            probe.connect(os.fspath(path))
        # Only these mean that nobody listens. A full queue or a timeout may be a busy server.
        except (ConnectionRefusedError, FileNotFoundError):
            pass
        else:
            raise PathTakenError(
                "already in use: another server listens on it: stop it, or use another path"
            )
    with suppress(FileNotFoundError):
        os.unlink(path)
