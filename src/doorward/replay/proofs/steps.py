"""The steps by which a conjunction is refuted: what a refuter emits and a checker replays.

Expressions are named by their positions in the conjunction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Bounds", "Cases", "Contradiction", "Denied", "Fails", "Step"]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An expression, and its negation."""

    positive: int
    negative: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """Two comparisons of one leaf of the input that no value satisfies."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Denied:
    """`not` of a support rule that holds: `body` are the expressions that one of its bodies has."""

    negative: int
    rule: tuple[int, int]
    body: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fails:
    """An expression that does not hold with the leaves that were put in."""

    position: int


@dataclass(frozen=True, slots=True)
class Cases:
    """The leaf at a path has one of some values, as the expression at `source` says; a step for
    each."""

    path: tuple[str, ...]
    source: int
    cases: tuple[tuple[Any, Step], ...]


Step: TypeAlias = Contradiction | Bounds | Denied | Fails | Cases
