"""A module is parsed whatever garbage there is."""

from __future__ import annotations

import ast
import gc

from tests.parsing import parsed

TEXT = "\n".join(f"def f{number}(a, b):\n    return a + b * {number}" for number in range(500))


class Leftover:
    """What parses when it is finalized, deeper in the stack, as a traceback that is formatted."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self, depth: int = 20) -> None:
        if depth:
            self.__del__(depth - 1)
        else:
            ast.parse("x = 1")


def test_garbage_that_parses_does_not_meddle() -> None:
    try:
        for _ in range(10):
            for _ in range(50):
                Leftover()
            assert len(parsed(TEXT).body) == 500
    finally:
        gc.collect()  # none is left for those that parse after it
