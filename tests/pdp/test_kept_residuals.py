"""A filter that was made before is not made again, as long as its policies and data are active."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.bundles.loader import Loaded
from doorward.pdp import kept_residuals
from doorward.pdp.pdp import PDP
from doorward.pdp.residuals import residual_of_rows
from doorward.pdp.snapshot import build
from doorward.rego import Partial, PartialQuery

POLICY = """package app

default allow := false

allow if input.row.owner == input.user

allow if {
	input.row.team in data.teams
	input.user == "ann"
}

late if input.row.at < time.now_ns()
"""


@pytest.fixture
def pdp() -> PDP:
    return PDP(build(Loaded({"p.rego": POLICY}, {"teams": ["red"]})))


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that were evaluated partially."""
    queries: list[str] = []
    evaluate = PartialQuery.evaluate

    def noted(question: PartialQuery, *arguments: Any, **options: Any) -> Partial:
        queries.append(question.text)
        return evaluate(question, *arguments, **options)

    monkeypatch.setattr(PartialQuery, "evaluate", noted)
    return queries


def rows(pdp: PDP, input: Any, path: str = "app/allow") -> tuple[str, ...]:
    left = residual_of_rows(pdp.snapshot, pdp.build_gate, path, ["input.row"], input)
    return left.query_texts


def test_the_same_question_is_answered_from_memory(pdp: PDP, evaluated: list[str]) -> None:
    first = rows(pdp, {"user": "ann", "x": 1})
    assert rows(pdp, {"x": 1, "user": "ann"}) == first
    assert evaluated == ["data.app.allow"]
    assert rows(pdp, {"user": "bob"}) != first
    assert rows(pdp, {"user": "ann", "x": True}) == first
    assert len(evaluated) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [([1], frozenset({1})), (1, True), (1, "1"), (None, "null"), ({}, frozenset()), ([], {})],
)
def test_values_of_different_types_are_different_questions(
    one: Any, other: Any, pdp: PDP, evaluated: list[str]
) -> None:
    for _ in range(2):
        for value in (one, other):
            rows(pdp, {"user": value})
    assert len(evaluated) == 2


def test_other_data_and_other_policies_are_asked_anew(pdp: PDP, evaluated: list[str]) -> None:
    first = rows(pdp, {"user": "ann"})
    pdp.replace(pdp.snapshot.with_data({"teams": ["blue"]}, "r2"))
    assert rows(pdp, {"user": "ann"}) != first
    pdp.replace(build(Loaded({"p.rego": "package app\n\nallow if input.row.open"})))
    assert rows(pdp, {"user": "ann"}) == ("input.row.open",)
    assert len(evaluated) == 3


def test_the_clock_stays_in_what_is_kept(pdp: PDP) -> None:
    (query,) = rows(pdp, {"user": "ann"}, "app/late")
    assert "time.now_ns" in query


def test_what_is_kept_is_bounded(
    pdp: PDP, evaluated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_residuals, "MOST", 4)
    for user in ["ann", "b", "c", "ann", "d", "ann", "e", "f", "ann"]:
        rows(pdp, {"user": user})
    assert len(evaluated) == 6  # what is used stays
    kept = pdp.snapshot.kept_residuals
    assert len(kept._newest) + len(kept._before) <= 5
    for _ in range(2):
        rows(pdp, {"user": "x" * 10_000})
    assert len(evaluated) == 8
    monkeypatch.setattr(kept_residuals, "LARGEST", 0)
    for _ in range(2):
        rows(pdp, {"user": "z"})
    assert len(evaluated) == 10
