"""A cache of residuals for one snapshot.

A residual (what is left of a query when a part of the input is unknown) depends on the query, the
known input, the policies and the data. Built-ins that read the clock or the environment stay in it
as calls. So it is valid as long as its snapshot is active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from doorward.rego.shared import CacheCounts

if TYPE_CHECKING:
    # Loads all of partial evaluation.
    from doorward.rego import Partial

__all__ = ["KeptResiduals", "Question"]

Question: TypeAlias = tuple[str, tuple[str, ...], str, bool]
"""A query, its unknowns, the known input as Rego, and True if only the truth of the result
matters.
"""

MOST: Final = 256
"""The largest number of cached residuals, half of them in the older generation."""
LONGEST: Final = 8_192
"""The longest input, in characters of Rego, for which a residual is cached."""
LARGEST: Final = 500
"""The largest number of expressions in a cached residual."""


class KeptResiduals:
    """A cache of residuals in two generations, of which the older one is dropped when the newer one
    is full. Safe in any number of threads.
    """

    __slots__ = ("_before", "_newest", "hits", "misses")

    def __init__(self) -> None:
        self._newest: dict[Question, Partial] = {}
        self._before: dict[Question, Partial] = {}
        # Not exact: threads that count at the same time may count once.
        self.hits = self.misses = 0

    def get(self, question: Question) -> Partial | None:
        """Return the cached residual for a question; None if there is none. Counts a hit or a miss,
        and moves a residual of the older generation to the newer one.
        """
        residual = self._newest.get(question)
        if residual is None:
            residual = self._before.get(question)
            if residual is None:
                self.misses += 1
                return None
            self.keep(question, residual)
        self.hits += 1
        return residual

    @property
    def counts(self) -> CacheCounts:
        """The number of cached residuals, and the hits and misses since the snapshot was made."""
        return CacheCounts(len(self._newest) + len(self._before), self.hits, self.misses)

    def keep(self, question: Question, residual: Partial) -> None:
        """Cache the residual of a question (query, known input and unknowns), unless the input
        exceeds `LONGEST` characters, the residual has support rules, or it has more than `LARGEST`
        expressions.
        """
        # What an input can make large must not be multiplied by `MOST`.
        if len(question[2]) > LONGEST or residual.support or _size(residual) > LARGEST:
            return
        self._newest[question] = residual
        if len(self._newest) > MOST // 2:
            self._before, self._newest = self._newest, {}


def _size(residual: Partial) -> int:
    """Return the number of expressions in a residual, with those of its definitions."""
    definitions = 0 if residual.definitions is None else residual.definitions.size
    return definitions + sum(map(len, residual.queries))
