"""A host and a port become a listening TCP socket, for every server in the house."""

from __future__ import annotations

import socket

from doorward.base.digits import parse_digits

__all__ = ["bind_tcp", "split_host_port"]


def split_host_port(address: str) -> tuple[str, int] | None:
    """Return host and port of `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (the host ""); None for
    another form or a port above 65535. Nothing is resolved.
    """
    host, colon, digits = address.rpartition(":")
    port = parse_digits(digits)
    if not colon or "://" in address or port is None or port > 65535:
        return None
    return host.removeprefix("[").removesuffix("]"), port


def bind_tcp(host: str, port: int, *, backlog: int, dual_stack: bool = False) -> socket.socket:
    """Return a socket that listens at the first address of `host`, IPv4 before IPv6.

    `dual_stack`: an IPv6 socket accepts IPv4 connections as well. Raise OSError if the address is
    not available or the name is unknown.
    """
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # `min` keeps the first of equals, and so the resolver's order within a family.
    family, _, _, _, address = min(rows, key=lambda row: row[0] != socket.AF_INET)
    both = dual_stack and family == socket.AF_INET6
    listener = socket.create_server(
        address[:2], family=family, backlog=backlog, dualstack_ipv6=both
    )
    # Accepted sockets inherit it. Without it a kept connection waits 40 ms for each response: the
    # loop turns Nagle's algorithm off only on sockets that were made with a protocol number.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
