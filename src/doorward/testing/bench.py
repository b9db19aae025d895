"""Benchmarks of tests: each is evaluated repeatedly for a moment, without cached results.

A test that does not pass is not measured: the time that it takes to fail means nothing.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Final

from doorward.base.records import record
from doorward.rego.golang import indent, marshal, object_text
from doorward.testing.runner import Result, Suite, Test, run_one

__all__ = ["Measured", "bench_gobench", "bench_json", "bench_pretty", "measure"]

SECONDS: Final = 0.2
"""The seconds for which each test is run."""

_ROUNDS: Final = 10
"""The number of runs between two checks of the time."""


@record
class Measured:
    """A test that passed, with the number of its runs (`rounds`) and their total time in
    nanoseconds.
    """

    test: Test
    rounds: int
    total_ns: int
    memory: tuple[int, int] | None = None
    """The bytes and memory blocks that one run holds at its end; None if they were not measured."""

    @property
    def ns_per_round(self) -> int:
        """The nanoseconds of one run, on average."""
        return self.total_ns // self.rounds


def measure(
    suite: Suite, tests: Sequence[Test], *, seconds: float = SECONDS, memory: bool = False
) -> Iterator[Measured | Result]:
    """Yield, for each test, its time after about `seconds` of runs, with `memory` also its memory;
    for a test that does not pass yield its result instead.
    """
    for test in tests:
        result = run_one(suite, test)
        yield _measure_test(suite, test, seconds, memory=memory) if result.passed else result


def _measure_test(suite: Suite, test: Test, seconds: float, *, memory: bool) -> Measured:
    """Run a test repeatedly for `seconds`, at least `_ROUNDS` times, and return its rounds and
    time, and with `memory` the memory that it uses.
    """
    query = suite.query
    rounds = 0
    started = time.perf_counter_ns()
    end = started + int(seconds * 1e9)
    while not rounds or time.perf_counter_ns() < end:
        for _ in range(_ROUNDS):
            evaluation = query.evaluation()
            # What depends on data alone would be computed once and then only looked up.
            evaluation.constants = {}
            query.document_of(evaluation, test.path)
        rounds += _ROUNDS
        suite.forget()
    spent = time.perf_counter_ns() - started
    return Measured(test, rounds, spent, _memory(suite, test) if memory else None)


def _memory(suite: Suite, test: Test) -> tuple[int, int]:
    """Return the bytes and memory blocks that one run of a test holds at its end. Traces memory
    meanwhile, which is slow.
    """
    tracemalloc.start()
    try:
        evaluation = suite.query.evaluation()
        evaluation.constants = {}
        answer = suite.query.document_of(evaluation, test.path)
        sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
        del answer
    finally:
        tracemalloc.stop()
    return sum(sizes), len(sizes)


def bench_pretty(measured: Sequence[Measured]) -> str:
    """Format the measurements for people, one test a line: name, rounds, ns/op and, if measured,
    memory.
    """
    width = max((len(str(each.test)) for each in measured), default=0)
    return "".join(
        [f"{each.test!s:<{width}}\t{_go_columns(each)}\n" for each in measured],
    )


def bench_gobench(measured: Sequence[Measured]) -> str:
    """Format the measurements as Go's benchmarks print them, for tools that compare such lines."""
    return "".join([f"Benchmark{_camel(each.test)}\t{_go_columns(each)}\n" for each in measured])


def bench_json(measured: Sequence[Measured]) -> str:
    """Format the measurements as an indented JSON list of `package`, `name`, `rounds`, `ns_per_op`
    and, if measured, memory.
    """
    documents = [
        object_text(
            {
                "package": marshal(each.test.package),
                "name": marshal(each.test.name),
                "rounds": str(each.rounds),
                "ns_per_op": str(each.ns_per_round),
                **_memory_fields(each),
            }
        )
        for each in measured
    ]
    return indent("[" + ",".join(documents) + "]", "", "  ") + "\n"


def _memory_fields(measured: Measured) -> dict[str, str]:
    """Return the fields for allocated bytes and blocks; {} if they were not measured."""
    if measured.memory is None:
        return {}
    octets, blocks = measured.memory
    return {"bytes_per_op": str(octets), "allocs_per_op": str(blocks)}


def _go_columns(measured: Measured) -> str:
    """Return rounds, ns/op and, if measured, B/op and allocs/op in the format of Go's
    benchmarks.
    """
    figures = f"{measured.rounds:8d}\t{measured.ns_per_round:10d} ns/op"
    if measured.memory is None:
        return figures
    octets, blocks = measured.memory
    return f"{figures}\t{octets:8d} B/op\t{blocks:8d} allocs/op"


def _camel(test: Test) -> str:
    """Return a test's name for Go's format: `data.authz_test.test_allow` ->
    `DataAuthzTestTestAllow`.
    """
    parts = str(test).replace("#", "_").replace(".", "_").split("_")
    return "".join([part[:1].upper() + part[1:] for part in parts])
