"""JSON as Go writes it: also of values that nest deeper than Python's stack."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.rego.golang import json
from doorward.rego.values import make_object, make_set

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(make_set)
        | st.lists(st.tuples(inner, inner), max_size=3).map(make_object)
    ),
    max_leaves=10,
)


def nested(depth: int, wrap: Any, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


@pytest.mark.parametrize(
    ("wrap", "begin", "end"),
    [
        (lambda inner: [1, inner], "[1,", "]"),
        (lambda inner: {"b": inner, "a": "<"}, '{"a":"\\u003c","b":', "}"),
        (lambda inner: {"a": [inner]}, '{"a":[', "]}"),
    ],
)
def test_a_value_of_any_depth_is_written(wrap: Any, begin: str, end: str) -> None:
    text = json.marshal(nested(3000, wrap, []))
    assert text == begin * 3000 + "[]" + end * 3000


@pytest.mark.long
@given(VALUES)
def test_a_deep_value_is_written_as_another_one(value: Any) -> None:
    around = nested(3000, lambda inner: [inner], value)
    assert json.marshal(around) == "[" * 3000 + json.marshal(value) + "]" * 3000
