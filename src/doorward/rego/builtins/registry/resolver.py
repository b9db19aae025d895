"""Host names become addresses, in bounded time.

The system's resolver cannot be interrupted, so it runs in a thread of its own: the evaluation
continues at the deadline, and at most `MAX_PENDING` look-ups can be stuck. It only sees what Go
takes for a domain name: it would read other texts in its own way, `127.1` as an address and a name
up to a NUL.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Final

from doorward.rego.builtins.registry.bounded_threads import BoundedThreads

__all__ = ["resolve"]

MAX_PENDING: Final = 32
"""The most look-ups in progress at a time, those without an answer included; further ones wait."""
MAX_NAME: Final = 253
"""The most characters of a domain name, without a dot at its end."""

_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_NUMBERS: Final = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]*|[0-9]+))*\.?")
"""Matches what C libraries may read as an IPv4 address."""

_threads: Final = BoundedThreads("net.lookup_ip_addr", MAX_PENDING)


def resolve(name: str, seconds: float) -> list[str]:
    """The IP addresses of a host, without duplicates; for an IP address that address alone, without
    its zone. TimeoutError if there is no answer after `seconds`, OSError if the host cannot be
    resolved, EvaluationAborted if the look-up raised another exception or no thread can be started.
    """
    end = time.monotonic() + seconds
    address, _, zone = name.partition("%")
    if _is_address(address) and (":" in address or not zone):
        return [address]
    if len(name.removesuffix(".")) > MAX_NAME or not _NAME.fullmatch(name):
        raise OSError("no such host")
    if _NUMBERS.fullmatch(name):
        raise OSError("no such host")
    answer = _threads.call(partial(_look_up, name), end)
    if isinstance(answer, OSError):
        raise answer
    return answer


def _is_address(text: str) -> bool:
    """Return True for an IP address without a zone."""
    import socket  # only policies that look names up need it

    try:
        socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return False
    return True


def _look_up(name: str) -> list[str] | OSError:
    """Return the addresses of a host from the system's resolver, or its OSError, which is not
    raised. Blocks until it answers.
    """
    import socket  # as above

    try:
        # As bytes: Python would convert a text by the rules of international names.
        entries = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    # Without the zone of a link-local address, which names an interface of this machine.
    return list(dict.fromkeys(str(entry[4][0]).split("%")[0] for entry in entries))
