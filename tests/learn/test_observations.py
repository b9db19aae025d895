"""Cells are counted whatever their order, in bounded memory."""

from __future__ import annotations

import random

import pytest
from tests.learn.logs import access, observed, subject

from doorward.learn import observations
from doorward.learn.access import DENIED, FAILED, Access
from doorward.learn.observations import Cell, LearnError, Observations

ANN, BOB = subject("ann", "clerk"), subject("bob", "clerk")


def many() -> list[Access]:
    rng = random.Random(1)
    return [
        access(
            rng.choice([ANN, BOB]),
            f"/{rng.choice('ab')}/{rng.randrange(50)}",
            day=rng.randrange(9),
            number=number,
            outcome=rng.choice(["allowed", "allowed", "denied", "failed"]),
            parameters=rng.choice([{}, {("query", "of"): "ann"}]),
        )
        for number in range(400)
    ]


def state(counted: Observations) -> object:
    return (
        {shape: dict(cells) for shape, cells in counted.allowed.items() if cells},
        {shape: dict(cells) for shape, cells in counted.denied.items() if cells},
        counted.skipped,
        counted.activity,
        counted.first,
        counted.last,
        counted.events,
        counted.searching,
    )


def test_the_order_of_a_log_and_its_parts_do_not_matter() -> None:
    accesses = many()
    once = observed(accesses)
    shuffled = accesses[:]
    random.Random(2).shuffle(shuffled)
    assert state(observed(shuffled)) == state(once)
    merged = Observations()
    for start in range(0, 400, 70):
        merged.merge(observed(shuffled[start : start + 70]))
    assert state(merged) == state(once)


def test_a_request_without_id_is_no_example_in_any_order() -> None:
    for ids in (["", "b", "a"], ["b", "a", ""], ["a", "", "b"]):
        cell = Cell()
        for each in ids:
            cell.add(0, each)
        assert cell.example == "a"


def test_what_failed_is_neither_use_nor_denial() -> None:
    counted = observed([access(ANN, "/a", outcome=FAILED), access(ANN, "/b", outcome=DENIED)])
    assert not counted.allowed
    assert len(counted.denied) == 1
    assert counted.skipped == {"not successful": 1}


def test_a_subject_that_searches_is_left_out_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "MAX_SHAPES", 20)
    accesses = [access(ANN, f"/w{n}x", number=n) for n in range(60)]
    accesses += [access(BOB, f"/w{n}x", number=100 + n) for n in range(5)]
    for seed in range(3):
        random.Random(seed).shuffle(accesses)
        counted = observed(accesses)
        assert counted.searching == {ANN: 60}
        assert {who for cells in counted.allowed.values() for who in cells} == {BOB}
        assert counted.cells == 5


def test_more_cells_than_memory_may_hold_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "MAX_CELLS", 50)
    with pytest.raises(LearnError, match="--ignore"):
        observed(access(subject(f"u{n}"), "/a") for n in range(60))


def test_only_the_place_of_most_claims_counts() -> None:
    other = subject("eve")._replace(location=(("token", "payload"), ()))
    counted = observed([access(ANN, "/a"), access(BOB, "/a"), access(other, "/a")])
    assert counted.choose_location() == ("envoy", ())
    assert set(counted.activity) == {ANN, BOB}
    assert counted.skipped == {
        "the form of the input, or the place of its claims, is not the usual one": 1
    }
