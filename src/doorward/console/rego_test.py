"""A decision as a test in Rego, to be added to the policies."""

from __future__ import annotations

from typing import Any, Final

from doorward.console.ring import Entry
from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.pdp.snapshot import document_ref
from doorward.rego import RegoError, Undefined, to_rego

__all__ = ["write_test"]

LONGEST: Final = 64 << 10
"""The most characters of a test; a longer one is not offered."""


def write_test(entry: Entry) -> str:
    """Return a Rego module with one test that expects the decision's result for its input,
    credentials masked.

    "" if the decision is of a query or an error, its input was not kept, or the test is too long or
    cannot be written.
    """
    decision = entry.decision
    if decision.query is not None or decision.error is not None or not entry.has_input:
        return ""
    event: dict[str, Any] = {"path": decision.path, "input": entry.input}
    if isinstance(entry.input, Undefined):
        del event["input"]
    if not isinstance(decision.result, Undefined):
        event["result"] = decision.result
    public = hide_credentials(event)
    hidden = [*public.get("erased", ()), *public.get("masked", ())]
    try:
        text = _test(decision.path, public, decision.decision_id)
    except RegoError:
        return ""
    if len(text) > LONGEST:
        return ""
    note = f"# Left out or masked: {', '.join(hidden)}. Put values there.\n" if hidden else ""
    return f"package decisions_test\n\n{note}{text}"


def _test(path: str, event: dict[str, Any], decision_id: str) -> str:
    """Return a Rego test that expects the result in `event` for its input; without a result, that
    the document is undefined.
    """
    reference = document_ref(path)
    name = f"test_decision_{decision_id[:8]}".replace("-", "_")
    with_input = f" with input as {to_rego(event['input'])}" if "input" in event else ""
    if "result" not in event:
        return f"{name} if {{\n\tnot {reference}{with_input}\n}}\n"
    if event["result"] is True:
        return f"{name} if {{\n\t{reference}{with_input}\n}}\n"
    return f"{name} if {{\n\t{reference} == {to_rego(event['result'])}{with_input}\n}}\n"
