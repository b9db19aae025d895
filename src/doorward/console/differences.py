"""The changes of a revision: its files beside those of an earlier one, and the kept decisions that
would be different now.

The decisions are made again by the policies in memory; they are not logged or counted.
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
"""The seconds after which no further decision is made again."""
MOST: Final = 2_000
"""The most decisions that are made again."""
SHOWN: Final = 50
"""The most decisions that are listed; the others are only counted."""
LINES: Final = 2_000
"""The lines to which a diff is cut."""
WIDEST: Final = 200
_BETWEEN: Final = 20
"""The number of decisions between two pauses."""
_PAUSE: Final = 0.0005
"""The seconds of a pause."""


def compare(old: Version, current: Snapshot, entries: Iterable[Entry]) -> dict[str, Any]:
    """Return, as JSON, the revisions (`from`, `to`), the diff between their policies (`lines`), and
    how the decisions of the old revision in `entries` compare with those of the current policies:
    `compared` and `different` are counts, `changed` has a row for each of the first `SHOWN` that
    differ. Blocks for about `SECONDS` at most.
    """
    return {
        "from": old.revision,
        "to": current.revision,
        "lines": _lines(old, current),
        **_decisions(old, current, entries),
    }


def _lines(old: Version, current: Snapshot) -> list[str]:
    """Return the unified diff between the policies of two revisions, at most `LINES` lines."""
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
    """Decide the kept requests of an old revision again, without queries, errors and those whose
    input was not kept. Return how many were decided (`compared`), how many results differ
    (`different`), and the first `SHOWN` of those (`changed`). Stops after `MOST` requests or
    `SECONDS`; pauses regularly, so that other requests are served.
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
    """Return the result that the policies in force have for a past request at its time; an error as
    its text. Prepared queries are kept in `queries`.
    """
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
    """Return the result with credentials masked, as the list of decisions shows it."""
    if isinstance(result, Undefined):
        return result
    return hide_credentials({"path": path, "result": result}).get("result", MASKED)


def _text(value: Any) -> str:
    """Return a result as JSON, cut to `WIDEST` characters; `undefined` without a result, `…` if it
    cannot be written.
    """
    if isinstance(value, Undefined) or value is UNDEFINED:
        return "undefined"
    try:
        text = to_json(to_python(value))
    except RegoError:
        return "…"
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
