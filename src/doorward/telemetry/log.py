"""Structured logs in OPA's shape: one line of JSON, or of `key=value` text, for each record.

Code logs with the standard library (`logging.getLogger(__name__).info("…", extra={…})`). The values
in `extra` become fields of the line, as do those in its key `fields`. Nothing is masked here, so
`extra` must not contain secrets.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Final, TextIO, TypeAlias

import orjson

from doorward.config.log_options import LEVELS
from doorward.rego import Number, to_json
from doorward.rego.golang import indent, marshal, time_text
from doorward.rego.shared import number_text, sorted_values

__all__ = [
    "Line",
    "Stamp",
    "address_text",
    "configure",
    "line_for",
    "now",
    "second_text",
    "stamp_for",
]

Line: TypeAlias = Callable[[Mapping[str, Any]], bytes]
"""Formats fields as one line of the log, with a line break."""

Stamp: TypeAlias = Callable[[int], str]
"""Formats nanoseconds since the epoch as the time in lines of the log."""

_NAMES: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "fatal"}
_OF_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    # What formatters add, and uvicorn's text for terminals.
    "message",
    "asctime",
    "color_message",
}


_CONTROLS: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Characters that end a line or control a terminal, and that JSON leaves as they are."""


def configure(
    level: str, format: str, stream: TextIO | None = None, *, timestamp_format: str = ""
) -> None:
    """Write all logs of this process to `stream` (default: standard error) in one of `FORMATS`;
    replaces the handlers and the level of the root logger. The logs of asyncio and httpx are
    written from warnings on, and from info on if `level` is `debug`.

    `timestamp_format` is a layout of Go's for times; "" is RFC 3339.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(line_for(format), stamp_for(timestamp_format)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    # What these say at info is noise, and at debug it holds headers.
    for name in ("asyncio", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING if level != "debug" else logging.INFO)


def line_for(format: str) -> Line:
    """Return the function that formats a line in one of `FORMATS`."""
    return {"json": _json_line, "json-pretty": _pretty_line, "text": _text_line}[format]


def now(stamp: Stamp | None = None) -> str:
    """Return the present time in UTC as `stamp` formats it; by default RFC 3339 to the second, as
    in OPA.
    """
    return (stamp or _second)(time.time_ns())


def stamp_for(layout: str) -> Stamp:
    """Return a function that formats a time (nanoseconds, UTC) by a layout of Go's; RFC 3339 to the
    second for "".
    """
    return partial(time_text, layout) if layout else _second


def _second(time_ns: int) -> str:
    """Return nanoseconds since the epoch as RFC 3339 in UTC, cut to the second."""
    return second_text(time_ns // 1_000_000_000) + "Z"


@lru_cache(maxsize=4)
def second_text(seconds: int) -> str:
    """Return a second since the epoch in UTC as `2026-01-31T12:00:00`, without a zone. Cached,
    since many lines share one.
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def address_text(client: Any) -> str:
    """Return the address of a client as Go writes it: `127.0.0.1:4711`, `[::1]:4711`, `@` for a
    Unix socket.
    """
    if not isinstance(client, tuple):
        return "@"
    host, port = client[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Formatter(logging.Formatter):
    """The formatter of all handlers: makes a log record a line. `line` writes the fields as JSON or
    text, `stamp` the time.
    """

    def __init__(self, line: Line, stamp: Stamp) -> None:
        super().__init__()
        self._line = line
        self._stamp = stamp

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line with OPA's `level`, `msg` and `time`, and the fields of
        `extra`.

        Of an exception only type and location are logged, not its text.
        """
        # Libraries put marks of their own into every record, such as `_ray_timestamp_ns`.
        fields = {
            name: value
            for name, value in vars(record).items()
            if name not in _OF_RECORD and not name.startswith("_")
        }
        # Fields under names that a record has itself, such as `name`.
        fields |= fields.pop("fields", {})
        fields |= {
            "level": _NAMES.get(record.levelno, "info"),
            "msg": record.getMessage(),
            "time": now(self._stamp),
        }
        if record.exc_info and record.exc_info[0] is not None:
            # The text of an exception may quote what a client sent; its type and place do not.
            fields["exception"] = record.exc_info[0].__name__
            fields["at"] = _place(record)
        return self._line(fields).decode("utf-8", errors="replace").removesuffix("\n")


def _place(record: logging.LogRecord) -> str:
    """Return `file:line` of the statement that raised the record's exception; "" if there is
    none.
    """
    frame = record.exc_info[2] if record.exc_info else None
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""


def _json_line(fields: Mapping[str, Any]) -> bytes:
    """Return log fields as one line of JSON with sorted keys."""
    try:
        return orjson.dumps(
            fields, default=_other, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        )
    except (TypeError, RecursionError):
        # Integers past 64 bits, keys that are not strings, lone surrogates: rare, and slower.
        return _slow_json(fields).encode() + b"\n"


def _slow_json(fields: Mapping[str, Any]) -> str:
    """Return fields as JSON, also those that orjson cannot write."""
    return marshal({name: value for name, value in fields.items()})


def _other(value: object) -> Any:
    """Convert a value that orjson does not know: a number that keeps its text, or a set. TypeError
    for any other.
    """
    if isinstance(value, float):
        return orjson.Fragment(number_text(value).encode())
    if isinstance(value, frozenset):
        return sorted_values(value)
    raise TypeError(type(value).__name__)


def _pretty_line(fields: Mapping[str, Any]) -> bytes:
    return indent(_slow_json(fields), "", "  ").encode() + b"\n"


def _text_line(fields: Mapping[str, Any]) -> bytes:
    """Return the line `time="…" level=info msg="…"`, followed by the other fields in order of their
    names, with its end.
    """
    first = ["time", "level", "msg"]
    names = [name for name in first if name in fields]
    names += sorted(name for name in fields if name not in first)
    parts = [f"{name}={_text_value(fields[name])}" for name in names]
    return " ".join(parts).encode("utf-8", errors="replace") + b"\n"


def _text_value(value: Any) -> str:
    """Return a field's value in the text format: quoted unless it is a word of letters, digits and
    `-._/@^+`; other values than texts as JSON.
    """
    if not isinstance(value, str):
        value = number_text(value) if isinstance(value, Number) else to_json(value)
    plain = value and all(c.isalnum() or c in "-._/@^+" for c in value)
    return value if plain else json.dumps(value, ensure_ascii=False).translate(_CONTROLS)
