"""The header section of a request becomes a `Request`, or is malformed (RFC 9113, section 8).

A malformed request is a stream error PROTOCOL_ERROR: it never reaches the application, since an
intermediary could read it differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from doorward.base.records import record
from doorward.transport.http2.hpack import Header

__all__ = ["MalformedError", "Request", "check_trailers", "to_request"]

# RFC 9113, 8.2.1: no upper case, or an HTTP/1.1 peer behind us could see a second field.
_NAME: Final = bytes(range(0x21, 0x7F)).translate(None, b":ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_FORBIDDEN_IN_VALUES: Final = b"\0\r\n"
_SPACE: Final = b" \t"
_PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
_CONNECTION: Final = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
"""Fields of HTTP/1.1 that HTTP/2 forbids (section 8.2.2)."""
# The digits of 2**63 - 1; the limit keeps `int` from long numbers, which take it long.
MAX_LENGTH_DIGITS: Final = 19


class MalformedError(ValueError):
    """The header section violates a rule; the message names the rule."""


@record
class Request:
    """A request's header section; `content_length` is None if the client sent none."""

    method: bytes
    path: bytes
    scheme: bytes
    authority: bytes
    fields: tuple[Header, ...]
    content_length: int | None = None

    def get(self, name: bytes) -> bytes | None:
        """Return the value of the first field `name` (lower case); None if there is none."""
        for each, value in self.fields:
            if each == name:
                return value
        return None


def to_request(headers: Sequence[Header]) -> Request:
    """Return the request that a decoded header list describes; its fields are not merged. Raise
    MalformedError if a pseudo-header is missing, empty, unknown, repeated or after a field, if a
    field is not allowed, or `host` or `content-length` contradict others.
    """
    pseudo: dict[bytes, bytes] = {}
    fields: list[Header] = []
    for name, value in headers:
        if name[:1] == b":":
            # RFC 9113, 8.3: pseudo-headers come first, or the section is malformed.
            if fields:
                raise MalformedError("pseudo-header after a header field")
            if name not in _PSEUDO:
                raise MalformedError("unknown pseudo-header")
            if name in pseudo:
                raise MalformedError("pseudo-header twice")
            _check_value(value)
            pseudo[name] = value
        else:
            _check_field(name, value)
            fields.append((name, value))
    return _complete(pseudo, tuple(fields))


def _complete(pseudo: dict[bytes, bytes], fields: tuple[Header, ...]) -> Request:
    """Return the request of `pseudo`, the pseudo-headers by name, and `fields`, which were each
    checked. The authority is `:authority`, or else the `host` field, or b"".

    Raise MalformedError if a pseudo-header is missing or empty, `host` differs from `:authority`,
    or `content-length` is not a number of at most `MAX_LENGTH_DIGITS` digits.
    """
    try:
        method, scheme, path = pseudo[b":method"], pseudo[b":scheme"], pseudo[b":path"]
    # CONNECT has no `:scheme` and `:path` (RFC 9113, 8.5), and so ends here.
    except KeyError:
        raise MalformedError("missing pseudo-header") from None
    if not method or not scheme or not path:
        raise MalformedError("empty pseudo-header")
    authority = pseudo.get(b":authority", b"")
    host = _only(fields, b"host")
    # RFC 9113, 8.3.1: two readers could decide about different hosts.
    if host is not None and authority and host != authority:
        raise MalformedError("headers host and :authority differ")
    length = _only(fields, b"content-length")
    if length is None:
        return Request(method, path, scheme, authority or host or b"", fields)
    if not length.isdigit() or len(length) > MAX_LENGTH_DIGITS:
        raise MalformedError("header content-length is not a number")
    return Request(method, path, scheme, authority or host or b"", fields, int(length))


def _only(fields: tuple[Header, ...], header_name: bytes) -> bytes | None:
    """Return the value of a field, None without one; raise MalformedError for two different
    values.
    """
    values = {value for name, value in fields if name == header_name}
    # RFC 9110, 8.6: the same length twice is valid, two lengths are request smuggling.
    if len(values) > 1:
        raise MalformedError(f"header {header_name.decode()} has two different values")
    return values.pop() if values else None


def check_trailers(headers: Sequence[Header]) -> None:
    """Raise MalformedError if a trailer section violates a rule."""
    for name, value in headers:
        if name[:1] == b":":
            raise MalformedError("pseudo-header in trailers")
        _check_field(name, value)


def _check_field(name: bytes, value: bytes) -> None:
    """Raise MalformedError for a field that HTTP/2 does not allow (RFC 9113, 8.2): a name that is
    empty or has other characters than lower-case ones of HTTP names, an invalid value, a header of
    the connection, or `te` other than `trailers`.
    """
    if not name or name.translate(None, _NAME):
        raise MalformedError("a character is not allowed in a header field name")
    _check_value(value)
    if name in _CONNECTION:
        raise MalformedError(f"header {name.decode()} is not allowed in HTTP/2")
    # RFC 9113, 8.2.2.
    if name == b"te" and value != b"trailers":
        raise MalformedError("header te must be trailers")


def _check_value(value: bytes) -> None:
    """Raise MalformedError for NUL, CR or LF in a value, or a space or tab around it (RFC 9113,
    8.2.1).
    """
    if len(value.translate(None, _FORBIDDEN_IN_VALUES)) != len(value):
        raise MalformedError("a character is not allowed in a header field value")
    if value and (value[0] in _SPACE or value[-1] in _SPACE):
        raise MalformedError("a header field value begins or ends with a space or tab")
