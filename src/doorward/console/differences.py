"""The changes of a revision: its files beside those of an earlier one, and the kept decisions that
it decides otherwise.

Decisions are made once more by policies that are in memory; nothing of that is logged or counted.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from typing import Any, Final

from doorward.console.reasons import short_names
from doorward.console.ring import Entry, Version
from doorward.console.rows import row_of
from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.pdp.snapshot import Snapshot, document_ref
from doorward.rego import UNDEFINED, Query, RegoError, Undefined, to_json, to_python
from doorward.rego.shared import MASKED

__all__ = ["compare"]

SECONDS: Final = 1.0
"""Seconds of decisions that are made once more."""
MOST: Final = 2_000
"""Decisions that are made once more."""
SHOWN: Final = 50
"""Decisions of one answer."""
LINES: Final = 2_000
"""Lines of one answer."""
WIDEST: Final = 200
_BETWEEN: Final = 20
_PAUSE: Final = 0.0005


def compare(old: Version, current: Snapshot, entries: Iterable[Entry]) -> dict[str, Any]:
    """Return the lines that differ between an earlier version and the policies in force, and
    decisions of the earlier version that are different now."""
    return {
        "from": old.revision,
        "to": current.revision,
        "lines": _lines(old, current),
        **_decisions(old, current, entries),
    }


def _lines(old: Version, current: Snapshot) -> list[str]:
    """The unified diff between the policies of two revisions, cut to the limit."""
    policies = current.engine.policies
    names = short_names(policies)
    new = {name: module.span.source.text for name, module in policies.modules.items()}
    lines: list[str] = []
    for name in sorted({*old.files, *new}):
        before, after = old.files.get(name, ""), new.get(name, "")
        if before != after:
            short = names.get(name, name.rpartition("/")[2])
            pair = before.splitlines(), after.splitlines()
            lines += difflib.unified_diff(*pair, short, short, lineterm="")
    return lines[:LINES]


def _decisions(old: Version, current: Snapshot, entries: Iterable[Entry]) -> dict[str, Any]:
    """Decide the kept requests of an old revision again; count and list the answers that differ.

    It pauses regularly, so that other requests are served.
    """
    queries: dict[str, Query] = {}
    until = time.monotonic() + SECONDS
    changed: list[dict[str, Any]] = []
    compared = different = 0
    for entry in entries:
        decision = entry.decision
        if entry.snapshot.revision != old.revision or not entry.has_input:
            continue
        if decision.query is not None or decision.error is not None:
            continue
        if compared >= MOST or time.monotonic() > until:
            break
        compared += 1
        answer = _answer(queries, current, entry)
        if _text(answer) != _text(decision.result):
            different += 1
            if len(changed) < SHOWN:
                was, now = (_mask_result(decision.path, each) for each in (decision.result, answer))
                changed.append(row_of(entry) | {"was": _text(was), "is": _text(now)})
        if compared % _BETWEEN == 0:
            time.sleep(_PAUSE)
    return {"compared": compared, "different": different, "changed": changed}


def _answer(queries: dict[str, Query], current: Snapshot, entry: Entry) -> Any:
    """The answer that the current policies give to a past request; an error is its text."""
    path = entry.decision.path
    try:
        query = queries.get(path)
        if query is None:
            query = current.engine.prepare(document_ref(path), deadline=current.deadline)
            queries[path] = query
        return query.answer(entry.input, now_ns=entry.time_ns)
    except RegoError as error:
        return str(error)


def _mask_result(path: str, result: Any) -> Any:
    """The result with credentials masked, as the list of decisions shows it."""
    if isinstance(result, Undefined):
        return result
    return hide_credentials({"path": path, "result": result}).get("result", MASKED)


def _text(value: Any) -> str:
    """An answer as JSON, cut to the width that pages display."""
    if isinstance(value, Undefined) or value is UNDEFINED:
        return "undefined"
    try:
        text = to_json(to_python(value))
    except RegoError:
        return "…"
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
