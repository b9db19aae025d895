"""What is said of random policies is what the engine decides for all inputs of a small universe.

`make soak` compares 10,000 programs (`fuzz/proofs.py`).
"""

from __future__ import annotations

from random import Random

import pytest
from tests.rounds import rounds
from tests.search.proofs.comparing import Comparison
from tests.search.proofs.programs import inputs_of, program, rewritten

PROGRAMS = rounds(12)
"""In each test."""


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_what_is_proved_compared_or_listed_no_input_contradicts(part: int) -> None:
    comparison = Comparison()
    for seed in range(part * PROGRAMS, (part + 1) * PROGRAMS):
        comparison.compare(seed)
    assert not comparison.wrong
    assert comparison.answers["prove: none exists"]
    assert comparison.answers["programs"] >= PROGRAMS - 1


def test_programs_are_the_same_for_a_seed_and_differ_in_one_definition() -> None:
    first, again = program(Random(1)), program(Random(1))
    assert first is not None
    assert again is not None
    assert first.modules == again.modules
    changed = rewritten(first, Random(2))
    assert changed is not None
    assert changed.modules != first.modules
    assert inputs_of(first.text, Random(3)) == inputs_of(first.text, Random(3))
