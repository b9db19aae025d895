"""Decisions as pages show them: JSON-ready, with everything masked that is a credential."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from doorward.base.counting import counted
from doorward.console import why
from doorward.console.reasons import short_names
from doorward.console.rego_test import write_test
from doorward.console.responses import response_of
from doorward.console.ring import Entry, Ring, Second
from doorward.console.rows import LONGEST, Row, row_of
from doorward.console.why import short_text
from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.pdp.decision import Answered, error_document
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Snapshot, document_ref
from doorward.rego import RegoError, Undefined, to_json, to_python
from doorward.rego.shared import trail_of
from doorward.rego.tools import Call, walk
from doorward.search.changes import smallest_change

__all__ = ["BATCH", "batch", "change_of", "detail", "minute", "revisions", "try_input", "versions"]

BATCH: Final = 100
"""The most decisions in one message to a page."""
EXAMINED: Final = 400
"""The most decisions to which a filter is applied for one message."""
SECONDS: Final = 60
"""The number of seconds whose counts a page gets."""
CHANGING: Final = 1.0
"""The seconds of a search for the smallest change."""
MAX_DOCUMENT: Final = 256 << 10
"""The most characters of an input or result that is displayed; of a larger one only its length is.
"""


def batch(
    ring: Ring, number: int, most: int = BATCH, matches: Callable[[Row], bool] | None = None
) -> dict[str, Any]:
    """Return the newest `most` decisions after `number` that match, the number of the newest, how
    many were left out, and the counts of the last seconds. With `matches` only the newest
    `EXAMINED` are examined.
    """
    entries, skipped, last = ring.after(number, most if matches is None else EXAMINED)
    rows = [row_of(entry) for entry in entries]
    if matches is not None:
        meant = [row for row in rows if matches(row)]
        rows = meant[-most:]
        skipped += len(meant) - len(rows)
    return {
        "last": last,
        "skipped": skipped,
        "decisions": rows,
        "seconds": _seconds(ring.seconds(), int(time.time())),
    }


def _seconds(counts: list[Second], now: int) -> list[list[int]]:
    """Return the counts of each of the last `SECONDS`, the present one last, zeros for one without
    decisions: second, decisions, refusals, errors, mean and longest evaluation in nanoseconds.
    """
    by_second = {each.second: each for each in counts}
    return [_counts(second, by_second.get(second)) for second in range(now - SECONDS + 1, now + 1)]


def _counts(number: int, second: Second | None) -> list[int]:
    """Return the counts of a second as a list: number, decisions, refusals, errors, mean and
    longest evaluation in nanoseconds; zeros for None.
    """
    if second is None:
        return [number, 0, 0, 0, 0, 0]
    mean = second.total_ns // max(second.count, 1)
    return [number, second.count, second.refused, second.errors, mean, second.longest_ns]


def minute(ring: Ring) -> dict[str, Any]:
    """Return the counts of the decisions of the last minute: `decisions`, `refused`, `errors`, and
    the times `mean_us` and `longest_us` in microseconds.
    """
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
    """Return the counts of each revision over time, the newest revision first; times in seconds
    since the epoch. `counted`: from `Ring.revisions`, the minute since the epoch, the revision and
    its counts.
    """
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


def detail(entry: Entry) -> dict[str, Any]:
    """Return all of one decision as JSON, credentials masked.

    If its input was kept, with its explanation: it is evaluated again with a trace, which takes
    time.
    """
    decision = entry.decision
    event: dict[str, Any] = {"path": decision.path}
    if entry.has_input and not isinstance(entry.input, Undefined):
        event["input"] = entry.input
    if not isinstance(decision.result, Undefined):
        event["result"] = decision.result
    public = hide_credentials(event)
    document: dict[str, Any] = row_of(entry) | {
        "has_input": entry.has_input,
        "handler_us": None if entry.handler_ns is None else entry.handler_ns / 1000,
        "hidden": [*public.get("erased", ()), *public.get("masked", ())],
    }
    document |= response_of(decision.custom, decision.erased)
    for name in ("input", "result"):
        if name in public:
            document[name] = _document(public[name])
    if decision.error is not None:
        document["error"] = error_document(decision.error)
    return document | (_why(entry) if entry.has_input else {})


def _why(entry: Entry) -> dict[str, Any]:
    """Return the explanation of a decision as text and as a tree, the conditions that refused it,
    and a test in Rego; only the error as `why` if it cannot be evaluated again.
    """
    policies = entry.snapshot.engine.policies
    names = short_names(policies)
    try:
        explanation = entry.decision.explain(entry.snapshot, entry.input, now_ns=entry.time_ns)
    except RegoError as error:
        return {"why": short_text(str(error), names)}
    trail = trail_of(explanation.recorder)
    places = [each._replace(file=names.get(each.file, each.file)) for each in trail.failed]
    return {
        "failed": [each._asdict() for each in places],
        "why": short_text(explanation.text(), names),
        "test": write_test(entry),
        **why.document(explanation, policies, names),
    }


def try_input(pdp: PDP, path: str, input: Any, *, changes: bool) -> dict[str, Any]:
    """Return the decision of the policies in force on an input, explained; it is not logged or
    counted. `changes` adds the smallest change of the input that would be allowed.
    """
    snapshot, now_ns = pdp.snapshot, time.time_ns()
    decision = pdp.decide(path, input)
    _verify_token(snapshot, path, input, now_ns)
    answered = Answered(decision, input, snapshot, time_ns=now_ns)
    entry = Entry(0, answered, 0, has_input=True)
    entry_detail = detail(entry)
    if changes and not decision.allowed:
        entry_detail["change"] = change_of(entry)
    return entry_detail


def _verify_token(snapshot: Snapshot, path: str, input: Any, now_ns: int) -> None:
    """Evaluate the package of a path, so that a token that its policies verify is known as
    verified, although the decision may not need it. Does nothing if the policies call http.send,
    which would contact another server.
    """
    engine = snapshot.engine
    nodes = (node for tree in engine.trees.values() for node in walk(tree))
    if any(isinstance(node, Call) and node.name == "http.send" for node in nodes):
        return
    with suppress(RegoError):
        package = document_ref(path.rpartition("/")[0])
        engine.prepare(package, deadline=snapshot.deadline).answer(input, now_ns=now_ns)


def versions(ring: Ring) -> list[dict[str, Any]]:
    """Return the last versions of policies that decided (`ring.versions`), the newest first, with
    milliseconds since the epoch.
    """
    return [
        {"revision": each.revision[:LONGEST], "since_ms": each.since_ms} for each in ring.versions()
    ]


def change_of(entry: Entry, path: str = "") -> dict[str, Any]:
    """Return, as JSON, the smallest change of the input with which a refused decision would be
    true, searched for `CHANGING` seconds (`found` is False if there is none); `error` if there is
    nothing to change or the evaluation fails. `path` is the document that must be true, "" for the
    one that was decided on.
    """
    decision = entry.decision
    if decision.query is not None or not entry.has_input or decision.allowed:
        return {
            "error": "a change can be found only for a refused decision about a document, with its "
            "input"
        }
    names = (path or decision.path).split("/")
    input = {} if isinstance(entry.input, Undefined) else entry.input
    try:
        change = smallest_change(
            entry.snapshot.engine, names, input, now_ns=entry.time_ns, seconds=CHANGING
        )
    except RegoError as error:
        return {"error": str(error)}
    return change.document() | {"text": change.text()}


def _document(value: Any) -> Any:
    """Return a value as JSON; a text in its place if it is too large or nested too deeply."""
    try:
        text = to_json(value)
    except (RegoError, RecursionError):
        return "(nested too deeply to be shown)"
    if len(text) > MAX_DOCUMENT:
        return f"({counted(len(text), 'character')})"
    return to_python(value)
