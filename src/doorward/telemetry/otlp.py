"""Encode spans and log records as messages of OTLP in protobuf, without generated code.

The packages `opentelemetry-proto` and `xds-protos` both install `opentelemetry/proto`, and the one
that is installed last replaces the other's. Beside Envoy's types no generated code can be relied
on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Record", "logs_message", "rejected_records", "spans_message"]

_BYTES: Final = 2
_FIXED64: Final = 1
_NUMBER: Final = 0
INFO: Final = 9
"""The severity of every log record."""


class Record(NamedTuple):
    """A log record to be sent by OTLP."""

    time_ns: int
    body: str
    attributes: Mapping[str, Any]
    trace_id: bytes = b""
    span_id: bytes = b""


def _varint(number: int) -> bytes:
    """Encode a number as a varint of protobuf; a negative one as 64 bits."""
    # Protobuf: a negative integer is its 64-bit two's complement.
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode("utf-8", errors="replace"))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _NUMBER) + _varint(value)


def _fixed64(field: int, value: int) -> bytes:
    return _varint(field << 3 | _FIXED64) + struct.pack("<Q", value)


def _value(value: Any) -> bytes:
    """Encode an OTLP value. Lists become arrays; other types, and integers of more than 64 bits,
    become text.
    """
    # The fields of `AnyValue`: 1 text, 2 boolean, 3 integer, 4 double, 5 array. A boolean is an
    # `int` in Python, and so comes first.
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return _number(3, value)
    if isinstance(value, float):
        return _varint(4 << 3 | _FIXED64) + struct.pack("<d", value)
    if isinstance(value, (list, tuple)):
        return _field(5, b"".join([_field(1, _value(each)) for each in value]))
    return _text(1, value if isinstance(value, str) else str(value))


def _attributes(field: int, attributes: Mapping[str, Any]) -> bytes:
    """Encode attributes, each as a field `field` with name and value."""
    pairs = [_text(1, name) + _field(2, _value(value)) for name, value in attributes.items()]
    return b"".join([_field(field, pair) for pair in pairs])


def _message(
    resource: Mapping[str, Any], scope: tuple[str, str], contents: Iterable[bytes]
) -> bytes:
    """Encode an export request with one resource, one scope (name and version) and its encoded
    records.
    """
    name, version = scope
    inner = _field(1, _text(1, name) + _text(2, version))
    inner += b"".join([_field(2, each) for each in contents])
    return _field(1, _field(1, _attributes(1, resource)) + _field(2, inner))


def spans_message(spans: Sequence[Any]) -> bytes:
    """Encode an `ExportTraceServiceRequest` of at least one span; all have the resource and scope
    of the first.
    """
    first = spans[0]
    scope = first.instrumentation_scope
    return _message(first.resource.attributes, (scope.name, scope.version or ""), map(_span, spans))


def _span(span: Any) -> bytes:
    """Encode a finished span of the OpenTelemetry SDK as OTLP's `Span`, without its resource and
    scope. Events, links and the text of its status are left out.
    """
    context, parent, status = span.context, span.parent, span.status
    content = _field(1, context.trace_id.to_bytes(16, "big"))
    content += _field(2, context.span_id.to_bytes(8, "big"))
    if state := context.trace_state.to_header():
        content += _text(3, state)
    if parent is not None:
        content += _field(4, parent.span_id.to_bytes(8, "big"))
    content += _text(5, span.name)
    # Of the library 0 is an internal span, of OTLP an unspecified one.
    content += _number(6, span.kind.value + 1)
    content += _fixed64(7, span.start_time) + _fixed64(8, span.end_time)
    content += _attributes(9, span.attributes or {})
    # Of a status, the library's numbers are OTLP's.
    if status.status_code.value:
        content += _field(15, _number(3, status.status_code.value))
    return content


def logs_message(
    resource: Mapping[str, Any], scope: tuple[str, str], records: Iterable[Record]
) -> bytes:
    """Encode an `ExportLogsServiceRequest` of log records."""
    return _message(resource, scope, map(_record, records))


def _record(record: Record) -> bytes:
    """Return the protobuf message of a log record."""
    content = _fixed64(1, record.time_ns) + _number(2, INFO) + _text(3, "INFO")
    content += _field(5, _text(1, record.body)) + _attributes(6, record.attributes)
    if record.trace_id:
        content += _field(9, record.trace_id) + _field(10, record.span_id)
    return content + _fixed64(11, record.time_ns)


def rejected_records(message: bytes) -> int:
    """Return the number of records that a collector rejected, from its response; 0 if that is not
    valid.
    """
    partial = _first(message, 1)
    number = _first(partial, 1) if isinstance(partial, bytes) else 0
    return number if isinstance(number, int) and number < 1 << 63 else 0


def _first(message: bytes, field: int) -> int | bytes:
    """Return the first value of a protobuf field, a number or bytes; 0 if it is absent or the
    message is not valid.
    """
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == _BYTES:
            if tag >> 3 == field:
                return message[at : at + value]
            at += value
        # A response has only these two kinds of fields; another one is not skipped but ends the
        # search.
        elif tag & 7 != _NUMBER:
            return 0
        elif tag >> 3 == field:
            return value
    return 0


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Read a varint at an offset; return it and the offset behind it.

    A truncated one is read as far as it goes; nothing is raised.
    """
    number = shift = 0
    while at < len(message) and shift < 64:
        octet = message[at]
        at += 1
        number |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            break
    return number, at
