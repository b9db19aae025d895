"""Facts that only the host knows, read while a request is decided: its ranges of addresses, where
the daemon listens, and which paths it uses.

A network takes the addresses of its subnet over: what the host sends there goes into the network.
And a request does not say on which socket it came: who calls on a TCP socket where nobody is
verified looks like a local user. None is kept: all change while the plugin runs.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from doorward.base.records import record
from doorward.docker.request.daemon_settings import (
    DAEMON_CONFIG,
    PIDFILE,
    DaemonSettings,
    read_arguments,
)
from doorward.docker.request.protected import protected_paths

__all__ = ["HostFacts", "used_ranges"]

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAX_FILE: Final = 4 << 20
_ADDRESS_FILES: Final = (
    *("proc/net/route", "proc/net/ipv6_route", "proc/net/if_inet6", "proc/net/fib_trie"),
    "etc/resolv.conf",
)
_FRESH: Final = 2.0
"""Seconds for which the daemon's settings are known: they change with a restart or reload."""
_LOCAL: Final = re.compile(r"\|-- ([0-9.]{7,15})\n +/32 host LOCAL")
_NAMESERVER: Final = re.compile(r"^nameserver[ \t]+([0-9A-Fa-f.:]{2,45})", re.MULTILINE)


@record
class _Daemon:
    """What the daemon's settings said at the monotonic time `read`."""

    read: float
    listeners: list[str]
    paths: frozenset[str]


class HostFacts:
    """Facts about the host, read from its files: where the daemon listens without verifying its
    clients, which paths it uses, and which subnets are used. Safe in any number of threads.
    """

    def __init__(
        self, *, config: str = DAEMON_CONFIG, pidfile: str = PIDFILE, root: str = "/"
    ) -> None:
        self._config = config
        self._pidfile = pidfile
        self._root = Path(root)
        self._daemon = _Daemon(float("-inf"), [], frozenset())

    @property
    def listeners(self) -> list[str]:
        """The addresses at which the daemon accepts clients without verifying who they are; cached
        for `_FRESH` seconds.
        """
        return self._read_daemon().listeners

    def _read_daemon(self) -> _Daemon:
        """Return what the daemon's settings say, at most `_FRESH` seconds old."""
        daemon = self._daemon  # another thread may replace it in between
        if time.monotonic() - daemon.read >= _FRESH:
            settings = DaemonSettings.read(self._config, read_arguments(self._pidfile))
            paths = frozenset(protected_paths(settings.paths))
            daemon = self._daemon = _Daemon(time.monotonic(), settings.open_listeners, paths)
        return daemon

    def join(self, view: dict[str, Any]) -> None:
        """Add to the input (`view`, changed in place) the daemon's unprotected listeners, the paths
        of the daemon to those that are protected already, and the subnets that the host uses.
        """
        daemon = self._read_daemon()
        view["open_listeners"] = daemon.listeners
        view["protected"] = sorted(daemon.paths.union(view["protected"]))
        subnets = view["network"]["subnets"]
        if subnets:
            taken = sorted(_overlapping(subnets, list(used_ranges(self._root))))
            view["network"] = {**view["network"], "taken": taken}


def _overlapping(subnets: Sequence[str], used: Sequence[_Network]) -> set[str]:
    """Return the networks in `used` that overlap with one of `subnets`, as text; `every range` is
    among them if a subnet cannot be read here.
    """
    taken: set[str] = set()
    for subnet in subnets:
        try:
            network = ipaddress.ip_network(subnet, strict=False)
        except ValueError:
            taken.add("every range")  # the daemon may read it; what it takes is not known
            continue
        taken |= {str(each) for each in used if _overlap(each, network)}
    return taken


def _overlap(one: _Network, other: _Network) -> bool:
    """Return True if two networks share an address; False for networks of different versions."""
    if one.version == 4 and other.version == 4:
        return one.overlaps(other)
    return one.version == 6 and other.version == 6 and one.overlaps(other)


def used_ranges(root: Path) -> Iterator[_Network]:
    """Yield the address ranges that the host uses: the destinations of its routes, except the
    default route, and the addresses of its interfaces, gateways and name servers; every address if
    one of its files is longer than `_MAX_FILE`. `root` is the root of the host's file system.
    """
    routes, ipv6_routes, interfaces, local, resolver = (
        _read(root / file) for file in _ADDRESS_FILES
    )
    # A router has the routes of the whole Internet: those that were not read may be in use, too.
    if any(len(text) >= _MAX_FILE for text in (routes, ipv6_routes, interfaces, local, resolver)):
        yield from (*_networks("0.0.0.0/0"), *_networks("::/0"))
    # proc(5): destination, gateway and mask in hexadecimal, below a line with the names.
    for line in routes.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7:
            target, gateway, mask = (_ipv4(fields[number]) for number in (1, 2, 7))
            if mask != "0.0.0.0":
                yield from _networks(f"{target}/{mask}")
            if gateway != "0.0.0.0":
                yield from _networks(gateway)
    # Destination and prefix length in hexadecimal, and last the interface. The default route is
    # not a range in use.
    for line in ipv6_routes.splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[9] != "lo" and fields[1] != "00":
            yield from _networks(f"{_ipv6(fields[0])}/{int(fields[1], 16)}")
    for line in interfaces.splitlines():
        yield from _networks(_ipv6(line[:32]))
    for address in _LOCAL.findall(local):
        yield from _networks(address)
    for address in _NAMESERVER.findall(resolver):
        yield from _networks(address)


def _networks(text: str) -> Iterator[_Network]:
    with contextlib.suppress(ValueError):
        yield ipaddress.ip_network(text, strict=False)


def _ipv4(text: str) -> str:
    """Return an IPv4 address that the kernel shows in hexadecimal, in this machine's byte order."""
    return socket.inet_ntoa(struct.pack("=I", int(text, 16)))


def _ipv6(text: str) -> str:
    return str(ipaddress.IPv6Address(int(text, 16)))


def _read(path: Path) -> str:
    """Return the first `_MAX_FILE` characters of a file, "" if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_FILE)
    except OSError:
        return ""
