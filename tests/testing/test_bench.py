"""Benchmarks of tests: those that pass are measured, the others are reported."""

from __future__ import annotations

import json

from doorward.bundles.loader import Loaded
from doorward.testing import Result, Suite
from doorward.testing.bench import Measured, bench_gobench, bench_json, bench_pretty, measure

TESTS = "package t\n\ntest_good if count(numbers.range(1, 5000)) == 5000\n\ntest_bad if false\n"


def measured(*, memory: bool = False) -> list[Measured | Result]:
    suite = Suite(Loaded({"t.rego": TESTS}))
    return list(measure(suite, suite.tests, seconds=0.01, memory=memory))


def test_what_passes_is_measured_and_what_fails_is_said() -> None:
    good, bad = measured()
    assert isinstance(good, Measured)
    assert good.rounds >= 10
    # It is computed each time and not looked up: counting to 5,000 takes many microseconds.
    assert good.ns_per_round > 2000
    assert isinstance(bad, Result)
    assert bad.outcome == "FAIL"


def test_lines_are_those_that_tools_for_go_read() -> None:
    (good,) = [each for each in measured() if isinstance(each, Measured)]
    name, rounds, figure = bench_gobench([good]).split("\t")
    assert name == "BenchmarkDataTTestGood"
    assert int(rounds) == good.rounds
    assert figure.strip() == f"{good.ns_per_round} ns/op"
    assert bench_pretty([good]).startswith("data.t.test_good\t")
    assert json.loads(bench_json([good]))[0]["ns_per_op"] == good.ns_per_round


def test_the_memory_of_a_test_is_shown_where_it_is_wanted() -> None:
    (good,) = [each for each in measured(memory=True) if isinstance(each, Measured)]
    assert good.memory is not None
    octets, blocks = good.memory
    assert octets > blocks > 0
    figures = bench_gobench([good]).split("\t")[3:]
    assert [each.split() for each in figures] == [
        [str(octets), "B/op"],
        [str(blocks), "allocs/op"],
    ]
    document = json.loads(bench_json([good]))[0]
    assert (document["bytes_per_op"], document["allocs_per_op"]) == (octets, blocks)
