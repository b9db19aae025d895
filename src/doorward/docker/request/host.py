"""Facts that only the host knows, read while a request is decided: its ranges of addresses, and on
which sockets the daemon listens.

A network takes the addresses of its subnet over: what the host sends there goes into the network.
And a request does not say on which socket it came: who calls on a TCP socket where nobody is
verified looks like a local user. Neither is kept: both change while the plugin runs.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from doorward.docker.request.protected import DAEMON_CONFIG

__all__ = ["PIDFILE", "HostFacts", "listener_options", "open_listeners", "used_ranges"]

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
PIDFILE: Final = "/var/run/docker.pid"
_MAX_FILE: Final = 4 << 20
_ADDRESS_FILES: Final = (
    *("proc/net/route", "proc/net/ipv6_route", "proc/net/if_inet6", "proc/net/fib_trie"),
    "etc/resolv.conf",
)
_FRESH: Final = 2.0
"""Seconds for which the sockets of the daemon are known: they change with a restart or reload."""
_LOCAL: Final = re.compile(r"\|-- ([0-9.]{7,15})\n +/32 host LOCAL")
_NAMESERVER: Final = re.compile(r"^nameserver[ \t]+([0-9A-Fa-f.:]{2,45})", re.MULTILINE)
_CLUSTER: Final = re.compile(r"-[Dhv]*H")
"""Letters without a value may stand before one that has one."""
_SAFE: Final = ("unix://", "fd://", "npipe://")


class HostFacts:
    """Facts about the host, read from its files: where the daemon listens without verifying its
    clients, and which subnets are used. Safe in any number of threads.
    """

    def __init__(
        self, *, config: str = DAEMON_CONFIG, pidfile: str = PIDFILE, root: str = "/"
    ) -> None:
        self._config = config
        self._pidfile = pidfile
        self._root = Path(root)
        self._listeners: tuple[float, list[str]] = (float("-inf"), [])

    @property
    def listeners(self) -> list[str]:
        """The addresses at which the daemon accepts clients without verifying who they are; cached
        for `_FRESH` seconds.
        """
        # As one tuple: another thread may replace both in between.
        checked, listeners = self._listeners
        if time.monotonic() - checked >= _FRESH:
            listeners = open_listeners(self._config, _read_arguments(self._pidfile))
            self._listeners = time.monotonic(), listeners
        return listeners

    def join(self, view: dict[str, Any]) -> None:
        """Add the daemon's unprotected listeners to the input, and the subnets that the host
        already uses.

        Changes `view` in place.
        """
        view["open_listeners"] = self.listeners
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
    for line in routes.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7:
            target, gateway, mask = (_ipv4(fields[number]) for number in (1, 2, 7))
            if mask != "0.0.0.0":
                yield from _networks(f"{target}/{mask}")
            if gateway != "0.0.0.0":
                yield from _networks(gateway)
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


def open_listeners(config: str, arguments: Sequence[str]) -> list[str]:
    """Return the sorted addresses at which a daemon listens without verifying its clients.

    `config` is its daemon.json, `arguments` its command line. Empty if `tlsverify` is set in
    either.
    """
    document = _document(config)
    verified = document.get("tlsverify") is True or _flag(arguments, "tlsverify")
    if verified:
        return []
    hosts = listener_options(config, arguments)
    return sorted({host for host in hosts if not host.startswith(_SAFE)})


def listener_options(config: str, arguments: Sequence[str]) -> list[str]:
    """Return each address at which a daemon listens, those of daemon.json (`config`) first and then
    those of the command line; [] if neither names one.
    """
    hosts_option = _document(config).get("hosts")
    hosts = (
        [each for each in hosts_option if type(each) is str] if type(hosts_option) is list else []
    )
    hosts += _values(arguments, "--host") + _values(arguments, "-H")
    return [host for host in hosts if host]


def _read_arguments(pidfile: str) -> list[str]:
    """Return the arguments, without the program, of the process that a pidfile names; empty if it
    does not run or the file cannot be read.
    """
    try:
        pid = int(Path(pidfile).read_bytes()[:20])
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return []
    return line.decode(errors="replace").split("\0")[1:-1]


def _document(config: str) -> Mapping[str, Any]:
    """Return the daemon's configuration, {} if the file is missing, longer than `_MAX_FILE` bytes
    or not a JSON object.
    """
    try:
        document = json.loads(Path(config).read_bytes()[:_MAX_FILE] or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return document if type(document) is dict else {}


def _flag(arguments: Sequence[str], name: str) -> bool:
    """Return True if a boolean option is given and true: the last one of several counts."""
    value = False
    for each in arguments:
        option, equals, text = each.partition("=")
        if option in (f"--{name}", f"-{name}"):
            value = not equals or text.lower() in ("1", "t", "true")
    return value


def _values(arguments: Sequence[str], name: str) -> list[str]:
    """Return the values of an option that may be repeated, in each spelling: `--host X`,
    `--host=X`, `-H X` and `-HX`.
    """
    values: list[str] = []
    for number, each in enumerate(arguments):
        if each == name:
            values += arguments[number + 1 : number + 2]
        elif name != "-H" and each.startswith(f"{name}="):
            values.append(each.removeprefix(f"{name}="))
        elif name == "-H" and (cluster := _CLUSTER.match(each)):
            rest = each[cluster.end() :].removeprefix("=")
            values += [rest] if rest else arguments[number + 1 : number + 2]
    return values
