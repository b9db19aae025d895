"""A probe of the daemon: one request shows whether BuildKit is reached past every plugin.

Daemons of 29 hand HTTP/2 with the content type of gRPC to BuildKit before they ask a plugin. The
request is BuildKit's own question for its version, which changes nothing. The frames are written
by hand: no library of HTTP/2 is needed for one request.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Final

__all__ = ["answers_past_plugins", "is_for_root_alone"]

_TIMEOUT: Final = 5.0
_MOST: Final = 1 << 20
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_HEADERS, _END_STREAM, _ACK = 4, 1, 1
_FIELDS: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/moby.buildkit.v1.Control/Info"),
    (":authority", "docker"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


def answers_past_plugins(path: str) -> bool:
    """Return True if BuildKit answers at the daemon's Unix socket though no plugin was asked; False
    also if the socket cannot be reached or nothing comes in time.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT)
            connection.connect(path)
            connection.sendall(_question())
            return _is_answered(connection)
    except OSError:
        return False


def is_for_root_alone(path: str) -> bool:
    """Return True if nobody but root may connect to this Unix socket, by its owner, group and mode;
    False if it has an access list or cannot be examined.
    """
    try:
        status = os.stat(path)
        has_list = "system.posix_acl_access" in os.listxattr(path)
    except OSError:
        return False
    is_shared = status.st_mode & 0o002 or (status.st_mode & 0o020 and status.st_gid != 0)
    return status.st_uid == 0 and not is_shared and not has_list


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _question() -> bytes:
    """Return the bytes of an HTTP/2 connection with one gRPC call without fields on stream 1."""
    fields = b"".join(
        # RFC 7541, 6.2.2: a literal that enters no table; each length is below 127, so one byte.
        bytes((0, len(name))) + name.encode() + bytes((len(value),)) + value.encode()
        for name, value in _FIELDS
    )
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0)
        + _frame(_HEADERS, _END_HEADERS, 1, fields)
        + _frame(_DATA, _END_STREAM, 1, bytes(5))  # a message of gRPC without fields
    )


def _is_answered(connection: socket.socket) -> bool:
    """Return True if a message of gRPC comes: one byte 0, its length, and as many bytes. False if
    an error, HTTP/1, the end of the connection, `_MOST` bytes or the end of the time comes first;
    OSError if the connection fails or nothing comes within `_TIMEOUT`.
    """
    content, until = b"", time.monotonic() + _TIMEOUT
    while len(content) < _MOST and time.monotonic() < until:
        chunk = connection.recv(65536)
        if not chunk:
            return False
        content += chunk
        # A daemon without HTTP/2 on this socket refuses the preface in HTTP/1.
        if content.startswith(b"HTTP/1"):
            return False
        while len(content) >= 9:
            length = int.from_bytes(content[:3])
            kind, flags, stream = struct.unpack(">BBI", content[3:9])
            if len(content) < 9 + length:
                break
            payload, content = content[9 : 9 + length], content[9 + length :]
            if kind == _SETTINGS and not flags & _ACK:
                connection.sendall(_frame(_SETTINGS, _ACK, 0))
            elif kind == _DATA and stream == 1 and len(payload) >= 5:
                return payload[0] == 0 and int.from_bytes(payload[1:5]) == len(payload) - 5
            elif kind in (3, 7) or (kind == _HEADERS and flags & _END_STREAM):
                return False  # reset, gone away, or an error without a message
    return False
