"""The bounds of an HTTP/1.1 connection, each with its reason."""

from __future__ import annotations

from doorward.base.records import record

__all__ = ["Limits"]


@record
class Limits:
    """The limits of an HTTP/1.1 connection, in bytes, counts and seconds."""

    head_bytes: int = 64 * 1024
    """Bytes of a request line and its headers: a proxy in front allows at most as much."""
    headers: int = 256
    """Header lines: each costs more memory than its bytes."""
    body_buffered: int = 64 * 1024
    """Bytes of a body that are collected before the application sees the request; a longer body is
    handed over in pieces, so that it can be refused before it has arrived."""
    framing: int = 8
    """Bytes of chunk framing for each byte of a body: a chunk of one byte has five."""
    pipelined: int = 32
    """Requests that may wait behind one under way: the connection ends after those."""
    unread: int = 1 << 20
    """Bytes after a request that was refused, which are read so that the client sees why."""
    head_timeout: float = 32.0
    """Seconds in which a head must have arrived, as in OPA."""
    body_timeout: float = 60.0
    """Seconds in which a body must have arrived."""
    keep_alive: float = 30.0
    """Seconds that a connection stays open without a request."""
    write_timeout: float = 60.0
    """Seconds in which a client must read on, while there is more than fits into the buffers."""
    write_buffer: int = 1 << 18
    """Bytes of responses that may wait; no more requests are read meanwhile."""
