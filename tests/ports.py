"""Ports that nothing else takes between their choice and their use.

A port that the system chooses for a moment may be given to any outgoing connection in the next:
these lie below the range that it gives those from. And a port that one process of the tests chose
may be free for as long as its server takes to start: each process has ports of its own.
"""

from __future__ import annotations

import atexit
import random
import socket
from pathlib import Path
from typing import Final

__all__ = ["free_port", "free_ports"]

_LOWEST: Final = 10_000
_BLOCK: Final = 100
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class _Block:
    """Ports of this process alone, for as long as it lives, and the next of them to be tried."""

    def __init__(self) -> None:
        highest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
        firsts = range(_LOWEST, max(highest, _LOWEST + 10 * _BLOCK) - _BLOCK, _BLOCK)
        blocks = list(firsts)
        random.shuffle(blocks)
        for self._first in blocks:
            # The process that binds this name has the block, until it ends in whatever way.
            self._claim = socket.socket(socket.AF_UNIX)
            try:
                self._claim.bind(f"\0doorward-tests-ports-{self._first}")
            except OSError:
                self._claim.close()
                continue
            self._next = 0
            atexit.register(self._claim.close)
            return
        raise AssertionError("there is no free block of ports")

    def take(self) -> int:
        """The next port on which nobody listens: the one that was used longest ago."""
        for _ in range(_BLOCK):
            port = self._first + self._next
            self._next = (self._next + 1) % _BLOCK
            if _is_free(port):
                return port
        raise AssertionError("there is no free port")


def _is_free(port: int) -> bool:
    """Whether a server could listen there, on loopback and on all addresses."""
    for host in ("127.0.0.1", ""):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


_BLOCKS: Final[list[_Block]] = []
"""The block of this process, once it needs one."""


def free_port() -> int:
    """A TCP port of loopback that nothing listens on, and that no other test process uses."""
    if not _BLOCKS:
        _BLOCKS.append(_Block())
    return _BLOCKS[0].take()


def free_ports(count: int) -> list[int]:
    """So many of them."""
    return [free_port() for _ in range(count)]
