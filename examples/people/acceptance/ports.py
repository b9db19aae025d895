"""Numbers become ports that are free, or a sentence that says who holds one of them."""

from __future__ import annotations

import errno
import os
import random
import re
import socket
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from acceptance.wire import HOST

LOWEST: Final = 10_000

_LISTENING: Final = "0A"
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class PortTaken(Exception):
    """A port that is needed belongs to somebody else; the text says to whom."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the parts listen; the defaults are those of the configuration files."""

    envoy: int = 8000
    people: int = 8080
    diagnostic: int = 8282


def choose_ports(base: int | None) -> Ports:
    """The default ports when no base is given; else the first free ones from `base` on.

    With base 0 they are chosen at random. PortTaken when a default port is not free.
    """
    if base is None:
        ports = Ports()
        if taken := [port for port in astuple(ports) if not is_free(port)]:
            raise PortTaken(
                "; ".join(f"port {port} is taken by {find_owner(port)}" for port in taken)
            )
        return ports
    if base == 0:
        return Ports(*free_ports(3))
    free = [port for port in range(base, min(base + 200, 65536)) if is_free(port)]
    if len(free) < 3:
        raise PortTaken(f"there are no three free ports from {base} on")
    return Ports(*free[:3])


def is_free(port: int) -> bool:
    """Whether somebody can listen there, on loopback and on all addresses."""
    for host in (HOST, ""):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                    return False
                raise
    return True


def find_owner(port: int) -> str:
    """Name and id of the process that listens on a port, as far as this user may know."""
    inodes = _find_listeners(port)
    if not inodes:
        return "nobody that listens (another socket holds it, or the system does)"
    for process in Path("/proc").glob("[0-9]*"):
        if _holds(process, inodes):
            name = (process / "comm").read_text().strip()
            return f"{name} (process {process.name})"
    return "a process of another user"


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to no client meanwhile."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Such ports, at random.

    Those that the system gives to who asks for any begin at the first of its range: between asking
    for one of them and listening there, somebody else may get it.
    """
    first = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    ports: list[int] = []
    for port in random.sample(range(LOWEST, max(first, LOWEST + 2000)), 1000):
        if is_free(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise PortTaken("a thousand ports were tried, and too few were free")


def _find_listeners(port: int) -> set[str]:
    inodes = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _holds(process: Path, inodes: set[str]) -> bool:
    try:
        for descriptor in os.listdir(process / "fd"):
            socket = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(process / "fd" / descriptor))
            if socket and socket[1] in inodes:
                return True
    except OSError:  # it ended meanwhile, or belongs to another user
        return False
    return False
