"""Programs that the real OPA was given: our answers are its answers, but for stated differences."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.conformance.language import DIFFERENCES, PARTS, SETS, fault, part_of
from tests.corpora import MUTANTS, needs
from tests.differences import KINDS, Difference, pin

pytestmark = pytest.mark.long


@cache
def differing(name: str, part: int) -> list[tuple[dict[str, Any], str]]:
    """The rows of a part of a set whose answer is not OPA's, each with how it differs."""
    return [(row, text) for row in part_of(name, part) if (text := fault(row))]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(name, part, marks=needs(MUTANTS) if name == "mutants" else ())
        for name, count in PARTS.items()
        for part in range(count)
    ],
)
def test_answers_are_those_of_opa(name: str, part: int) -> None:
    wrong = [
        f"{row['id']}: {text}"
        for row, text in differing(name, part)
        if not any(d.covers(row, text) for d in DIFFERENCES)
    ]
    assert not wrong, f"{len(wrong)} differ, the first:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("difference", DIFFERENCES, ids=[d.reason[:60] for d in DIFFERENCES])
def test_a_stated_difference_is_one_and_excuses_no_other_answer(difference: Difference) -> None:
    covered = {
        name: [
            (row["id"], text)
            for part in range(PARTS[name])
            for row, text in differing(name, part)
            if difference.covers(row, text)
        ]
        for name in SETS
    }
    pinned = {name: pin(rows) for name, rows in covered.items() if rows}
    missing = set() if MUTANTS.is_file() else {"mutants"}
    assert {k: v for k, v in difference.pinned.items() if k not in missing} == pinned


def test_every_difference_is_of_an_allowed_kind() -> None:
    assert {difference.kind for difference in DIFFERENCES} <= KINDS.keys()
