"""Random programs: the engine answers as the oracle does. Longer by hand: see fuzz/README.md."""

from __future__ import annotations

from typing import Final

import pytest

from fuzz.campaign import text_of
from fuzz.compare import RefusedError, compare
from fuzz.grammar import generate

SEED: Final = 1
SIZE: Final = 50
PROGRAMS: Final = 300

OPEN: Final = frozenset(
    {
        7, 8, 13, 15, 22, 23, 25, 32, 33, 35, 37, 46, 47, 51, 52, 56, 63, 66, 68, 70, 74,
        80, 81, 82, 83, 84, 88, 93, 100, 108, 114, 119, 124, 128, 131, 132, 137, 147, 151,
        155, 160, 171, 174, 177, 178, 181, 185, 190, 191, 201, 219, 221, 223, 225, 226, 227,
        230, 233, 238, 239, 246, 256, 267, 270, 272, 285, 293, 297, 298,
    }
)  # fmt: skip
"""Programs that show defects which are known and not fixed yet."""


@pytest.mark.parametrize("start", range(0, PROGRAMS, SIZE))
def test_the_engine_answers_as_the_oracle(start: int) -> None:
    compared = 0
    for number in range(start, start + SIZE):
        program = generate(f"{SEED}-{number}")
        try:
            difference = None if number in OPEN else compare(program)
        except RefusedError:
            continue
        compared += 1
        assert difference is None, f"{SEED}-{number}: {difference}\n{text_of(program)}"
    assert compared > SIZE // 3, "most programs are refused: the grammar has gone wrong"
