"""Residuals of earlier questions, for one snapshot.

A residual depends on the question, on what is known of the input, and on policies and data;
built-ins that look at the clock or the world stay in it. So it holds as long as its snapshot is
active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from doorward.rego.shared import CacheCounts

if TYPE_CHECKING:
    # Loads all of partial evaluation.
    from doorward.rego import Partial

__all__ = ["KeptResiduals", "Question"]

Question: TypeAlias = tuple[str, tuple[str, ...], str, bool]
"""A query, what is not known, the rest of the input as Rego, and whether only truth counts."""

MOST: Final = 256
"""Residuals that are kept, half of them from before the last change of generation."""
LONGEST: Final = 8_192
"""Characters of an input with which a residual is kept."""
LARGEST: Final = 500
"""Expressions of a residual that is kept."""


class KeptResiduals:
    """A cache in two generations; safe in any number of threads."""

    __slots__ = ("_before", "_newest", "hits", "misses")

    def __init__(self) -> None:
        self._newest: dict[Question, Partial] = {}
        self._before: dict[Question, Partial] = {}
        # Not exact: threads that count at the same time may count once.
        self.hits = self.misses = 0

    def get(self, question: Question) -> Partial | None:
        """The cached residual for a question; None if there is none."""
        left = self._newest.get(question)
        if left is None:
            left = self._before.get(question)
            if left is None:
                self.misses += 1
                return None
            self.keep(question, left)
        self.hits += 1
        return left

    @property
    def counts(self) -> CacheCounts:
        """The hits and misses of residuals, for these policies and data."""
        return CacheCounts(len(self._newest) + len(self._before), self.hits, self.misses)

    def keep(self, question: Question, left: Partial) -> None:
        """Cache a residual, unless it or its question is large."""
        if len(question[2]) > LONGEST or left.support or _size(left) > LARGEST:
            return
        self._newest[question] = left
        if len(self._newest) > MOST // 2:
            self._before, self._newest = self._newest, {}


def _size(left: Partial) -> int:
    """The number of expressions in a residual."""
    definitions = 0 if left.definitions is None else left.definitions.size
    return definitions + sum(map(len, left.queries))
