"""What a page is shown of decisions: JSON-ready, with everything masked that is a credential."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from doorward.console.ring import Entry, Ring, Second, is_refusal
from doorward.counting import counted
from doorward.pdp.decision import Decision, error_document
from doorward.pdp.hiding import hide_credentials
from doorward.rego import RegoError, Undefined, to_json, to_python, trail_of

__all__ = ["BATCH", "LONGEST", "batch", "detail", "minute", "request", "revisions", "summary"]

BATCH: Final = 100
"""Decisions that one message to a page holds."""
SECONDS: Final = 60
"""Seconds of counts that a page is shown."""
LONGEST: Final = 200
"""Characters of a text in a summary."""
MAX_DOCUMENT: Final = 256 << 10
"""Characters of an input or a result that is shown whole."""


def batch(ring: Ring, number: int, most: int = BATCH) -> dict[str, Any]:
    """The newest `most` decisions after `number`, and the counts of the last seconds."""
    entries, skipped, last = ring.after(number, most)
    return {
        "last": last,
        "skipped": skipped,
        "decisions": [summary(entry) for entry in entries],
        "seconds": _seconds(ring.seconds(), int(time.time())),
    }


def _seconds(counts: list[Second], now: int) -> list[list[int]]:
    """Each of the last `SECONDS`, the one under way last, with nothing where nothing was asked:
    second, decisions, refused, errors, mean and longest evaluation in nanoseconds."""
    by_second = {each.second: each for each in counts}
    return [_counts(second, by_second.get(second)) for second in range(now - SECONDS + 1, now + 1)]


def _counts(number: int, second: Second | None) -> list[int]:
    if second is None:
        return [number, 0, 0, 0, 0, 0]
    mean = second.total_ns // max(second.count, 1)
    return [number, second.count, second.refused, second.errors, mean, second.longest_ns]


def minute(ring: Ring) -> dict[str, Any]:
    """What was decided in the last minute."""
    counts = _seconds(ring.seconds(), int(time.time()))
    number, refused, errors = (sum(each[at] for each in counts) for at in (1, 2, 3))
    total = sum(each[1] * each[4] for each in counts)
    return {
        "decisions": number,
        "refused": refused,
        "errors": errors,
        "mean_us": total / max(number, 1) / 1000,
        "longest_us": max(each[5] for each in counts) / 1000,
    }


def revisions(counted: Iterable[tuple[int, str, list[int]]]) -> list[dict[str, Any]]:
    """What each revision decided over time, the newest first, from `Ring.revisions`."""
    by_revision: dict[str, list[tuple[int, list[int]]]] = {}
    for minute, revision, counts in counted:
        by_revision.setdefault(revision, []).append((minute, counts))
    documents = []
    for revision, minutes in by_revision.items():
        count, refused, errors, total_ns = (sum(c[n] for _, c in minutes) for n in range(4))
        documents.append(
            {
                "revision": revision[:LONGEST],
                "from": minutes[0][0] * 60,
                "to": minutes[-1][0] * 60,
                "decisions": count,
                "refused": refused,
                "errors": errors,
                "mean_us": total_ns / max(count, 1) / 1000,
                "minutes": [[minute * 60, *counts[:3]] for minute, counts in minutes],
            }
        )
    return sorted(documents, key=lambda each: (-each["to"], each["revision"]))


def summary(entry: Entry) -> dict[str, Any]:
    """One line of the list."""
    decision = entry.decision
    return {
        "number": entry.number,
        "id": decision.decision_id,
        "time_ms": entry.time_ns // 1_000_000,
        "path": (decision.query if decision.query is not None else decision.path)[:LONGEST],
        "verdict": _verdict(decision),
        "request": request(entry.input)[:LONGEST],
        "revision": decision.revision[:LONGEST],
        "eval_us": decision.eval_ns / 1000,
    }


def _verdict(decision: Decision) -> str:
    if decision.error is not None:
        return "error"
    if isinstance(decision.result, Undefined):
        return "undefined"
    if is_refusal(decision):
        return "deny"
    return "allow" if decision.result is True or isinstance(decision.result, dict) else "value"


def request(input: Any) -> str:
    """What was asked for, where the input is a request as proxies and daemons describe it."""
    http = _at(input, "attributes", "request", "http")
    for method, path in (
        (_at(http, "method"), _at(http, "path")),
        (_at(input, "method"), _at(input, "path")),
        (_at(input, "Method"), _at(input, "Path")),
    ):
        if isinstance(method, str):
            # What is after the path may be a token.
            shown = path.partition("?")[0] if isinstance(path, str) else ""
            return f"{method} {shown}".strip()
    return ""


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def detail(entry: Entry) -> dict[str, Any]:
    """Everything about one decision; it is made once more, traced, which takes its time."""
    decision = entry.decision
    event: dict[str, Any] = {"path": decision.path}
    if entry.has_input and not isinstance(entry.input, Undefined):
        event["input"] = entry.input
    if not isinstance(decision.result, Undefined):
        event["result"] = decision.result
    shown = hide_credentials(event)
    document: dict[str, Any] = summary(entry) | {
        "has_input": entry.has_input,
        "handler_us": None if entry.handler_ns is None else entry.handler_ns / 1000,
        "hidden": [*shown.get("erased", ()), *shown.get("masked", ())],
    }
    for name in ("input", "result"):
        if name in shown:
            document[name] = _document(shown[name])
    if decision.error is not None:
        document["error"] = error_document(decision.error)
    return document | (_why(entry) if entry.has_input else {})


def _why(entry: Entry) -> dict[str, Any]:
    """The explanation as text, and which definitions and conditions decided."""
    try:
        explanation = entry.decision.explain(entry.snapshot, entry.input, now_ns=entry.time_ns)
    except RegoError as error:
        return {"why": str(error)}
    trail = trail_of(explanation.recorder)
    return {
        "why": explanation.text(),
        "rules": [_location(each) for each in trail.answered],
        "failed": [_location(each) for each in trail.failed],
    }


def _location(location: Any) -> dict[str, Any]:
    fields: dict[str, Any] = location._asdict()
    return fields


def _document(value: Any) -> Any:
    """A value for JSON; a text in its stead where it is too large to be shown."""
    try:
        text = to_json(value)
    except (RegoError, RecursionError):
        return "(nested too deeply to be shown)"
    if len(text) > MAX_DOCUMENT:
        return f"({counted(len(text), 'character')})"
    return to_python(value)
