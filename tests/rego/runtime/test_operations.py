"""The operations that generated code is made of: each on every kind of value."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego.errors import EvalError
from doorward.rego.numbers import Number
from doorward.rego.runtime import operations as op
from doorward.rego.source import NOWHERE
from doorward.rego.values import UNDEFINED, lookup, make_set, to_key

OBJECT = {"b": 1, "a": 2, 1: 3, to_key(True): 4}


@pytest.mark.parametrize(
    ("value", "key", "want"),
    [
        ({"a": 1}, "a", 1),
        ({"a": 1}, "b", UNDEFINED),
        (OBJECT, 1, 3),
        (OBJECT, True, 4),
        (OBJECT, Number("1.0"), 3),
        ([5, 6], 1, 6),
        ([5, 6], 2, UNDEFINED),
        ([5, 6], -1, UNDEFINED),
        ([5, 6], True, UNDEFINED),
        ([5, 6], Number("1.0"), 6),
        ([5, 6], Number("1e0"), UNDEFINED),
        ([5, 6], Number("-0"), 5),
        (make_set([1, "x"]), "x", "x"),
        (make_set([1, "x"]), True, UNDEFINED),
        ("text", 0, UNDEFINED),
        (None, "a", UNDEFINED),
        (UNDEFINED, "a", UNDEFINED),
    ],
)
def test_lookup(value: Any, key: Any, want: Any) -> None:
    assert lookup(value, key) is want or lookup(value, key) == want


def test_numbers_find_names_in_base_data_only() -> None:
    assert op.lookup_data({"2": "x"}, 2) == "x"
    assert op.lookup_data({"2.5": "x"}, Number("2.5")) == "x"
    assert op.lookup_data({"2.5": "x"}, Number("2.50")) is UNDEFINED
    assert lookup({"2": "x"}, 2) is UNDEFINED


def test_walks_go_in_regos_order() -> None:
    assert list(op.values(OBJECT)) == [4, 3, 2, 1]
    assert [key for key, _ in op.items(OBJECT)] == [True, 1, "a", "b"]
    assert list(op.items(make_set([2, 1]))) == [(1, 1), (2, 2)]
    assert list(op.items(["x"])) == [(0, "x")]
    assert [list(walk("text")) for walk in (op.values, op.items)] == [[], []]


@pytest.mark.parametrize(
    ("item", "collection", "want"),
    [
        (1, [True, 1], True),
        (1, [True], False),
        ("a", ["a"], True),
        ([1], make_set([[1]]), True),
        (2, {"a": 2}, True),
        ("a", {"a": 2}, False),
        ("a", "abc", False),
    ],
)
def test_membership(item: Any, collection: Any, want: bool) -> None:
    assert op.contains(item, collection) is want


def test_pairs_are_members_where_both_fit() -> None:
    assert op.contains_pair(0, "a", ["a"])
    assert not op.contains_pair(1, "a", ["a"])
    assert not op.contains_pair("k", 1, {"k": True})


def test_a_second_value_must_be_the_first() -> None:
    assert op.one(UNDEFINED, 1, NOWHERE) == 1
    assert op.one(1, Number("1.0"), NOWHERE) == 1
    with pytest.raises(EvalError, match="complete rules must not"):
        op.one(1, True, NOWHERE)
    with pytest.raises(EvalError, match="functions must not"):
        op.one_of_function(1, 2, NOWHERE)


def test_keys_are_inserted_once() -> None:
    out: dict[Any, Any] = {}
    op.insert(out, True, 1, NOWHERE)
    op.insert(out, True, 1, NOWHERE)
    with pytest.raises(EvalError, match="object keys must be unique"):
        op.insert(out, True, 2, NOWHERE)


def test_open_places_grow_and_freeze() -> None:
    out: dict[Any, Any] = {}
    op.insert_at(out, ["a", "b"], 1, NOWHERE)
    op.insert_member_at(out, ["a", "c"], "x", NOWHERE)
    op.insert_member_at(out, ["a", "c"], "y", NOWHERE)
    assert op.freeze(out) == {"a": {"b": 1, "c": frozenset({"x", "y"})}}
    with pytest.raises(EvalError, match="object keys must be unique"):
        op.insert_at(out, ["a", "b", "c"], 1, NOWHERE)
    with pytest.raises(EvalError, match="object keys must be unique"):
        op.insert_member_at(out, ["a", "b"], 1, NOWHERE)


def test_replacing_a_path_leaves_the_old_value_alone() -> None:
    old = {"a": {"b": 1}}
    assert op.put_path(old, ("a", "c"), 2) == {"a": {"b": 1, "c": 2}}
    assert op.put_path(old, (), 2) == 2
    assert op.put_path([1], ("a",), 2) == {"a": 2}
    assert old == {"a": {"b": 1}}
    with pytest.raises(ValueError, match="bad document path"):
        op.put_path(old, (0,), 2)


@pytest.mark.parametrize(
    ("a", "b", "less", "less_equal"),
    [
        (1, 2, True, True),
        (2, 2, False, True),
        (Number("1.5"), 2, True, True),
        (None, 0, True, True),
    ],
)
def test_order(a: Any, b: Any, less: bool, less_equal: bool) -> None:
    assert op.less(a, b) is less
    assert op.less_equal(a, b) is less_equal


def test_values_in_templates() -> None:
    shown = [op.template_text(v) for v in (UNDEFINED, "x", ["x"], None)]
    assert shown == ["<undefined>", "x", '["x"]', "null"]
