"""The heads of HTTP/1.1 messages: read strictly, and written in one spelling.

A head that two readers could read differently is refused: bare line feeds, folded lines, spaces
before a colon, control characters, two lengths, a length beside chunks, another transfer coding.
Fields may be repeated, since BuildKit's clients repeat one on purpose, but for those of `SINGLE`.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "END",
    "Fields",
    "HeadError",
    "RequestHead",
    "ResponseHead",
    "parse_request_head",
    "parse_response_head",
    "write_head",
]

END: Final = b"\r\n\r\n"
"""The end of a head."""
MOST_FIELDS: Final = 256
SINGLE: Final = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "transfer-encoding",
        "upgrade",
        "x-registry-auth",
        "x-registry-config",
    }
)
"""Fields of a request that may be there once."""
# Origin form only (RFC 9112, 3.2.1). The daemon serves the absolute form as well, but no client
# sends it.
_REQUEST: Final = re.compile(rb"([A-Z]{3,16}) (/[!-~]{0,65535}) HTTP/1\.1")
_STATUS: Final = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [\t -~\x80-\xff]{0,200})?")
_NAME: Final = bytes(
    c for c in range(256) if chr(c) in "!#$%&'*+-.^_`|~" or (chr(c).isalnum() and c < 128)
)
_CONTROL: Final = bytes(c for c in range(256) if (c < 32 and c != 9) or c == 127)
# Nearly a petabyte: no body is longer, and no reader's integer overflows.
_MOST_DIGITS: Final = 15

Fields: TypeAlias = list[tuple[str, str]]
"""Names in lower case, with their values, in order."""


class HeadError(Exception):
    """A malformed or oversized head of a message; `status` is the HTTP status to answer with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestHead(NamedTuple):
    """The head of a request. `length` is -1 for a body in chunks, 0 for none."""

    method: str
    target: str
    fields: Fields
    single: dict[str, str]
    """The fields that may be there once."""
    length: int

    @property
    def keeps_alive(self) -> bool:
        return self.single.get("connection", "").lower() != "close"

    @property
    def upgrade(self) -> str:
        """The protocol that the client asks for, in lower case; "" for none, or if `Connection`
        does not name `Upgrade`.
        """
        tokens = self.single.get("connection", "").lower().split(",")
        if "upgrade" not in [token.strip() for token in tokens]:
            return ""
        return self.single.get("upgrade", "").strip().lower()


class ResponseHead(NamedTuple):
    """The head of an answer. `length` is -1 for a body in chunks, None for one that ends with the
    connection."""

    status: int
    fields: Fields
    length: int | None
    keeps_alive: bool


def parse_request_head(content: bytes) -> RequestHead:
    """Parse a request's head: request line and headers, without the empty line at the end.

    Raise HeadError, which carries the status for the client, if the head is malformed or has too
    many headers, has no Host, repeats a header in `SINGLE`, or gives a length or transfer coding
    that is not supported. The length is 0 if the head has none, -1 for a chunked body.
    """
    line, _, rest = content.partition(b"\r\n")
    match = _REQUEST.fullmatch(line)
    if match is None:
        raise HeadError(*_why_not_request(line))
    fields = _parse_fields(rest)
    single: dict[str, str] = {}
    for name, value in fields:
        if name in SINGLE:
            if name in single:
                raise HeadError(400, f"header {name} is repeated")
            single[name] = value
    if "host" not in single:
        raise HeadError(400, "header host is missing")
    length = _length(single.get("content-length"), single.get("transfer-encoding"))
    return RequestHead(match[1].decode(), match[2].decode(), fields, single, length or 0)


def _why_not_request(line: bytes) -> tuple[int, str]:
    """Return the status and the reason for a request line that is not valid: 505 for another
    version of HTTP, else 400.
    """
    if line.endswith((b"HTTP/1.0", b"HTTP/2.0")):
        return 505, "only HTTP/1.1 is supported"
    return 400, "request line is not one of HTTP/1.1 with a path"


def _parse_fields(content: bytes) -> Fields:
    """Return the header fields, with names in lower case, of a head without its start line.
    HeadError 431 for too many, 400 for a malformed line (RFC 9112, 5).
    """
    if not content:
        return []
    lines = content.split(b"\r\n")
    if len(lines) > MOST_FIELDS:
        raise HeadError(431, f"head has more than {MOST_FIELDS} headers")
    fields: Fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.translate(None, _NAME):
            raise HeadError(400, "header line is not of the form NAME: VALUE")
        value = value.strip(b" \t")
        if len(value.translate(None, _CONTROL)) != len(value):
            raise HeadError(400, f"header {name.decode().lower()} has control characters")
        fields.append((name.decode().lower(), value.decode("latin-1")))
    return fields


def _length(length: str | None, coding: str | None) -> int | None:
    """Return the length of a body in bytes; -1 if it is chunked, None if neither header is present.

    Raise HeadError if both headers are present (RFC 9112, 6.1), for a coding other than chunked,
    and for a length that is not a number of at most `_MOST_DIGITS` digits.
    """
    # RFC 9112, 6.1: the two together are how requests are smuggled past a reader.
    if coding is not None:
        if length is not None:
            raise HeadError(400, "headers content-length and transfer-encoding exclude each other")
        if coding.lower() != "chunked":
            raise HeadError(501, "header transfer-encoding must be chunked")
        return -1
    if length is None:
        return None
    if not (length.isascii() and length.isdecimal()) or len(length) > _MOST_DIGITS:
        raise HeadError(400, "header content-length is not a number")
    return int(length)


def parse_response_head(content: bytes) -> ResponseHead:
    """Parse a response's head: status line and headers, without the empty line at the end.

    Raise HeadError if the daemon's answer is not HTTP/1.1 or is malformed, has too many headers, or
    gives a length or transfer coding that is not supported.
    """
    line, _, rest = content.partition(b"\r\n")
    match = _STATUS.fullmatch(line)
    if match is None:
        raise HeadError(502, "status line is not one of HTTP/1.1")
    fields = _parse_fields(rest)
    names = dict(fields)
    length = _length(names.get("content-length"), names.get("transfer-encoding"))
    keeps_alive = names.get("connection", "").lower() != "close"
    return ResponseHead(int(match[1]), fields, length, keeps_alive)


_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}


def write_head(first: str | int, fields: Fields) -> bytes:
    """Return the bytes of a head and the empty line behind it. `first` is a request line, or the
    status of a response.
    """
    line = _LINES.get(first, f"HTTP/1.1 {first} \r\n") if type(first) is int else f"{first}\r\n"
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    return f"{line}{lines}\r\n".encode("latin-1")
