"""The benchmark of responses measures what it says."""

from __future__ import annotations

from benchmarks.responses import body_of, measure_cpu


def test_a_response_has_the_size_that_is_named() -> None:
    assert 1_900 < len(body_of(20)) < 2_200


def test_each_decision_takes_time() -> None:
    figures = measure_cpu(calls=1)
    assert len(figures) == 2
    assert all(microseconds > 0 for microseconds in figures.values())
