"""IP addresses in texts from outside, and never an exception."""

from __future__ import annotations

from ipaddress import ip_address

__all__ = ["is_ip_address"]


def is_ip_address(text: str) -> bool:
    """Return True for the text of an IP address without a zone, in any spelling."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text
