"""The profile of `doorward eval`: a table for people, JSON with OPA's names where OPA has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from doorward.cli.results import table
from doorward.rego.golang import marshal, object_text

if TYPE_CHECKING:
    from doorward.rego.shared import Entry

__all__ = ["in_order", "profile_document", "profile_table"]

_ORDERS: Final[dict[str, Callable[[Entry], Any]]] = {
    "total_time_ns": lambda entry: -entry.total_ns,
    "num_eval": lambda entry: -entry.evaluated,
    "file": lambda entry: entry.span.file,
    "line": lambda entry: -entry.span.row,
}


def in_order(entries: Sequence[Entry], order: Sequence[str], limit: int) -> Sequence[Entry]:
    """Return the first `limit` entries (0: all), sorted by the keys in `order` and then by time.

    Times, counts and lines are in descending order.
    """
    keys = [*order, "total_time_ns"]
    ordered = sorted(entries, key=lambda entry: [_ORDERS[name](entry) for name in keys])
    return ordered[:limit] if limit > 0 else ordered


def profile_document(entries: Sequence[Entry]) -> str:
    """Return the entries as a JSON list on one line."""
    documents = []
    for entry in entries:
        span = entry.span
        location = {"file": marshal(span.file), "row": str(span.row), "col": str(span.col)}
        fields = {
            "total_time_ns": str(entry.total_ns),
            "num_eval": str(entry.evaluated),
            "num_held": str(entry.succeeded),
            "location": object_text(location),
        }
        documents.append(object_text(fields))
    return "[" + ",".join(documents) + "]"


def profile_table(entries: Sequence[Entry]) -> str:
    """Return the entries as a table: microseconds, counts, position and first line (at most 60
    characters) of each expression.
    """
    rows = [
        [
            f"{entry.total_ns / 1000:.1f}µs",
            str(entry.evaluated),
            str(entry.succeeded),
            f"{entry.span.file}:{entry.span.row}",
            entry.span.text.partition("\n")[0][:60],
        ]
        for entry in entries
    ]
    return table(["TIME", "NUM EVAL", "NUM HELD", "LOCATION", "EXPRESSION"], rows)
