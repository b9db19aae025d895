"""A host and a port become a listening TCP socket, for every server in the house."""

from __future__ import annotations

import socket

__all__ = ["bind_tcp"]


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
