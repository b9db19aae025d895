"""Tests in several processes: the same results, in the same order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doorward.bundles.loader import Loaded
from doorward.testing import Coverage, Result, Suite, parallel, run
from doorward.testing.parallel import run_parallel

TESTS = "package t\n\n" + "\n\n".join(
    [f'test_{n} if {{\n\tprint("at {n}")\n\t{n} % 3 != 0\n}}' for n in range(120)]
    + ["test_odd if data.t.two", "two := 1", "two := 2", "todo_test_x if true"]
    + ['test_table[name] if {\n\tsome name, x in {"a": 1, "b": 2}\n\tx == 1\n}']
)


def plain(result: Result) -> object:
    error = None if result.error is None else str(result.error)
    return replace(result, duration_ns=0, error=None), error


@pytest.fixture
def suite() -> Suite:
    return Suite(Loaded({"t.rego": TESTS}))


@pytest.mark.system
def test_results_are_those_of_one_process(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "FEWEST", 40)
    one, several = Coverage(), Coverage()
    alone = [plain(result) for result in run(suite, tracer=one)]
    together = list(run_parallel(suite, suite.tests, 2, coverage=several))
    assert [plain(result) for result in together] == alone
    assert several.hits == one.hits


def test_few_tests_stay_in_this_process(suite: Suite) -> None:
    list(run_parallel(suite, suite.tests[:1], 8))
    assert suite.output == ["at 0\n"]
