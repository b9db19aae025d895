"""One row of a table: a contender and what its rounds cost."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Final

__all__ = ["OURS", "Measured"]

OURS: Final = "doorward"


@dataclass(slots=True)
class Measured:
    """Microseconds per decision of each round, or why there are none."""

    name: str
    rounds: list[float] = field(default_factory=list)
    missing: str | None = None

    @property
    def least(self) -> float:
        return min(self.rounds)

    @property
    def middle(self) -> float:
        return statistics.median(self.rounds)
