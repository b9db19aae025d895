"""One line of a decision log, ours or OPA's, becomes an `Event`: a request and its answer.

A line that is not a decision is None: a server writes its own log into the same stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from doorward.rego import UNDEFINED, Undefined, Value, from_json
from doorward.rego.shared import Key

__all__ = ["Event", "documents_of", "events_of", "read_event"]

_NOTHING: Final[Mapping[Key, Value]] = {}


class Event(NamedTuple):
    """One recorded decision of a log. `input` and `result` are UNDEFINED if the log has none;
    `is_error`: the decision failed; `time_ns`: nanoseconds since the epoch, None if unknown;
    `custom`: the fields that only Doorward writes, not OPA.
    """

    decision_id: str
    path: str
    """The path of the document that was requested; "" if a `query` was."""
    query: str
    input: Value | Undefined
    result: Value | Undefined
    is_error: bool
    time_ns: int | None
    hidden: tuple[str, ...]
    """Paths below `/input` and `/result` whose values were removed or replaced in the log."""
    builtins: Mapping[Key, Value]
    """The recorded `nd_builtin_cache`: by name and operands, the answers of built-ins that are not
    pure.
    """
    custom: Mapping[Key, Value]


def events_of(content: bytes) -> Iterator[Event | None]:
    """Yield the events in lines of JSON, or in a JSON array as OPA uploads it; None for a line or
    item that is not a decision, and for a line or array that is not JSON.
    """
    return map(read_event, documents_of(content))


def documents_of(content: bytes) -> Iterator[Value]:
    """Yield the JSON values in lines, or the items of an array; None for a line or array that is
    not JSON.
    """
    if content.lstrip()[:1] == b"[":
        try:
            documents = from_json(content)
        except ValueError:
            yield None
            return
        yield from documents if isinstance(documents, list) else []
        return
    for line in content.splitlines():
        if line.strip():
            try:
                yield from_json(line)
            except ValueError:
                yield None


def read_event(document: Value) -> Event | None:
    """Return the event that a JSON value is; None if it is not an object with a `decision_id`.
    Fields of another type than expected count as missing.
    """
    if not isinstance(document, dict) or type(document.get("decision_id")) is not str:
        return None
    fields: Mapping[Any, Any] = document
    path, query = fields.get("path"), fields.get("query")
    return Event(
        fields["decision_id"],
        path.strip("/") if type(path) is str else "",
        query if type(query) is str else "",
        fields.get("input", UNDEFINED),
        fields.get("result", UNDEFINED),
        "error" in fields,
        _time_ns(fields.get("timestamp")),
        tuple([*_texts(fields.get("erased")), *_texts(fields.get("masked"))]),
        _object(fields.get("nd_builtin_cache")),
        _object(fields.get("custom")),
    )


def _texts(value: Any) -> list[str]:
    return [each for each in value if type(each) is str] if type(value) is list else []


def _object(value: Any) -> Mapping[Key, Value]:
    return value if type(value) is dict else _NOTHING


def _time_ns(text: Any) -> int | None:
    """Return the nanoseconds since the epoch of an RFC 3339 time; None if it is not one. With an
    offset other than `Z`, to the microsecond.
    """
    if type(text) is not str:
        return None
    second, point, rest = text.partition(".")
    digits = rest.rstrip("Zz") if rest[-1:] in ("Z", "z") else ""
    try:
        if not point:
            return _second(text) * 1_000_000_000
        if not (digits.isascii() and digits.isdecimal()):
            # With an offset from UTC, which nobody writes: to the microsecond.
            return int(datetime.fromisoformat(text).timestamp() * 1_000_000) * 1000
        return _second(f"{second}Z") * 1_000_000_000 + int(digits[:9].ljust(9, "0"))
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=64)
def _second(text: str) -> int:
    """Return the seconds since the epoch of an ISO 8601 time. Cached, since many events have the
    same second.
    """
    return int(datetime.fromisoformat(text).timestamp())
