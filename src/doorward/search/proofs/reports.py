"""Verdicts as text and JSON; a counterexample as a request in curl form and as a test in Rego."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

from doorward.base.counting import counted
from doorward.rego import to_python
from doorward.search import absence_test
from doorward.search.proofs.proving import COUNTEREXAMPLE, NONE_EXISTS, Verdict

__all__ = ["as_json", "lines_of", "text"]


MISSED: Final = 8
"""At most this many conditions that never held are named in a report."""


def text(verdicts: Sequence[Verdict]) -> str:
    """Format the verdicts as text for a terminal."""
    lines = [line for each in verdicts for line in lines_of(each)]
    outcomes = [each.outcome for each in verdicts]
    kinds = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in dict.fromkeys(outcomes))
    total = counted(len(verdicts), "property", "properties")
    return "\n".join([*lines, f"{total}: {kinds}" if verdicts else total]) + "\n"


def lines_of(verdict: Verdict) -> Iterator[str]:
    """Yield the lines for a verdict. A proof is one line. A counterexample is followed by the
    request, as a curl command, and a test in Rego; any other outcome by the reason, the number of
    requests tried and up to `MISSED` of the conditions that never held.
    """
    head = f"{verdict.subject.name} ({verdict.subject.where}): {verdict.outcome}"
    if verdict.outcome == NONE_EXISTS:
        refuted = counted(verdict.conjunctions, "conjunction")
        since = ", by an earlier run: nothing that it reads has changed"
        how = f"{refuted} refuted{since if verdict.is_unchanged else ''}"
        yield f"{head}, for any JSON input and the data given: {how}"
        return
    yield head
    if verdict.outcome == COUNTEREXAMPLE:
        if verdict.missing_data:
            yield f"  the property reads {verdict.missing_data}, which is missing: load its file"
        yield f"  {curl(verdict)}"
        assert verdict.finding is not None  # it is what the outcome says
        yield from [f"  {line}" for line in absence_test(verdict.finding).splitlines()]
        return
    if verdict.reason:
        yield f"  no proof: {verdict.reason}"
    if verdict.left:
        yield f"  not refuted, {verdict.open} of {verdict.conjunctions}: {_short(verdict.left)}"
    if verdict.candidates:
        yield f"  {counted(verdict.candidates, 'request')} tried"
    prefix = f"{verdict.subject.span.file}:"
    missed = [each for each in verdict.reach if not each.holds]
    missed.sort(key=lambda each: not each.where.startswith(prefix))
    for each in missed[:MISSED]:
        yield f"  never held: {each.where} `{_short(each.text)}`"
    if len(missed) > MISSED:
        yield f"  never held: {len(missed) - MISSED} more (--format json names them)"
    if verdict.not_inverted:
        names = ", ".join(sorted(verdict.not_inverted))
        yield f"  conditions on results of {names} can be met by chance only"


def curl(verdict: Verdict) -> str:
    """Return a counterexample as a curl command for a server at `http://localhost:8181`."""
    assert verdict.finding is not None  # asked for counterexamples only
    body = json.dumps({"input": to_python(verdict.finding.input)}, ensure_ascii=False)
    url = "http://localhost:8181/v1/data/" + "/".join(verdict.subject.path)
    return f"curl -d {shlex.quote(body)} {shlex.quote(url)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}…"


def as_json(verdicts: Sequence[Verdict]) -> str:
    """Format the verdicts as an indented JSON array with a line end."""
    return json.dumps([_document(each) for each in verdicts], indent=2, ensure_ascii=False) + "\n"


def _document(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as a document for JSON; `input`, `test` and `curl` only for a
    counterexample.
    """
    document: dict[str, Any] = {
        "property": verdict.subject.name,
        "where": verdict.subject.where,
        "outcome": verdict.outcome,
        "seconds": round(verdict.seconds, 3),
        "conjunctions": verdict.conjunctions,
        "unchanged": verdict.is_unchanged,
        "not_refuted": verdict.open,
        "left": verdict.left,
        "reason": verdict.reason,
        "tried": verdict.candidates,
        "never_held": [
            {"where": each.where, "text": each.text} for each in verdict.reach if not each.holds
        ],
        "not_inverted": sorted(verdict.not_inverted),
    }
    if verdict.finding is not None:
        document["input"] = to_python(verdict.finding.input)
        document["test"] = absence_test(verdict.finding)
        document["curl"] = curl(verdict)
    return document
