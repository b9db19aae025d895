"""Items of collections in groups, by what a path below each of them leads to.

A loop inside another one that looks for the items equal to a value asks here again and again, with
the same collection (`codegen/joins.py`). Groups cost as much as a few walks, so a collection is
walked as it is at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from doorward.rego.runtime.operations import lookup_path
from doorward.rego.values import UNDEFINED, Key, to_key

__all__ = ["Groups"]

FEWEST: Final = 16
"""Collections with fewer items than this are not grouped."""
WALKS: Final = 3
"""The number of loops over a collection after which its items are grouped."""
MOST: Final = 256
"""The most pairs of a collection and a path that are remembered."""

_COLLECTIONS: Final = frozenset({dict, frozenset, list})


class _Group:
    """One collection and path, and its items by key once they are grouped."""

    __slots__ = ("collection", "items", "walks")

    def __init__(self, collection: Any) -> None:
        self.collection = collection
        """The collection, kept here so that no other object gets its identity."""
        self.walks = 0
        self.items: dict[Key, list[Any]] | None = None


class Groups:
    """The grouped collections of one evaluation."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[tuple[int, tuple[str, ...], bool], _Group] = {}

    def find(
        self,
        collection: Any,
        path: tuple[str, ...],
        value: Any,
        walk: Callable[[Any], Iterable[Any]],
        *,
        with_keys: bool,
    ) -> list[Any] | None:
        """Return the items of `collection` whose part at `path` equals `value`, in order; None if
        the caller must iterate all. That is so for the first `WALKS` loops, for a `collection` that
        has fewer than `FEWEST` items or is another value, and for a `value` that is a collection.
        After `MOST` collections and paths, all are forgotten.

        `walk` returns all items; `with_keys`: as pairs with their keys.
        """
        if type(collection) not in _COLLECTIONS or len(collection) < FEWEST:
            return None
        if type(value) in _COLLECTIONS:
            return None
        # By identity, which `_Group.collection` keeps from being reused.
        key = id(collection), path, with_keys
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MOST:
                self._groups.clear()
            group = self._groups[key] = _Group(collection)
        if group.items is None:
            group.walks += 1
            if group.walks <= WALKS:
                return None
            group.items = _by_part(walk(collection), path, with_keys=with_keys)
        return group.items.get(to_key(value), [])


def _by_part(
    items: Iterable[Any], path: tuple[str, ...], *, with_keys: bool
) -> dict[Key, list[Any]]:
    """Group items by the value at `path`, as a key; items without a scalar there are left out.
    `with_keys`: the items are (key, value) pairs, and `path` begins at the value.
    """
    groups: dict[Key, list[Any]] = {}
    for item in items:
        part = lookup_path(item[1] if with_keys else item, path)
        # A collection is equal to none of the values that are looked up.
        if part is not UNDEFINED and type(part) not in _COLLECTIONS:
            groups.setdefault(to_key(part), []).append(item)
    return groups
