"""Groups, and what chance would bring."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.learn.logs import subject

from doorward.learn.groups import Condition, Groups, expected_distinct, is_unlikely

ROLE = ("claims", "roles")


def test_expected_distinct_is_what_draws_bring() -> None:
    amounts = [1] * 50 + [10] * 20 + [100] * 5
    rng = random.Random(1)
    things = list(range(len(amounts)))
    for draws in (5, 50, 500):
        seen = [len(set(rng.choices(things, amounts, k=draws))) for _ in range(300)]
        assert expected_distinct(amounts, draws) == pytest.approx(sum(seen) / 300, rel=0.05)
    assert expected_distinct([], 10) == 0


@pytest.mark.parametrize(
    ("seen", "draws", "share", "unlikely"),
    [
        (0, 5, 0.5, False),
        (0, 7, 0.5, True),
        (3, 3, 0.1, True),
        (1, 1, 0.02, False),
        (50, 100, 0.5, False),
        (30, 100, 0.5, True),
        (5_000, 10_000, 0.5, False),
        (4_000, 10_000, 0.5, True),
        (0, 0, 0.5, False),
        (3, 3, 1.0, False),
        (2, 3, 1.0, True),
        (1, 3, 0.0, True),
    ],
)
def test_what_chance_hardly_brings_is_unlikely(
    seen: int, draws: int, share: float, unlikely: bool
) -> None:
    assert is_unlikely(seen, draws, share) is unlikely


def test_a_value_of_one_subject_is_no_group() -> None:
    activity = Counter({subject("ann", "clerk", team="a"): 5, subject("bob", "clerk", team="b"): 5})
    groups = Groups.find(activity)
    assert set(groups.members) == {Condition(ROLE, "clerk")}
    assert groups.domains["claims", "team"].keys() == {"a", "b"}


def test_few_who_do_much_have_a_small_spread() -> None:
    clerks = [subject(f"c{n}", "clerk") for n in range(30)]
    groups = Groups.find(Counter(dict.fromkeys(clerks, 20)))
    who = (Condition(ROLE, "clerk"),)
    assert groups.spread(who, 3, 60) < 0.2
    assert groups.spread(who, 25, 60) > 0.9


def test_a_further_condition_is_found_where_nobody_else_did_it() -> None:
    both = [subject(f"c{n}", "clerk", team=f"t{n % 3}") for n in range(30)]
    groups = Groups.find(Counter(dict.fromkeys(both, 20)))
    who = (Condition(ROLE, "clerk"),)
    first = {each: 2 for each in both if each.values[-1][1] == ("t0",)}
    assert groups.refinement(who, first) == Condition(("claims", "team"), "t0")
    assert groups.refinement(who, dict.fromkeys(both, 2)) is None
