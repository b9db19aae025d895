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
"""Items that the results of one evaluation have together; others are evaluated each time."""

TRIAL: Final = 128
"""Results that are kept before it is asked how many were found again."""

WORTH: Final = 4
"""One result found in so many that were not makes it worth keeping more."""

PLAIN: Final = frozenset({str, int})
"""Classes of values that are the same to a policy where they are equal: `1` and `1.0` differ as
texts, and Python takes `True` for `1`."""


class Site:
    """A comprehension in generated code; its identity belongs to the keys of its results."""

    __slots__ = ()


class Results(dict[tuple[Site, Any], Any]):
    """The results of comprehensions, by comprehension and value. After `TRIAL` results, further
    ones are stored only if enough of them were found again.
    """

    __slots__ = ("hits", "misses", "size")

    def __init__(self) -> None:
        self.hits = 0
        """How often a result was there."""
        self.misses = 0
        self.size = 0

    def add(self, site: Site, value: Any, result: Sized) -> None:
        """Store a result that was not found. Nothing is stored if few results were found again, or
        beyond `MOST_ITEMS` items.
        """
        self.misses += 1
        if self.misses <= TRIAL or self.hits * WORTH >= self.misses:
            self.size += len(result) + 1
            if self.size <= MOST_ITEMS:
                self[site, value] = result
