"""The console counts what real decisions reach of the policies in force."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.bundles.loader import Loaded
from doorward.console import Traffic
from doorward.console import traffic as traffics
from doorward.console.together import policies
from doorward.console.traffic import document
from doorward.pdp.pdp import PDP, Tee
from doorward.pdp.snapshot import Settings, Snapshot, build

POLICY = """package app

default allow := false

allow if input.user == "ann"

allow if {
	input.user == "bob"
	never
}

never if input.admin
"""


def counted(text: str = POLICY, **options: Any) -> tuple[PDP, Traffic]:
    traffic = Traffic()
    files = {"p.rego": text}
    return PDP(build(Loaded(files), Settings(marked=True), **options), Tee(traffic, None)), traffic


def shown(traffic: Traffic, snapshot: Snapshot) -> dict[str, Any]:
    """The page of one process."""
    own = traffic.counts(snapshot)
    counts = policies(own, {0: own}, 1)
    assert counts.pop("missing") == []
    return document(snapshot, **counts)


def decide(pdp: PDP, input: Any, path: str = "app/allow") -> None:
    pdp.record(pdp.decide(path, input), input)


def rows(pdp: PDP, traffic: Traffic) -> list[tuple[int, int, int]]:
    definitions = shown(traffic, pdp.snapshot)["files"]["p.rego"]["definitions"]
    return [(each["row"], each["answered"], each["failed"]) for each in definitions]


@pytest.mark.parametrize("patterns", [1, 2_000])
def test_definitions_are_counted(patterns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffics, "PATTERNS", patterns)
    pdp, traffic = counted()
    for user in ("ann", "ann", "bob", "eve"):
        decide(pdp, {"user": user})
    assert rows(pdp, traffic) == [(5, 2, 2), (7, 0, 2), (12, 0, 1)]
    page = shown(traffic, pdp.snapshot)
    assert page["decisions"] == 4
    assert page["files"]["p.rego"]["text"] == POLICY
    assert page["files"]["p.rego"]["definitions"][2]["path"] == "app.never"


def test_other_policies_begin_at_nothing_and_other_data_does_not() -> None:
    pdp, traffic = counted()
    decide(pdp, {"user": "ann"})
    pdp.replace(pdp.snapshot.with_data({"x": 1}, "r2"))
    assert rows(pdp, traffic)[0] == (5, 1, 0)
    pdp.replace(build(Loaded({"p.rego": "package app\n\nallow if input.x"}), Settings(marked=True)))
    assert rows(pdp, traffic) == [(3, 0, 0)]
    decide(pdp, {"x": True})
    assert rows(pdp, traffic) == [(3, 1, 0)]


def test_a_decision_of_earlier_policies_is_not_counted() -> None:
    pdp, traffic = counted()
    late = pdp.decide("app/allow", {"user": "bob"})
    pdp.replace(build(Loaded({"p.rego": "package app\n\nallow if input.x"}), Settings(marked=True)))
    decide(pdp, {"x": True})
    pdp.record(late, {"user": "bob"})
    assert rows(pdp, traffic) == [(3, 1, 0)]


def test_what_notes_nothing_is_not_counted() -> None:
    pdp, traffic = counted()
    pdp.record(pdp.decide_query("1"))
    assert shown(traffic, pdp.snapshot)["decisions"] == 0
    unmarked = build(Loaded({"p.rego": POLICY}))
    assert shown(traffic, unmarked)["files"]["p.rego"]["definitions"] == []


def test_large_programs_are_counted_too() -> None:
    text = "\n".join(["package app", *[f"p{n} if input.n == {n}" for n in range(300)]])
    pdp, traffic = counted(text)
    decide(pdp, {"n": 7}, "app/p7")
    decide(pdp, {"n": 8}, "app/p7")
    assert rows(pdp, traffic)[7] == (9, 1, 1)
    assert sum(answered + failed for _, answered, failed in rows(pdp, traffic)) == 2


def test_conditions_before_one_that_failed_held() -> None:
    pdp, traffic = counted()
    for user in ("ann", "bob", "eve"):
        decide(pdp, {"user": user})
    counts = shown(traffic, pdp.snapshot)["files"]["p.rego"]["rows"]
    assert counts == {5: [1, 2], 8: [1, 1], 9: [0, 1], 12: [0, 1]}


def test_a_definition_without_a_body_is_not_counted() -> None:
    pdp, traffic = counted('package app\n\nallow if user == "ann"\n\nuser := input.user')
    decide(pdp, {"user": "ann"})
    definitions = shown(traffic, pdp.snapshot)["files"]["p.rego"]["definitions"]
    assert {each["path"]: each["counted"] for each in definitions} == {
        "app.allow": True,
        "app.user": False,
    }


def test_properties_are_not_counted() -> None:
    pdp, traffic = counted(f"{POLICY}\nnever_eve if {{\n\tallow\n\tinput.eve\n}}\n")
    definitions = shown(traffic, pdp.snapshot)["files"]["p.rego"]["definitions"]
    by_path = {each["path"]: each["counted"] for each in definitions}
    assert (by_path["app.never"], by_path["app.never_eve"]) == (True, False)
