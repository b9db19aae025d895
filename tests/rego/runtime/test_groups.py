"""Groups of the items of collections."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego.runtime.groups import FEWEST, MOST, WALKS, Groups

ITEMS: list[Any] = [{"k": n % 3} for n in range(FEWEST)]


def find(groups: Groups, collection: Any, value: Any, path: tuple[str, ...] = ("k",)) -> Any:
    return groups.find(collection, path, value, lambda items: items, with_keys=False)


def group_of(items: Any, value: Any, path: tuple[str, ...] = ("k",)) -> Any:
    """The items of a value once all are grouped."""
    groups = Groups()
    for _ in range(WALKS):
        assert find(groups, items, value, path) is None
    return find(groups, items, value, path)


def test_items_are_grouped_after_a_few_walks() -> None:
    assert group_of(ITEMS, 1) == [item for item in ITEMS if item["k"] == 1]


def test_a_value_without_items_has_an_empty_group() -> None:
    assert group_of(ITEMS, 7) == []


@pytest.mark.parametrize("value", [[1], {"a": 1}, frozenset({1})])
def test_a_collection_is_never_looked_up(value: Any) -> None:
    assert group_of(ITEMS, value) is None


def test_few_items_are_not_grouped() -> None:
    assert group_of(ITEMS[1:], 1) is None


def test_what_is_no_collection_has_no_groups() -> None:
    assert group_of("a" * FEWEST, "a") is None


def test_booleans_are_no_numbers() -> None:
    items: list[Any] = [{"k": True}, {"k": 1}, {"k": 1.0}, *ITEMS[2:]]
    assert group_of(items, True) == [items[0]]
    assert group_of(items, 1)[:2] == items[1:3]


def test_items_without_the_path_are_in_no_group() -> None:
    items = [*ITEMS, "text", {"k": [1]}, {}]
    assert group_of(items, None) == []


def test_pairs_are_grouped_by_their_values() -> None:
    groups, pairs = Groups(), [*enumerate(ITEMS)]
    for _ in range(WALKS + 1):
        result = groups.find(ITEMS, ("k",), 2, lambda _: pairs, with_keys=True)
    assert result == [(n, item) for n, item in pairs if item["k"] == 2]


@pytest.mark.parametrize(("count", "grouped"), [(MOST, True), (MOST + 1, False)])
def test_collections_in_mind_are_bounded(count: int, grouped: bool) -> None:
    groups, collections = Groups(), [[n, *ITEMS] for n in range(count)]
    for _ in range(WALKS):
        assert all(find(groups, each, 1) is None for each in collections)
    assert (find(groups, collections[-1], 1) is not None) is grouped
