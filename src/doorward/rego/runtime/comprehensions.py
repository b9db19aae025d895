"""Results of comprehensions in one evaluation, by the one variable that they depend on.

    counts[user] := count([e | some e in input.events; e.user == user]) if {
        some user in [e.user | some e in input.events]
    }

The comprehension is evaluated once for each user, and not once for each event, as in OPA.
`codegen/comprehensions.py` says for which comprehensions an evaluation is asked.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Final

__all__ = ["PLAIN", "Results", "Site"]

MOST_ITEMS: Final = 1 << 18
"""The most items of all cached results in one evaluation; further results are not cached."""

TRIAL: Final = 128
"""The number of results that are cached before the share of hits decides about more."""

WORTH: Final = 4
"""More results are cached if there is at least one hit for this many misses."""

PLAIN: Final = frozenset({str, int})
"""The classes of values that may be cache keys, since equal ones are the same to a policy. `1` and
`1.0` print differently, and for Python `True` equals `1`.
"""


class Site:
    """A comprehension in generated code, compared by identity; with a value it is the key of a
    result.
    """

    __slots__ = ()


class Results(dict[tuple[Site, Any], Any]):
    """The results of comprehensions, by comprehension and value of the variable that it depends on.
    After `TRIAL` results, further ones are stored only if enough of them were found again.
    """

    __slots__ = ("hits", "misses", "size")

    def __init__(self) -> None:
        self.hits = 0
        """The number of results that were found in the cache."""
        self.misses = 0
        self.size = 0

    def add(self, site: Site, value: Any, result: Sized) -> None:
        """Count a miss of the cache, and store the result that was then computed. Nothing is stored
        if, after `TRIAL` misses, there is less than one hit for every `WORTH` misses, or once the
        results together have more than `MOST_ITEMS` items.
        """
        self.misses += 1
        if self.misses <= TRIAL or self.hits * WORTH >= self.misses:
            # One more for the entry itself: results may be empty.
            self.size += len(result) + 1
            if self.size <= MOST_ITEMS:
                self[site, value] = result
