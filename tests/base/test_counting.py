"""A number and what it counts."""

from __future__ import annotations

import pytest

from doorward.base.counting import counted


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 decisions"), (1, "1 decision"), (2, "2 decisions"), (12_345, "12,345 decisions")],
)
def test_a_number_stands_before_the_form_that_belongs_to_it(number: int, text: str) -> None:
    assert counted(number, "decision") == text


def test_other_forms_are_given() -> None:
    assert [counted(n, "is new", "are new") for n in (1, 3)] == ["1 is new", "3 are new"]
