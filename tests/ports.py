"""Ports that nothing else takes between their choice and their use.

A port that the system chooses for a moment may be given to any outgoing connection in the next.
These lie below the range that it gives those from.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import Final

__all__ = ["free_port"]

_LOWEST: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES: Final = 1_000


def free_port() -> int:
    """A TCP port of loopback that nothing listens on."""
    highest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    for _ in range(_TRIES):
        port = random.randrange(_LOWEST, max(highest, _LOWEST + 1_000))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("there is no free port")
