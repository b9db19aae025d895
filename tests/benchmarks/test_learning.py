"""The judge of the learner: what it measures, and the goals on small logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.docker_traffic import docker_world
from benchmarks.learning import Row, learned_from_docker, learned_from_http, page
from benchmarks.traffic import KINDS, WORLDS

ROW = Row("people", 1_000, 1, 1.0, 1.0, 8, 8, {}, (), 1.0, 50.0)


@pytest.mark.parametrize("name", ["people", "nested"])
def test_a_small_log_gives_no_wrong_permission(name: str) -> None:
    row = learned_from_http(WORLDS[name](), 1_000, 1)
    assert row.precision >= 0.97
    assert row.recall > 0.9
    assert all(rank <= 20 for rank in row.ranks)


def test_calls_of_docker_are_learned_and_slow_attackers_come_first() -> None:
    row = learned_from_docker(20_000, 1)
    assert row.precision >= 0.97
    assert row.recall > 0.9
    assert set(row.leaks) <= {"slow"}
    assert row.ranks
    assert max(row.ranks) <= 20


def test_the_truth_of_docker_tells_legitimate_calls_from_attacks() -> None:
    world = docker_world()
    calls = world.calls(2_000, seed=1)
    for each in calls:
        assert world.allows(each.user, each.template) is (each.kind == ""), each
    assert {each.kind for each in calls} == {"", *KINDS}


def test_a_number_that_misses_its_goal_is_bold() -> None:
    assert "| 1.000 | 1.000 |" in page([ROW])
    assert "**0.900**" in page([replace(ROW, precision=0.9)])
    assert "**21**" in page([replace(ROW, ranks=(3, 21))])
    assert "**600**" in page([replace(ROW, peak=600.0)])


def test_the_page_shows_what_was_written() -> None:
    text = Path("docs/learn.md").read_text()
    assert "python -m benchmarks.learning" in text.partition("<!-- learned: begin -->")[2]
