"""IP addresses as Go's `net` package reads them: no zones, no leading zeros, no short forms."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_pton
from typing import Final

__all__ = ["MAPPED", "parse_ip"]

MAPPED: Final = 0xFFFF << 32
"""The first IPv6 address of the range that maps IPv4 addresses."""


def parse_ip(text: str) -> int | None:
    """The number of an IP address, an IPv4 one mapped into IPv6; None for any other text, and for
    an address with a zone.
    """
    if "/" in text:  # a CIDR, of which an exception would take longer
        return None
    try:
        if ":" not in text:
            return MAPPED | int.from_bytes(inet_pton(AF_INET, text), "big")
        return None if "%" in text else int.from_bytes(inet_pton(AF_INET6, text), "big")
    except (OSError, ValueError):
        return None
