"""Tests in several processes: each is a fork of this one, which has compiled everything already.

Threads would take turns. A fork costs milliseconds, so few tests stay in this process, and so do
tests under a debugger or coverage.py, which would not see a fork.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final, NamedTuple

from doorward.rego import EvalError
from doorward.rego.shared import Span
from doorward.testing.cases import Case
from doorward.testing.coverage import Coverage
from doorward.testing.runner import TIMEOUT, Result, Suite, Test, run, run_one

__all__ = ["FEWEST", "run_parallel"]

FEWEST: Final = 200
"""The fewest tests for each process; for fewer, another process takes longer than it saves."""

_CHUNK: Final = 50
"""The number of tests that a process takes at a time."""


class _Job(NamedTuple):
    """The work of a forked process; it is inherited from the parent process."""

    suite: Suite
    tests: Sequence[Test]
    timeout: float | None
    covers: bool


class _SentResult(NamedTuple):
    """The result of one test as a forked process sends it to its parent."""

    passed: bool
    error: tuple[str, str, Span] | None
    duration_ns: int
    output: str
    cases: dict[str, Case]


# Set before the copies are made, which is how they get it: compiled code cannot be sent.
_jobs: Final[list[_Job]] = []


def run_parallel(
    suite: Suite,
    tests: Sequence[Test],
    processes: int,
    *,
    timeout: float | None = TIMEOUT,
    coverage: Coverage | None = None,
) -> Iterator[Result]:
    """Yield the results of `tests` in order, run by up to `processes` forks of this process; in
    this process if there are few tests or a debugger is active. `timeout` is the limit of one test
    in seconds, None for none. Covered rows are added to `coverage`.
    """
    processes = min(processes, len(tests) // FEWEST)
    if processes < 2 or sys.gettrace() is not None:
        yield from run(suite, tests, timeout=timeout, tracer=coverage)
        return
    # Compiled here once, and not in every copy.
    if coverage is not None:
        _ = suite.covered_query
    else:
        traces = any(test.is_table for test in tests)
        _ = suite.query, suite.traced_query if traces else None
    _jobs.append(_Job(suite, tests, timeout, coverage is not None))
    try:
        # Only a fork has the compiled policies; another start method would compile them again.
        copies = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(processes, mp_context=copies) as pool:
            starts = range(0, len(tests), _CHUNK)
            for start, (outcomes, hits) in zip(starts, pool.map(_work, starts), strict=True):
                if coverage is not None:
                    coverage.hits |= hits
                for test, each in zip(tests[start : start + _CHUNK], outcomes, strict=True):
                    yield _result(test, each)
    finally:
        _jobs.pop()


def _work(start: int) -> tuple[list[_SentResult], set[tuple[str, int]]]:
    """Run the chunk of tests that begins at index `start`, in a forked process; return the results
    and the covered rows.
    """
    job = _jobs[-1]
    coverage = Coverage() if job.covers else None
    outcomes = []
    for test in job.tests[start : start + _CHUNK]:
        result = run_one(job.suite, test, timeout=job.timeout, tracer=coverage)
        error = result.error
        failure = None if error is None else (error.code, error.message, error.span)
        outcomes.append(
            _SentResult(
                result.passed, failure, result.duration_ns, result.output, dict(result.cases)
            )
        )
    return outcomes, coverage.hits if coverage is not None else set()


def _result(test: Test, said: _SentResult) -> Result:
    error = None if said.error is None else EvalError(*said.error)
    return Result(test, said.passed, error, said.duration_ns, said.output, said.cases)
