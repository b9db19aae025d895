"""Queries that were prepared for partial evaluation, for one snapshot.

The same filter is asked for each request: it is parsed, checked and lowered once. Clients choose
queries and what is unknown, so that only short ones are kept, and not many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    # Load all of partial evaluation.
    from doorward.rego import PartialOptions, PartialQuery

__all__ = ["PartialQueries"]

Key: TypeAlias = "tuple[str, tuple[str, ...], PartialOptions]"
"""A query, what is not known, and the options."""

MOST: Final = 128
LONGEST: Final = 1_024
"""Queries that are kept, of as many characters with what is unknown."""


class PartialQueries:
    """A cache that is emptied when it is full; safe in any number of threads."""

    __slots__ = ("_prepared",)

    def __init__(self) -> None:
        self._prepared: dict[Key, PartialQuery] = {}

    def get(self, key: Key) -> PartialQuery | None:
        """The prepared query, if it is kept."""
        return self._prepared.get(key)

    def keep(self, key: Key, prepared: PartialQuery) -> None:
        """Cache a prepared query, unless its text is long."""
        query, unknowns, options = key
        texts = (query, *unknowns, *options.disable_inlining)
        if sum(map(len, texts)) > LONGEST:
            return
        if len(self._prepared) >= MOST:
            self._prepared.clear()
        self._prepared[key] = prepared
