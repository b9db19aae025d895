"""A cache of queries that are prepared for partial evaluation, for one snapshot.

The same filter is evaluated for each request, so it is parsed, checked and lowered only once.
Clients choose queries and unknowns: only short ones are cached, and only `MOST` of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    # Load all of partial evaluation.
    from doorward.rego import PartialOptions, PartialQuery

__all__ = ["PartialQueries"]

Key: TypeAlias = "tuple[str, tuple[str, ...], PartialOptions]"
"""A query, its unknowns, and the options of partial evaluation."""

MOST: Final = 128
LONGEST: Final = 1_024
"""The largest number of characters in query, unknowns and options of a cached query."""


class PartialQueries:
    """A cache of prepared partial queries that is emptied when it is full; safe in any number of
    threads.
    """

    __slots__ = ("_prepared",)

    def __init__(self) -> None:
        self._prepared: dict[Key, PartialQuery] = {}

    def get(self, key: Key) -> PartialQuery | None:
        """Return the prepared query; None if it is not cached."""
        return self._prepared.get(key)

    def keep(self, key: Key, prepared: PartialQuery) -> None:
        """Cache a prepared query, unless its texts have more than `LONGEST` characters. A full
        cache is emptied first.
        """
        query, unknowns, options = key
        texts = (query, *unknowns, *options.disable_inlining)
        if sum(map(len, texts)) > LONGEST:
            return
        if len(self._prepared) >= MOST:
            # Emptied, not trimmed: no order has to be kept at each hit, and filters are few.
            self._prepared.clear()
        self._prepared[key] = prepared
