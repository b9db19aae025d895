"""The oracle says what OPA said; DOORWARD_ORACLE=all asks it all programs, not only a sample."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import pytest
from tests.conformance import language, suite
from tests.corpora import SUITE, needs
from tests.differences import load
from tests.oracle.asking import Oracle, OutOfScopeError
from tests.oracle.recorded import answer, ask, is_in_scope, sample

pytestmark = pytest.mark.long

SHARES: Final = {"negation": 2, "heads": 1, "with": 1, "language": 8, "mutants": 8}
"""One row in so many is asked in each set, unless all are."""

DIFFERENCES: Final = (*language.DIFFERENCES, *load("oracle"))


@cache
def sampled(name: str) -> list[dict[str, Any]]:
    return sample([row for row in language.rows(name) if is_in_scope(row)], "id", SHARES[name])


@pytest.mark.parametrize(("name", "part"), [(name, part) for name in SHARES for part in range(4)])
def test_answers_are_those_of_opa(name: str, part: int) -> None:
    wrong = []
    rows = sampled(name)[part::4]
    for row in rows:
        try:
            fault = language.fault(row, answer)
        except OutOfScopeError:
            continue
        # Whether the error is the same is told by its code; the texts are the engine's business.
        if fault is None or fault.startswith("other message"):
            continue
        if not any(d.covers(row, fault) for d in DIFFERENCES):
            wrong.append(f"{row['id']}: {fault}")
    assert not wrong, f"{len(wrong)} of {len(rows)} differ, the first:\n" + "\n".join(wrong[:10])


@needs(SUITE)
def test_answers_are_those_of_the_suite() -> None:
    wrong = []
    cases = [case.values[0] for case in suite.parameters() if case.values[0] is not None]
    for case in sample([case for case in cases if is_in_scope(case)], "note", 2):
        fault = suite.fault(case, ask)
        # Where in the policy an error is, the oracle does not know.
        text = case.get("want_error", "no error").rpartition(".rego:")[2].partition(": ")[2]
        if fault is not None and (not text or text not in fault.partition(", got ")[2]):
            wrong.append(f"{case['note']}: {fault}")
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.parametrize("mock", ["lower", "json.is_valid", "3"])
def test_a_built_in_that_stands_in_for_a_function_is_not_a_variable(mock: str) -> None:
    oracle = Oracle({"m.rego": "package lib\n\nu(_) := 1"})
    query = f"input.b with data.lib.u as {mock}"
    assert oracle.answers(query, {"b": {}}) == [{"": {}}]
