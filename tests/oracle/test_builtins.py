"""The built-ins answer as their models do."""

from __future__ import annotations

import pytest

from fuzz.builtins import OPERANDS, difference, operands

COUNT = 300


@pytest.mark.parametrize("name", sorted(OPERANDS))
def test_answers_are_those_of_the_model(name: str) -> None:
    wrong = [text for seed in range(COUNT) if (text := difference(name, operands(name, seed)))]
    assert not wrong, "\n".join(wrong[:5])
