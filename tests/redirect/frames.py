"""Headers become the frames of one HTTP/2 request, and frames that come back a status.

Only what the tests need: header fields are written as literals, and of an answer the first field is
read, which is `:status`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["GOAWAY", "read_status", "write_http2"]

GOAWAY: Final = -1
"""In origin of a status: the request, or its connection, was ended without an answer."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _RST, _SETTINGS, _GOAWAY = 1, 3, 4, 7
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x4, 0x8, 0x20
_STATUSES: Final = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}


def write_http2(headers: Mapping[str, str]) -> bytes:
    """A connection's beginning and one request without a body; the usual fields are added."""
    usual = {} if headers[":method"] == "CONNECT" else {":scheme": "http", ":authority": "people"}
    fields = sorted({**usual, **headers}.items(), key=lambda field: not field[0].startswith(":"))
    block = b"".join(
        b"\x00" + _string(name.encode()) + _string(value.encode()) for name, value in fields
    )
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS | _END_STREAM, 1, block)
    )


def read_status(received: bytes) -> int | None:
    """The status of the answer, GOAWAY when there is none to come, None when none came yet."""
    for kind, flags, payload in _frames(received):
        if kind in {_RST, _GOAWAY}:
            return GOAWAY
        if kind == _HEADERS:
            start = (1 if flags & _PADDED else 0) + (5 if flags & _PRIORITY else 0)
            return _read_field(payload[start:])
    return None


def _read_field(block: bytes) -> int:
    while block[0] & 0xE0 == 0x20:  # a change of the table's size
        block = block[1:]
    if block[0] in _STATUSES:
        return _STATUSES[block[0]]
    # A literal with the name `:status`, three digits without Huffman coding.
    assert block[0] in {0x08, 0x18, 0x48}, block
    assert block[1] == 3, block
    return int(block[2:5])


def _frames(received: bytes) -> Iterator[tuple[int, int, bytes]]:
    while len(received) >= 9:
        length = int.from_bytes(received[:3], "big")
        kind, flags = received[3], received[4]
        if len(received) < 9 + length:
            return
        yield kind, flags, received[9 : 9 + length]
        received = received[9 + length :]


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _string(value: bytes) -> bytes:
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, digits = len(value) - 127, bytearray([127])
    while rest >= 128:
        digits.append(rest % 128 + 128)
        rest //= 128
    return bytes([*digits, rest]) + value
