"""A search of the kept decisions: the rows that match a filter, page by page, and groups of them.

A filter consists of a few values; an empty one matches all decisions. Each search is bounded in
time and pauses, so that decisions continue meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from doorward.base.records import record
from doorward.console.parameters import check_parameters
from doorward.console.ring import Entry
from doorward.console.rows import Row, row_of

__all__ = ["GROUPS", "MOST", "Filter", "FilterError", "select"]

MOST: Final = 500
"""The most rows of one page."""
GROUPED: Final = 100
"""The most groups of one result, the largest first."""
SECONDS: Final = 1.5
"""The seconds after which a search ends with what it has found."""
_BETWEEN: Final = 200
"""The number of decisions between two pauses."""
_PAUSE: Final = 0.0005
VERDICTS: Final = ("allow", "deny", "refused", "undefined", "error", "value")
GROUPS: Final = ("reason", "user", "role", "path", "rule", "verdict", "revision")
_WORDS: Final = {"allow": "allowed", "deny": "denied"}
"""The words for verdicts that the page shows, which a search finds."""
REFUSED: Final = ("deny", "undefined", "error")
"""The verdicts that let nothing through."""
Cursor = tuple[int, int, int]
"""The position of the last row of a page: its time in milliseconds, worker and number."""


class FilterError(Exception):
    """A filter cannot be read; the message says why in one line."""


@record
class Filter:
    """A selection of decisions, all of whose conditions must hold. Texts match a part of the field,
    in any case, unless the field says otherwise.
    """

    text: str = ""
    """Words that occur anywhere in a row."""
    verdict: str = ""
    """One of `VERDICTS`; `refused` means all that let nothing through."""
    path: str = ""
    user: str = ""
    role: str = ""
    rule: str = ""
    """A part of the path of a rule that was true or that refused."""
    reason: str = ""
    """The complete reason."""
    revision: str = ""
    since: str = ""
    """The earliest time in milliseconds since the epoch."""
    until: str = ""
    """The time before which decisions were made, in milliseconds since the epoch."""

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Filter:
        """Return the filter in a request's query parameters; FilterError for an unknown parameter
        or an invalid value. All values stay texts.
        """
        check_parameters(fields, cls, FilterError)
        each = cls(**fields)
        if each.verdict not in ("", *VERDICTS):
            raise FilterError(f"the query parameter `verdict` must be one of {', '.join(VERDICTS)}")
        for value in (each.since, each.until):
            if value and not (value.isascii() and value.isdecimal()):
                raise FilterError(
                    "the query parameters `since` and `until` must be milliseconds since 1970"
                )
        return each

    def matcher(self) -> Callable[[Row], bool]:
        """Return the filter as a function, which returns True for the rows that meet every
        condition; empty fields are not conditions.
        """
        words = self.text.lower().split()
        parts = [
            (name, getattr(self, name).lower())
            for name in ("path", "user", "role", "revision")
            if getattr(self, name)
        ]
        verdicts = REFUSED if self.verdict == "refused" else (self.verdict,)
        since, until = int(self.since or 0), int(self.until or 1 << 62)

        def matches(row: Row) -> bool:
            """Return True if the row meets every condition of the filter. `since` is included,
            `until` is not.
            """
            if self.verdict and row["verdict"] not in verdicts:
                return False
            if not since <= row["time_ms"] < until:
                return False
            if any(part not in row[name].lower() for name, part in parts):
                return False
            if self.reason and row["reason"] != self.reason:
                return False
            if self.rule and not any(self.rule in each for each in _rules(row)):
                return False
            text = _text(row) if words else ""
            return all(word in text for word in words)

        return matches


def _rules(row: Row) -> list[str]:
    return [*row["rules"], *[each["rule"] for each in row["failed"]]]


def _text(row: Row) -> str:
    """All texts of a row that a search for words covers, in lower case."""
    names = ("path", "request", "user", "role", "reason", "id", "revision")
    texts = [*[row[name] for name in names], _WORDS.get(row["verdict"], row["verdict"])]
    return " ".join(texts).lower()


def select(
    entries: Iterable[Entry],
    others: Iterable[Row],
    filter: Filter,
    *,
    worker: int,
    before: Cursor | None = None,
    most: int = MOST,
    group: str = "",
) -> dict[str, Any]:
    """Return the newest rows before a cursor (`rows`, at most `most`), how many match in all
    (`total`), how many entries were examined (`looked`), and the `GROUPED` largest counts by
    `group`. `entries` must be the newest first; `others` are rows of the Docker plugin, in any
    order. After `SECONDS` the result is not `complete`.
    """
    matches = filter.matcher()
    until = time.monotonic() + SECONDS
    rows: list[Row] = []
    groups: dict[str, dict[str, Any]] = {}
    total = looked = 0
    is_complete = True

    def add(row: Row) -> None:
        """Count a row that matches, and keep it if it belongs to the page."""
        nonlocal total
        if not matches(row):
            return
        total += 1
        if group:
            _count(groups, row, group)
        cursor = row["time_ms"], worker, row["number"]
        if len(rows) < most and (before is None or cursor < before):
            rows.append(row)

    for entry in entries:
        looked += 1
        add(row_of(entry))
        if looked % _BETWEEN == 0:
            time.sleep(_PAUSE)
            if time.monotonic() > until:
                is_complete = False
                break
    rows_of_memory, rows = rows, []
    for row in sorted(others, key=_position, reverse=True):
        add(row)
    page = sorted([*rows_of_memory, *rows], key=_position, reverse=True)[:most]
    return {
        "rows": page,
        "total": total,
        "looked": looked,
        "complete": is_complete,
        "groups": sorted(groups.values(), key=lambda each: -each["count"])[:GROUPED],
    }


def _position(row: Row) -> tuple[int, int]:
    """Return the sort key for the rows of one worker, in the order of cursors."""
    return row["time_ms"], row["number"]


def _count(groups: dict[str, dict[str, Any]], row: Row, by: str) -> None:
    """Add a row to its group; by `rule` it can belong to several."""
    names = _rules(row)[:8] if by == "rule" else [row[by]]
    for name in names:
        known = groups.get(name)
        if known is None:
            known = groups[name] = {"name": name, "count": 0, "id": row["id"]}
            known |= {"last_ms": row["time_ms"], "failed": row["failed"][:1], "path": row["path"]}
            known |= {"total_us": 0.0, "longest_us": 0.0, "number": row["number"]}
        known["count"] += 1
        known["number"] = max(known["number"], row["number"])
        known["total_us"] += row["eval_us"]
        known["longest_us"] = max(known["longest_us"], row["eval_us"])
