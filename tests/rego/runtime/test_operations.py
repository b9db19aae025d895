"""What generated code calls: each does what Rego says, and none is there for nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doorward.rego.numbers import parse_number
from doorward.rego.runtime.exports import EXPORTS
from doorward.rego.runtime.operations import items, lookup, lookup_path, values
from doorward.rego.values import UNDEFINED, make_object, make_set, to_json, to_python

CODEGEN = Path(__file__).resolve().parents[3] / "src/doorward/rego/codegen"

ROWS: list[tuple[Any, Any, Any]] = [
    ({"a": 1}, "a", 1),
    ({"a": 1}, "b", UNDEFINED),
    ({"1": "text"}, 1, UNDEFINED),
    (make_object([(1, "number"), (True, "boolean")]), 1, "number"),
    (make_object([(1, "number"), (True, "boolean")]), True, "boolean"),
    (make_object([([1], "array")]), [1], "array"),
    ([10, 20], 0, 10),
    ([10, 20], 2, UNDEFINED),
    ([10, 20], -1, UNDEFINED),
    ([10, 20], False, UNDEFINED),
    ([10, 20], "0", UNDEFINED),
    ([10, 20], parse_number("1.0"), UNDEFINED),
    (make_set([1, "a"]), "a", "a"),
    (make_set([1, "a"]), True, UNDEFINED),
    (make_set([[1], {"a": 1}]), {"a": 1}, {"a": 1}),
    ("text", 0, UNDEFINED),
    (None, "a", UNDEFINED),
    (7, 0, UNDEFINED),
]


@pytest.mark.parametrize(("value", "key", "found"), ROWS)
def test_a_lookup_is_exact(value: Any, key: Any, found: Any) -> None:
    result = lookup(value, key)
    assert result is found if found is UNDEFINED else result == found
    assert type(result) is type(found)


def test_a_path_ends_where_something_is_missing() -> None:
    assert lookup_path({"a": [{"b": 1}]}, ("a", 0, "b")) == 1
    assert lookup_path({"a": [{"b": 1}]}, ("a", 1, "b")) is UNDEFINED


MIXED: list[Any] = ["b", 1, None, True, [1], "a"]


def test_walks_go_in_regos_order() -> None:
    assert list(values(make_set(MIXED))) == [None, True, 1, "a", "b", [1]]
    assert list(values({"b": 1, "a": 2})) == [2, 1]
    assert list(items(["x", "y"])) == [(0, "x"), (1, "y")]
    assert to_json(to_python(make_set(MIXED))) == '[null,true,1,"a","b",[1]]'


@pytest.mark.parametrize("scalar", [None, True, 1, "text"])
def test_there_is_nothing_in_a_scalar(scalar: Any) -> None:
    assert list(values(scalar)) == list(items(scalar)) == []


def test_the_list_of_exports_holds_what_code_generation_uses() -> None:
    written = "".join(path.read_text() for path in CODEGEN.glob("*.py"))
    unused = [name for name in EXPORTS if f'"{name.removeprefix("rt.")}"' not in written]
    assert not unused
