"""The last decisions are kept, and never more than there is room for."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.bundles.loader import Loaded
from doorward.console import Ring
from doorward.console import ring as rings
from doorward.console.rows import row_of
from doorward.console.views import batch, detail, revisions
from doorward.pdp.decision import Answered, Decision, DecisionError
from doorward.pdp.pdp import PDP, Tee
from doorward.pdp.snapshot import build
from doorward.rego import UNDEFINED

POLICY = """package app

default allow := false

allow if {
	input.method == "GET"
	input.user == "ann"
}

answer := {"allowed": false}
"""


def test_what_each_revision_decided_is_counted_by_the_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rings, "MINUTES", 3)
    ring, pdp = Ring(), PDP(build(Loaded({"p.rego": POLICY})))
    decided = [("v1", 0), ("v1", 30), ("v1", 60), ("v2", 61), ("v2", 180)]
    for revision, second in decided:
        decision = pdp.decide("app/allow", {"user": "bob"})._replace(revision=revision)
        ring.observe(Answered(decision, {}, pdp.snapshot, None, None, 10, second * 10**9))
    assert [(minute, count) for minute, _, (count, *_) in ring.revisions()] == [
        (1, 1),
        (1, 1),
        (3, 1),
    ]
    newest, oldest = revisions(ring.revisions())
    assert newest["revision"] != oldest["revision"]
    assert (newest["decisions"], newest["refused"], newest["errors"]) == (2, 2, 0)
    assert newest["minutes"] == [[60, 1, 1, 0], [180, 1, 1, 0]]
    assert (oldest["from"], oldest["to"]) == (60, 60)


class Log:
    """A decision log that counts."""

    def __init__(self) -> None:
        self.records: list[Decision] = []
        self.is_closed = False

    def record(self, answered: Answered) -> None:
        self.records.append(answered.decision)

    def close(self) -> None:
        self.is_closed = True


def watched(**options: Any) -> tuple[PDP, Ring, Log]:
    ring, log = Ring(**options), Log()
    return PDP(build(Loaded({"p.rego": POLICY})), Tee(ring, log)), ring, log


def decide(pdp: PDP, input: Any, path: str = "app/allow", size: int = 0) -> Decision:
    decision = pdp.decide(path, input)
    pdp.record(decision, input, size=size)
    return decision


def test_the_log_gets_what_the_ring_gets() -> None:
    pdp, ring, log = watched()
    decision = decide(pdp, {"user": "ann"})
    pdp.close()
    assert log.records == [decision]
    assert log.is_closed
    assert ring.get(decision.decision_id) is not None


def test_the_oldest_go_where_there_are_too_many_or_too_large_ones() -> None:
    pdp, ring, _ = watched(decisions=3, limit=10_000)
    first = decide(pdp, {})
    for _ in range(3):
        decide(pdp, {}, size=100)
    assert ring.get(first.decision_id) is None
    assert ring.after(0, 10)[1] == 1
    last = decide(pdp, {}, size=9_950)
    entries, skipped, _ = ring.after(0, 10)
    assert [entry.decision for entry in entries] == [last]
    assert skipped == 4


def test_an_input_that_is_too_large_is_not_kept() -> None:
    pdp, ring, _ = watched()
    decision = decide(pdp, {"user": "ann"}, size=rings.LARGE + 1)
    entry = ring.get(decision.decision_id)
    assert entry is not None
    assert entry.input is UNDEFINED
    shown = detail(entry)
    assert shown["has_input"] is False
    assert "why" not in shown


def test_a_page_gets_the_newest_and_how_many_it_missed() -> None:
    pdp, ring, _ = watched()
    for number in range(150):
        decide(pdp, {"method": "GET", "path": f"/{number}?token=x"})
    document = batch(ring, 10)
    assert document["last"] == 150
    assert document["skipped"] == 40
    assert [each["number"] for each in document["decisions"]] == list(range(51, 151))
    assert document["decisions"][-1]["request"] == "GET /149"
    assert sum(each[1] for each in document["seconds"]) == 150
    assert batch(ring, 150)["decisions"] == []


@pytest.mark.parametrize(
    ("path", "input", "verdict"),
    [
        ("app/allow", {"method": "GET", "user": "ann"}, "allow"),
        ("app/allow", {}, "deny"),
        ("app/answer", {}, "deny"),
        ("app/nothing", {}, "undefined"),
    ],
)
def test_an_answer_is_named(path: str, input: Any, verdict: str) -> None:
    pdp, ring, _ = watched()
    decide(pdp, input, path)
    assert row_of(ring.after(0, 1)[0][0])["verdict"] == verdict


def test_an_error_is_shown_as_one() -> None:
    pdp, ring, _ = watched()
    decision = pdp.decide("app/allow", {})._replace(error=DecisionError("broken"))
    pdp.record(decision, {})
    entry = ring.after(0, 1)[0][0]
    assert row_of(entry)["verdict"] == "error"
    assert detail(entry)["error"] == {"message": "broken"}
    assert ring.seconds()[-1].errors == 1


def test_one_decision_is_explained_with_everything_masked() -> None:
    pdp, ring, _ = watched()
    secret = "hunter2hunter2"
    decision = decide(pdp, {"method": "GET", "user": "eve", "password": secret})
    entry = ring.get(decision.decision_id)
    assert entry is not None
    shown = detail(entry)
    assert secret not in str(shown)
    assert shown["hidden"] == ["/input/password"]
    assert shown["input"] == {"method": "GET", "user": "eve"}
    assert '`input.user == "ann"` does not hold' in shown["why"]
    assert [each["row"] for each in shown["failed"]] == [7]


def test_a_page_goes_on_where_a_process_is_started_again() -> None:
    pdp = PDP(build(Loaded({"p.rego": POLICY})))
    decision = pdp.decide("app/allow", {})
    ring = Ring(start=1_000)
    assert ring.after(0, 10) == ([], 0, 1_000)
    for _ in range(3):
        ring.observe(Answered(decision, {}, pdp.snapshot, None, None, 10, 0))
    for number in (0, 17, 999, 1_000, 5_000):
        entries, skipped, last = ring.after(number, 2)
        assert [each.number for each in entries] == [1_002, 1_003]
        assert (skipped, last) == (1, 1_003)
    assert ring.after(1_003, 2) == ([], 0, 1_003)
