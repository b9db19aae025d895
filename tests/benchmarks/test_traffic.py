"""Generated traffic: legitimate requests are allowed by the truth, attacks are not."""

from __future__ import annotations

import io
import json
import random
from collections import Counter

import pytest

from benchmarks.traffic import KINDS, WORLDS, event, traffic, write


@pytest.mark.parametrize("name", WORLDS)
def test_the_truth_tells_legitimate_requests_from_attacks(name: str) -> None:
    world = WORLDS[name]()
    requests = traffic(world, 3_000, seed=1)
    for each in requests:
        assert world.allows(each.user, each.method, each.path) is (each.kind == ""), each
    kinds = Counter(each.kind for each in requests)
    assert kinds[""] >= 2_960
    expected = set(KINDS) if name != "rbac" else set(KINDS) - {"cross"}  # nothing has owners there
    assert expected <= set(kinds)


@pytest.mark.parametrize("name", WORLDS)
def test_the_request_space_has_both_answers(name: str) -> None:
    world, rng = WORLDS[name](), random.Random(1)
    answers = Counter(
        world.allows(each.user, each.method, each.path)
        for each in (world.anything(rng) for _ in range(2_000))
    )
    assert min(answers[True], answers[False]) > 20


def test_the_same_seed_makes_the_same_traffic() -> None:
    world = WORLDS["nested"]()
    first, second = (traffic(world, 500, seed=3) for _ in range(2))
    assert first == second
    assert first != traffic(world, 500, seed=4)
    assert [each.time for each in first] == sorted(each.time for each in first)


@pytest.mark.parametrize("form", ["doorward", "opa", "access"])
def test_a_log_has_a_line_for_each_request(form: str) -> None:
    requests = traffic(WORLDS["people"](), 50, seed=1)
    file = io.StringIO()
    assert write(requests, file, form) == len(requests)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert lines[0] == event(requests[0], 1, form)


@pytest.mark.parametrize("form", ["doorward", "opa", "access"])
def test_denied_requests_are_those_that_the_truth_denies(form: str) -> None:
    world = WORLDS["nested"]()
    requests = traffic(world, 1_000, seed=1, denied=0.1)
    denied = [each for each in requests if each.kind == "denied"]
    assert 90 <= len(denied) <= 110
    for each in denied:
        assert not world.allows(*each[:3])
        line = event(each, 1, form)
        assert line.get("result", line.get("response_code")) in (False, 403)
