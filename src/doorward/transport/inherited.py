"""Sockets that the process got from the one that started it."""

from __future__ import annotations

import socket
from typing import Final

from doorward.base.digits import parse_digits

__all__ = ["inherited_socket"]

_LARGEST: Final = 2**31 - 1
"""The largest descriptor; Python takes the low bits of a larger number."""


def inherited_socket(text: str) -> socket.socket | None:
    """Return the socket whose descriptor is the number in `text`, from an environment variable;
    None if that is not a number or not the descriptor of a socket.
    """
    descriptor = parse_digits(text)
    if descriptor is None or descriptor > _LARGEST:
        return None
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        return None
