"""States of the plugin become datagrams to the process that watches it.

That process is systemd, by its notification protocol (`NOTIFY_SOCKET`, `WATCHDOG_USEC`), or our own
watchdog, which gives one end of a pair of sockets (`NOTIFY_FD`): no name in the file system is left
behind or can be taken by others. Nothing here knows what is watched.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from typing import Final

from doorward.transport.inherited import inherited_socket

__all__ = ["NOTIFY_FD", "READY", "STOPPING", "WATCHDOG", "Notifier", "watchdog_seconds"]

NOTIFY_FD: Final = "DOORWARD_NOTIFY_FD"
"""The variable with the descriptor of our own watchdog's socket."""
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
WATCHDOG: Final = "WATCHDOG=1"
_GONE: Final = frozenset({errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE})


class Notifier:
    """Sends states to the process that `environment` names; without one, or with one that cannot be
    reached, it sends nothing."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._socket: socket.socket | None = None
        self.watched = False
        """True if Doorward's watchdog started this process."""
        self.orphaned = False
        """True if that watchdog has ended."""
        if NOTIFY_FD in environment:
            self._socket = inherited_socket(environment[NOTIFY_FD])
            self.watched = self._socket is not None
        elif self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if self._socket is not None:
            self._socket.set_inheritable(False)
            # A watcher that was stopped does not read: a full queue must not stop the plugin, too.
            self._socket.settimeout(1.0)

    @property
    def watcher(self) -> str:
        """The process that restarts this one if it no longer reports: `watchdog`, `systemd`, or ""
        for none.
        """
        if self.watched:
            return "" if self.orphaned else "watchdog"
        return "systemd" if self._socket is not None and watchdog_seconds() is not None else ""

    def send(self, *states: str) -> bool:
        """Send the states to the watchdog or service manager; return False if there is none, or if
        that fails. A failure sets `orphaned`, to True if our watchdog has ended.
        """
        if self._socket is None:
            return False
        datagram = "\n".join(states).encode()
        try:
            if self.watched:
                self._socket.send(datagram)
            else:
                self._socket.sendto(datagram, self._address)
        except OSError as error:
            self.orphaned = self.watched and error.errno in _GONE
            return False
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _address(text: str) -> str:
    """Return the address of a notification socket as the kernel expects it: a path, or an abstract
    name for `@name`. "" for any other text.
    """
    if text.startswith("@") and len(text) > 1:
        return "\x00" + text[1:]
    return text if text.startswith("/") else ""


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the longest time in seconds between two reports that the watching process allows; None
    if it expects none.
    """
    pid = environment.get("WATCHDOG_PID")
    if pid is not None and pid != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    # At most a year: a longer number would not fit where it is waited for.
    if not (text.isascii() and text.isdecimal() and len(text) <= 14):
        return None
    return int(text) / 1e6 or None
