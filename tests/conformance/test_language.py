"""Programs that the real OPA was given: our answers are its answers, but for stated differences."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.language import DIFFERENCES, FILE, fault, rows

SIZE = 500
ROWS = rows()
PARTS = [
    pytest.param(found[start : start + SIZE], id=f"{group}-{start // SIZE}")
    for group, found in ROWS.items()
    for start in range(0, len(found), SIZE)
]

pytestmark = pytest.mark.skipif(not ROWS, reason=f"no recorded programs at `{FILE}`")


@pytest.mark.parametrize("part", PARTS)
def test_answers_are_those_of_opa(part: list[dict[str, Any]]) -> None:
    wrong = []
    for row in part:
        found = fault(row)
        if found is not None and not any(d.covers(row, found) for d in DIFFERENCES):
            wrong.append(f"{row['id']}: {found}")
    assert not wrong, f"{len(wrong)} of {len(part)} differ, the first:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("difference", DIFFERENCES, ids=[d.reason[:60] for d in DIFFERENCES])
def test_a_stated_difference_is_one(difference: Any) -> None:
    candidates = (
        row for group, found in ROWS.items() for row in found if difference.may_concern(row)
    )
    assert any((found := fault(row)) and difference.covers(row, found) for row in candidates)
