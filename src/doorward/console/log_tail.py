"""The newest events of a decision log, from the end of its file, without reading all of it."""

from __future__ import annotations

import json
import os
from typing import Any, Final

__all__ = ["newest_rows"]

BYTES: Final = 4 << 20
"""The most bytes at the end of a file that are read."""
_NAMES: Final = ("allowed", "allow", "decision")


def newest_rows(file: str, most: int) -> list[Any] | None:
    """Return the newest `most` events of a file in the columns of a search, the newest first; fewer
    if the file has no more. None if the last `BYTES` of a larger file do not hold so many, or it is
    compressed or cannot be read: then DuckDB reads all.
    """
    if file.endswith(".gz"):
        return None
    try:
        with open(file, "rb") as log:
            size = os.fstat(log.fileno()).st_size
            log.seek(max(size - BYTES, 0))
            lines = log.read(BYTES).split(b"\n")
    except OSError:
        return None
    # The first line may be cut, and the last one under way.
    complete = lines[1:] if size > BYTES else lines
    rows = [row for line in reversed(complete[-2 * most :]) if (row := _row(line)) is not None]
    if len(rows) < most and (size > BYTES or len(complete) > 2 * most):
        return None
    return sorted(rows, key=lambda row: str(row[1]), reverse=True)[:most]


def _row(line: bytes) -> tuple[Any, ...] | None:
    """Return the columns of one line of the log, those of a search (`log_query`) in their order;
    None if it is blank, cut off or not a decision.
    """
    try:
        event = json.loads(line) if line.strip() else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("decision_id"), str):
        return None
    metrics, custom = event.get("metrics"), event.get("custom")
    eval_ns = metrics.get("timer_rego_query_eval_ns") if isinstance(metrics, dict) else None
    claims, note = (
        custom.get(name) if isinstance(custom, dict) else None for name in ("claims", "console")
    )
    path = event.get("query", event.get("path", ""))
    return (
        event["decision_id"],
        str(event.get("timestamp", "")),
        path if isinstance(path, str) else "",
        _verdict(event),
        _text(event, "input"),
        _text(event, "bundles"),
        eval_ns,
        None if claims is None else json.dumps(claims),
        None if note is None else json.dumps(note),
    )


def _text(event: dict[str, Any], name: str) -> str | None:
    return json.dumps(event[name]) if name in event else None


def _verdict(event: dict[str, Any]) -> str:
    """Return the verdict of an event: `error`, `undefined`, `allow`, `deny`, or `value` for a
    result that is neither a boolean nor an object. An object is `deny` if it has members of
    `_NAMES` and none is true, else `allow`.
    """
    if event.get("error") is not None:
        return "error"
    if "result" not in event:
        return "undefined"
    result = event["result"]
    if isinstance(result, bool):
        return "allow" if result else "deny"
    if not isinstance(result, dict):
        return "value"
    named = [result[name] for name in _NAMES if name in result]
    return "deny" if named and not any(each is True for each in named) else "allow"
