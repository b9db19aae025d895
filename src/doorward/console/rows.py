"""One row of the list of decisions: the request, the caller, the verdict, and what refused it.

A row is made at the first request for it, and kept with its decision.
"""

from __future__ import annotations

from typing import Any, Final

from doorward.console.callers import caller_of
from doorward.console.reasons import Noted, Reader
from doorward.console.ring import Entry, is_refusal
from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.pdp.decision import Answered, Decision
from doorward.rego import RegoError, Undefined
from doorward.rego.shared import mask_credentials

__all__ = ["LONGEST", "Row", "note_for_log", "request", "row_of", "verdict"]

LONGEST: Final = 200
"""The characters to which texts in a row are cut."""
Row = dict[str, Any]
"""A row as JSON; `row_of` lists its fields."""

_REASONS: Final = ("reason", "message", "msg", "deny", "reasons", "denials")
"""The members of a result in which policies give their reason, in order of preference."""
_reader: Final = Reader()


def row_of(entry: Entry) -> Row:
    """Return the row of a decision as JSON, made once; `failed` are the conditions that refused
    it.
    """
    if entry.row is None:
        entry.row = _row(entry)
    return entry.row


def _row(entry: Entry) -> Row:
    """Return one decision as a row of the list, with texts cut and credentials masked."""
    decision, engine = entry.decision, entry.snapshot.engine
    answer = verdict(decision)
    noted = _reader.read(decision.path, decision.marks)
    caller = caller_of(entry.input, engine.environment)
    return {
        "number": entry.number,
        "id": decision.decision_id,
        "time_ms": entry.time_ns // 1_000_000,
        "path": (decision.query if decision.query is not None else decision.path)[:LONGEST],
        "verdict": answer,
        "request": request(entry.input)[:LONGEST],
        "user": caller.user,
        "role": caller.role,
        "reason": _reason(decision, decision.result, noted)[:LONGEST],
        "rules": list(noted.rules),
        "failed": [each._asdict() for each in noted.failed],
        "revision": decision.revision[:LONGEST],
        "eval_us": decision.eval_ns / 1000,
    }


def note_for_log(answered: Answered, input: Any, result: Any) -> dict[str, str]:
    """Return the caller, the reason and the revision of a decision for its event in the log,
    without empty ones, cut and with credentials masked. `input` and `result` are what the mask
    policy leaves of them.
    """
    decision, engine = answered.decision, answered.snapshot.engine
    caller = caller_of(input, engine.environment)
    noted = _reader.read(decision.path, decision.marks)
    note = {
        "user": caller.user,
        "role": caller.role,
        "reason": _reason(decision, result, noted)[:LONGEST],
        "revision": decision.revision[:LONGEST],
    }
    return {name: mask_credentials(text) for name, text in note.items() if text}


def verdict(decision: Decision) -> str:
    """Return `error`, `undefined`, `deny` (false, or an object that has `allowed`, `allow` or
    `decision`, none of them true), `allow` (true, or any other object), or `value` for any other
    result.
    """
    if decision.error is not None:
        return "error"
    if isinstance(decision.result, Undefined):
        return "undefined"
    if is_refusal(decision):
        return "deny"
    return "allow" if decision.result is True or isinstance(decision.result, dict) else "value"


def _reason(decision: Decision, result: Any, noted: Noted) -> str:
    """Return the reason of a refusal: the error, the policy's own reason in its result, or the
    conditions that failed. "" for other verdicts.
    """
    if verdict(decision) in ("allow", "value"):
        return ""
    if isinstance(decision.error, RegoError):
        return decision.error.diagnostics[0].text
    if decision.error is not None:
        return mask_credentials(str(decision.error))
    return _text(result) or noted.reason


def _text(result: Any) -> str:
    """Return the reason in a policy's result, with credentials masked; "" if it has none."""
    if not isinstance(result, dict):
        return ""
    for name in _REASONS:
        value = result.get(name)
        items = sorted(value, key=str) if isinstance(value, frozenset) else value
        texts = items if isinstance(items, list) else [items]
        known = [each for each in texts if isinstance(each, str) and each]
        if known:
            masked = hide_credentials({"path": "", "result": {name: "; ".join(known)}})
            return str(masked["result"].get(name, ""))
    return ""


def request(input: Any) -> str:
    """Return the HTTP, Docker or AuthZEN request in an input as a short text, `GET /people` without
    its query; "" for another input.
    """
    http = _at(input, "attributes", "request", "http")
    for method, path in (
        (_at(http, "method"), _at(http, "path")),
        (_at(input, "method"), _at(input, "path")),
        (_at(input, "Method"), _at(input, "Path")),
    ):
        if isinstance(method, str):
            # What is after the path may be a token.
            if isinstance(path, list):
                path = "/" + "/".join([each for each in path if isinstance(each, str)])
            target = path.partition("?")[0] if isinstance(path, str) else ""
            return f"{method} {target}".strip()
    return _authzen(input)


def _authzen(input: Any) -> str:
    """Return a request with `action` and `resource`, as AuthZEN has it, as text, `read document 1`;
    "" for an input without an action.
    """
    action, resource = _at(input, "action"), _at(input, "resource")
    action = _at(action, "name") if isinstance(action, dict) else action
    if not isinstance(action, str):
        return ""
    if isinstance(resource, dict):
        parts = [resource.get("type"), resource.get("id")]
        resource = " ".join([each for each in parts if isinstance(each, str)])
    return f"{action} {resource}".strip() if isinstance(resource, str) else action


def _at(value: Any, *names: str) -> Any:
    """The value below the keys `names`, one after the other; None if one is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
