"""The peer of a Unix socket: a user of this host, or a container.

The kernel says which process connected and as which user. Root in a container is user 0 there as
on the host, so the process comes first: only one that shares the namespaces, the root folder and
the control groups of this process, as far as they name no container, speaks as a user of the host.
Whatever cannot be found out leaves the caller without a name, and so without a role.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import select
import socket
import struct
from contextlib import suppress
from time import monotonic
from typing import Final

from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.docker.request.call import Caller

__all__ = ["Names", "Peer", "PeerError", "read_peer"]

# Since Linux 6.5; Python has no name for it.
SO_PEERPIDFD: Final = 77
_CREDENTIALS: Final = struct.Struct("3i")
_NAMESPACES: Final = ("pid", "user", "cgroup")
_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
_OVERFLOW: Final = "/proc/sys/kernel/overflowuid"
_FRESH: Final = 30.0
"""Seconds for which the name and the groups of a user are known."""
_MOST_NAMES: Final = 4096


class PeerError(Exception):
    """A caller that cannot be determined; the message says why."""


class Peer:
    """The process that connected, held so that its number cannot become another's."""

    def __init__(self, end: socket.socket) -> None:
        raw = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.pid, self.uid, self.gid = _CREDENTIALS.unpack(raw)
        self._fd = _open_pidfd(end, self.pid)
        self._container: str | None = None

    def container(self) -> str | None:
        """Return the identifier of the container that the process runs in, or `?` if it runs in one
        without a known identifier; None if it runs on the host. Determined at the first call;
        PeerError if that fails.
        """
        if self._container is None:
            self._container = self._find_container() or ""
        return self._container or None

    def _find_container(self) -> str | None:
        """Return the identifier of the container that the process runs in, `?` if it has no known
        one, None on the host; nothing is cached. PeerError if the process has ended or cannot be
        examined.
        """
        if self._fd < 0:
            raise PeerError("the calling process ended before it could be examined")
        try:
            container = _container_of(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            raise PeerError("the calling process ended before it could be examined") from None
        except OSError as error:
            raise PeerError(
                f"the calling process cannot be examined: {describe_os_error(error)} "
                f"(the proxy must be able to read /proc/{self.pid})"
            ) from None
        # INVARIANT: checked after `/proc` was read: until then the number was that of the caller.
        if _has_ended(self._fd):
            raise PeerError("the calling process ended before it could be examined")
        return container

    def close(self) -> None:
        """Close the descriptor of the process; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_peer(end: socket.socket) -> Peer:
    """Return the process at the other end of a Unix socket; raise OSError if the system does not
    tell it.
    """
    return Peer(end)


def _open_pidfd(end: socket.socket, pid: int) -> int:
    """Return a descriptor of the process at the other end of a socket; -1 if it has ended or runs
    in a PID namespace that is not visible here.
    """
    if pid <= 0:
        return -1
    with suppress(OSError):
        return end.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    # Before Linux 6.5: its number is that of the caller unless it was given again since.
    with suppress(OSError):
        return os.pidfd_open(pid)
    return -1


def _has_ended(pidfd: int) -> bool:
    """Return True if the process ended; a descriptor of one that did is readable."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _container_of(pid: int) -> str | None:
    """Return the identifier of the container that a process runs in, or `?` if it runs in one
    without a known identifier. None if it has the namespaces, the root and the container of this
    process, which count as the host's. OSError if `/proc` cannot be read.
    """
    groups = _read(f"/proc/{pid}/cgroup")
    # Ours are subtracted, since the proxy itself may run in a container.
    named = _identifiers(groups) - _identifiers(_read("/proc/self/cgroup"))
    is_ours = all(
        os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}")
        for name in _NAMESPACES
    )
    theirs, ours = os.stat(f"/proc/{pid}/root/"), os.stat("/proc/self/root/")
    is_ours = is_ours and (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)
    if is_ours and not named:
        return None
    return min(named, default="?")


def _identifiers(groups: str) -> set[str]:
    """Return the ids of containers in the text of a process's control groups."""
    return set(_CONTAINER.findall(groups))


def _read(path: str) -> str:
    """Return the first 64 KiB of a file as ASCII, other bytes replaced; OSError if it cannot be
    read.
    """
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read(1 << 16)


@record
class _User:
    """A user's name and groups, and the time until which they are cached."""

    name: str
    groups: tuple[str, ...]
    until: float


class Names:
    """Names and groups of users, looked up once in a while. Safe in any number of threads."""

    def __init__(self) -> None:
        self._known: dict[int, _User] = {}
        self._overflow = int(_read(_OVERFLOW))

    def find(self, uid: int) -> Caller | None:
        """Return the user with this number from the cache; None if it is missing or has expired."""
        user = self._known.get(uid)
        if user is None or user.until < monotonic():
            return None
        return Caller(user.name, "peer", user.groups, uid)

    def look_up(self, uid: int) -> Caller:
        """Look up the user with this number and store it in the cache for `_FRESH` seconds; blocks
        if a directory server is asked. An unknown user is called `uid:NUMBER` and has no groups.

        Raise PeerError for negative numbers and for the overflow user, as which the kernel shows
        all users of other user namespaces.
        """
        if uid < 0 or uid == self._overflow:
            raise PeerError(
                f"the calling process runs as user {uid}, which this host does not know"
            )
        if len(self._known) >= _MOST_NAMES:
            self._known.clear()
        name, groups = _name_of(uid)
        self._known[uid] = _User(name, groups, monotonic() + _FRESH)
        return Caller(name, "peer", groups, uid)


def _name_of(uid: int) -> tuple[str, tuple[str, ...]]:
    """Return name and groups of a user; `uid:NUMBER` and no groups if the number is unknown. Groups
    without a name are left out.
    """
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return f"uid:{uid}", ()
    names = set()
    for gid in os.getgrouplist(entry.pw_name, entry.pw_gid):
        with suppress(KeyError):
            names.add(grp.getgrgid(gid).gr_name)
    return entry.pw_name, tuple(sorted(names))
