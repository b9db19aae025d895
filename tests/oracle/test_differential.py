"""Random programs: the engine answers as the oracle does. Longer by hand: see fuzz/README.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from tests.rounds import rounds

from fuzz.campaign import text_of
from fuzz.compare import RefusedError, compare
from fuzz.grammar import generate
from fuzz.names import generate_shadowed
from fuzz.pools import Program

pytestmark = pytest.mark.long

SEED: Final = 1
SIZE: Final = 50
PROGRAMS: Final = rounds(300)


@pytest.mark.parametrize("start", range(0, PROGRAMS, SIZE))
@pytest.mark.parametrize("make", [generate, generate_shadowed], ids=["as-written", "shadowed"])
def test_the_engine_answers_as_the_oracle(start: int, make: Callable[[str], Program]) -> None:
    compared = 0
    for number in range(start, start + SIZE):
        program = make(f"{SEED}-{number}")
        try:
            difference = compare(program)
        except RefusedError:
            continue
        compared += 1
        assert difference is None, f"{SEED}-{number}: {difference}\n{text_of(program)}"
    assert compared > SIZE // 10, "most programs are refused: the grammar has gone wrong"
