"""Candidates for operands: what searches ask of built-ins.

    @builtin("lower", string, returns=string, inverse=inverse("lower"))

The functions are in `inverses.py`, which is imported when a search first asks: decisions never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from math import isfinite
from typing import Any

__all__ = ["inverse", "is_value"]


def inverse(name: str, *options: str) -> Callable[[int, Any, Sequence[Any]], Iterable[Any]]:
    """Return the inverse `invert_<name>` as a function that imports `inverses.py` when it is first
    called. With `options`, `invert_<name>(*options)` builds the inverse.
    """

    def candidates(position: int, want: Any, operands: Sequence[Any]) -> Iterable[Any]:
        """Values for the operand at `position` with which the result may be `want`."""
        function: Any = getattr(import_module(f"{__name__}.inverses"), f"invert_{name}")
        invert = function(*options) if options else function
        operand_values: Iterable[Any] = invert(position, want, operands)
        return filter(is_value, operand_values)

    return candidates


def is_value(candidate: Any) -> bool:
    """Return False for a float that is not finite, which arithmetic on large numbers can give."""
    return type(candidate) is not float or isfinite(candidate)
