"""Random programs with unknown documents: residuals and filters decide as the policy does.

The same programs in each run; more with `DOORWARD_ROUNDS=all`, longer by hand: fuzz/README.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from tests.rounds import rounds

from doorward.filters import Clause
from doorward.rego import Engine
from fuzz import residuals
from fuzz.campaign import text_of
from fuzz.compare import RefusedError
from fuzz.residuals import compare, counts
from fuzz.unknowns import Question, generate

SEED: Final = 1
SIZE: Final = 30

pytestmark = pytest.mark.long


@pytest.mark.parametrize("start", range(0, rounds(12) * SIZE, SIZE))
def test_residuals_and_filters_decide_as_the_policy_does(start: int) -> None:
    compared, before = 0, counts.copy()
    for number in range(start, start + SIZE):
        question = generate(f"{SEED}-{number}")
        try:
            difference = compare(question)
        except RefusedError:
            continue
        compared += 1
        assert difference is None, f"{SEED}-{number}: {difference}\n{text_of(question)}"
    assert compared > SIZE // 2
    new = counts - before
    assert new["filter python"] > 0
    assert new["decisions that differ"] > SIZE // 4


ROW: Final = {"u": {"a": 1, "b": "a", "c": True}}
OTHER: Final = {"u": {"a": 2, "b": "b", "c": None}}
QUESTION: Final = Question(
    {"p.rego": "package p\n\nallow if input.u.a == 1\n"},
    {},
    [ROW, OTHER],
    ["data.p.allow"],
    unknowns=("input.u",),
    is_rows=True,
)


def test_a_residual_that_allows_more_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(QUESTION) is None
    partial = Engine.partial

    def wide(self: Engine, query: str, *operands: Any, **options: Any) -> Any:
        other = self.with_modules({"p.rego": "package p\n\nallow if input.u.a >= 1\n"})
        return partial(other, query, *operands, **options)

    monkeypatch.setattr(Engine, "partial", wide)
    difference = compare(QUESTION)
    assert difference is not None
    assert difference.kind == "value: wide"
    narrow = replace(QUESTION, modules={"p.rego": "package p\n\nallow if input.u.a >= 0\n"})
    difference = compare(replace(narrow, inputs=[{"u": {"a": 0, "b": None, "c": None}}, OTHER]))
    assert difference is not None
    assert difference.kind == "value: narrow"


def test_a_filter_that_selects_more_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residuals, "to_sql", lambda *_, **__: Clause("1 = 1", ()))
    difference = compare(QUESTION)
    assert difference is not None
    assert difference.kind == "filter python: wide"


def test_rows_have_their_columns() -> None:
    with pytest.raises(RefusedError, match="no input"):
        compare(replace(QUESTION, inputs=[{"u": {"a": "x", "b": 1, "c": 0}}]))
