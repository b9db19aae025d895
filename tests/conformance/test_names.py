"""Every way to bind a name that can shadow another one: our answers are OPA's."""

from __future__ import annotations

import pytest
from tests.conformance.names import answer, recorded, rows
from tests.oracle.asking import Oracle

from doorward.rego import UNDEFINED, Engine

pytestmark = pytest.mark.long

ROWS = rows()


def test_answers_are_those_of_opa() -> None:
    wrong = [
        f"{row['id']}: want {want}, got {got}"
        for row in ROWS
        if (got := answer(row)) != (want := recorded(row))
    ]
    assert not wrong, f"{len(wrong)} of {len(ROWS)} differ, the first:\n" + "\n".join(wrong[:10])


def test_the_oracle_says_the_same() -> None:
    wrong = []
    for row in ROWS:
        want = recorded(row)
        if "errors" not in want:
            oracle = Oracle(row["modules"], {}, v0=row["dialect"] == "v0")
            rows_of = oracle.answers(row["query"], row["input"])
            got = {"value": rows_of[0][""]} if rows_of else {"undefined": True}
            wrong += [f"{row['id']}: want {want}, got {got}"] if got != want else []
    assert not wrong, f"{len(wrong)} of {len(ROWS)} differ, the first:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ('some input in [{"user": "ann"}]; input.user == "ann"', False),
        ('some input in [{"user": "eve"}]; input.user == "eve"', True),
        ('some [input, x] in [[{"user": "ann"}, 2]]; x == 2', False),
        ('[x | some input in [{"user": "ann"}]; x := input.user] == ["ann"]', False),
    ],
)
@pytest.mark.parametrize("imported", ["", "import data.lib.input\n"])
def test_a_document_is_not_declared_by_some(body: str, holds: bool, imported: str) -> None:
    """As OPA 1.20.2 says: what `some … in` finds is compared with the document."""
    modules = {
        "a.rego": f"package a\n{imported}p if {{ {body} }}\n",
        "lib.rego": 'package lib.input\nuser := "ann"\n',
    }
    given = {"user": "eve"}
    wanted = True if holds else UNDEFINED
    assert Engine(modules).prepare("data.a.p").value(given) is wanted
    assert bool(Oracle(modules).answers("data.a.p", given)) is holds
