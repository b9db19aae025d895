"""`?explain=`: why an answer is what it is, in the shape of OPA's answers.

OPA lists the steps of its search. A compiled policy makes no such steps: what was tried and with
which values is told line by line, each as an event that is a note. `why` is ours: one document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from doorward.pdp.snapshot import Snapshot
from doorward.rego import Undefined, Value, from_python
from doorward.rego.golang import marshal, object_text
from doorward.rego.shared import within
from doorward.rest.requests import Parameters

if TYPE_CHECKING:
    from doorward.rego import Explanation

__all__ = ["Mode", "explained", "mode_of"]

Mode: TypeAlias = Literal["notes", "fails", "full", "debug", "why"]
_MODES: Final[tuple[Mode, ...]] = ("notes", "fails", "full", "debug", "why")
_NOTE: Final = {
    "op": marshal("note"),
    "query_id": "0",
    "parent_id": "0",
    "type": marshal(""),
    "node": "null",
    "locals": "[]",
}


def mode_of(parameters: Parameters) -> Mode | None:
    """Return the first valid value of `?explain=`, as in OPA; None if there is none."""
    for value in parameters.values("explain"):
        for mode in _MODES:
            if value == mode:
                return mode
    return None


def explained(
    snapshot: Snapshot,
    query: str,
    input: Value | Undefined,
    mode: Mode,
    *,
    pretty: bool,
) -> str:
    """Return the explanation of a query as JSON, from another, traced evaluation.

    It is a tree for the mode `why`; for the others a list of events or, with `pretty`, of lines of
    text. Raise EvalError past the snapshot's deadline.
    """
    from doorward.rego import explain  # few ask for it

    explanation = explain(snapshot.engine, query, input, deadline=snapshot.deadline)
    with within(snapshot.deadline):
        if mode == "why":
            return marshal(from_python(explanation.to_document()))
        lines = _lines(explanation, mode)
        if pretty:
            # Without any event OPA has one empty line.
            return marshal(from_python(lines or [""]))
        events = [object_text({**_NOTE, "message": marshal(each)}) for each in lines]
        return "[" + ",".join(events) + "]"


def _lines(explanation: Explanation, mode: Mode) -> list[Any]:
    """Return an explanation as lines of text; only the notes of `trace` in mode `notes`."""
    if mode == "notes":
        return list(explanation.notes())
    return list(explanation.text(full=mode != "fails").splitlines())
