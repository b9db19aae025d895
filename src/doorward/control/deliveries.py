"""Deliveries of chunks of events: each protocol as one request to a service.

`opa`: POST of the chunk, as OPA does. `otlp`: POST of log records. `s3`: PUT of the chunk under a
name derived from its content, so that a chunk that is sent again is the same object.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from doorward import __version__
from doorward.config.upload_options import UploadOptions
from doorward.control.chunks import Chunk
from doorward.telemetry.otlp import Record, logs_message, rejected_records

__all__ = ["Delivery", "count_rejected", "delivery_of"]

_GZIP: Final = {"content-encoding": "gzip"}
_JSON: Final = {**_GZIP, "content-type": "application/json"}
_PROTOBUF: Final = {**_GZIP, "content-type": "application/x-protobuf"}
_DIGITS: Final = 32
"""The number of hexadecimal digits of the digest in an object's name."""
# Numbers are not looked at: none is too long to be one.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str)


class Delivery(NamedTuple):
    """The request that delivers a chunk; `path` is below the service's URL."""

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes


def delivery_of(chunk: Chunk, options: UploadOptions) -> Delivery:
    """Return the request that delivers a chunk by the configured protocol."""
    if options.protocol == "opa":
        return Delivery("POST", options.resource, _JSON, chunk.content)
    events = list(_events(chunk.content))
    if options.protocol == "otlp":
        return Delivery("POST", options.resource, _PROTOBUF, _otlp(events))
    # A chunk belongs to the hour of its first event.
    hour = _time(events[0][1]).strftime("%Y/%m/%d/%H")
    digest = hashlib.sha256(chunk.content).hexdigest()[:_DIGITS]
    path = f"{options.resource.strip('/')}/{hour}/{digest}.json.gz"
    return Delivery("PUT", path, _JSON, chunk.content)


def count_rejected(options: UploadOptions, body: bytes) -> int:
    """Return how many events of a delivery the service rejected although it accepted the request;
    `body` is that of its response.
    """
    return rejected_records(body) if options.protocol == "otlp" else 0


def _events(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of a chunk, each as its text and as an object whose numbers are texts."""
    text = gzip.decompress(content).decode("utf-8", errors="replace")
    start = 1
    while text[start : start + 1] == "{":
        # By its place, so that the text of an event is passed on as it is, with its numbers.
        event, end = _DECODER.raw_decode(text, start)
        yield text[start:end], event
        start = end + 1


def _time(event: Mapping[str, Any]) -> datetime:
    """Return the time of a decision to the second, in UTC."""
    return datetime.fromisoformat(f"{event['timestamp'][:19]}+00:00")


def _nanoseconds(event: Mapping[str, Any]) -> int:
    """Return the time of a decision in nanoseconds since the epoch."""
    # As integers: a float holds no nanoseconds since the epoch.
    fraction = event["timestamp"][19:].strip(".Z")
    return int(_time(event).timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)


def _otlp(events: list[tuple[str, dict[str, Any]]]) -> bytes:
    """Return the events as a compressed OTLP logs request. Its resource has the `id` in the labels
    of the first event.
    """
    labels = events[0][1].get("labels", {})
    resource = {"service.name": "doorward", "service.version": __version__}
    if "id" in labels:
        resource["service.instance.id"] = labels["id"]
    records = [_record(text, event) for text, event in events]
    message = logs_message(resource, ("doorward.decision_logs", __version__), records)
    return gzip.compress(message, mtime=0)


def _record(text: str, event: Mapping[str, Any]) -> Record:
    """Return one event as an OTLP log record, with its trace and span."""
    attributes = {"event.name": "opa.decision"}
    for name in ("decision_id", "path", "query"):
        if isinstance(event.get(name), str):
            attributes[f"opa.{name}"] = event[name]
    trace, span = event.get("trace_id", ""), event.get("span_id", "")
    return Record(_nanoseconds(event), text, attributes, bytes.fromhex(trace), bytes.fromhex(span))
