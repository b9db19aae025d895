"""Programs that the real OPA was given: our answers are its answers, but for stated differences."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.language import DIFFERENCES, SETS, fault, rows
from tests.corpora import MISSING, MUTANTS, needs
from tests.differences import KINDS

pytestmark = pytest.mark.long

SIZE = 500
ROWS = {name: rows(name) for name in SETS}
PARTS = [
    pytest.param(group_rows[start : start + SIZE], id=f"{name}-{group}-{start // SIZE}")
    for name, groups in ROWS.items()
    for group, group_rows in groups.items()
    for start in range(0, len(group_rows), SIZE)
]
if not MUTANTS.is_file():
    PARTS.append(pytest.param([], id="mutants", marks=needs(MUTANTS)))


@pytest.mark.parametrize("part", PARTS)
def test_answers_are_those_of_opa(part: list[dict[str, Any]]) -> None:
    wrong = []
    for row in part:
        difference = fault(row)
        if difference and not any(d.covers(row, difference) for d in DIFFERENCES):
            wrong.append(f"{row['id']}: {difference}")
    assert not wrong, f"{len(wrong)} of {len(part)} differ, the first:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("difference", DIFFERENCES, ids=[d.reason[:60] for d in DIFFERENCES])
def test_a_stated_difference_is_one(difference: Any) -> None:
    candidates = (
        row
        for groups in ROWS.values()
        for group_rows in groups.values()
        for row in group_rows
        if difference.may_concern(row)
    )
    if not any((text := fault(row)) and difference.covers(row, text) for row in candidates):
        assert not MUTANTS.is_file()
        pytest.skip(MISSING)  # some differences are seen with mutants only


def test_every_difference_is_of_an_allowed_kind() -> None:
    assert {difference.kind for difference in DIFFERENCES} <= KINDS.keys()
