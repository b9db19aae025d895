"""Input and data that are not made of Rego values: converted where they stand for one value."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, UserDict, deque
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from doorward.rego import UNDEFINED, Engine, InputError, RegoError, from_json, from_python

POLICY = {
    "p.rego": """package p
denied if "banned" in input.roles
allow if not denied
"""
}


class Role(StrEnum):
    BANNED = "banned"


class Pair(NamedTuple):
    key: str
    value: int


FOREIGN: list[Any] = [
    (role for role in ["banned"]),
    {"banned": 1}.values(),
    b"banned",
    bytearray(b"banned"),
    iter([]),
    1j,
    float("nan"),
    float("inf"),
    10**5000,
    object(),
    UNDEFINED,
    [("banned", object())],
    frozenset({("a", object())}),
    {("a", b"tuple"): 1},
    {b"bytes": 1},
]

BANNED: list[Any] = [
    ("banned",),
    {"banned"},
    deque(["banned"]),
    {"banned": 1}.keys(),
    OrderedDict(role="banned"),
    UserDict({"role": "banned"}),
    MappingProxyType({"role": "banned"}),
    [Role.BANNED],
    Pair("banned", 1),
    ChainMap({"role": Role.BANNED}),
]


@pytest.mark.parametrize("roles", BANNED, ids=lambda value: type(value).__name__)
def test_what_stands_for_one_value_is_found(roles: Any) -> None:
    query = Engine(POLICY).prepare("data.p.denied")
    assert query.value({"roles": roles}) is True
    assert query.results({"roles": roles}) == [{}]
    assert query.rows({"roles": roles}) == [(True,)]
    by_data = {"p.rego": 'package p\ndenied if "banned" in data.roles\n'}
    assert Engine(by_data, {"roles": roles}).prepare("data.p.denied").value() is True


@pytest.mark.parametrize("roles", FOREIGN, ids=lambda value: type(value).__name__)
def test_what_stands_for_no_one_value_is_refused(roles: Any) -> None:
    query = Engine(POLICY).prepare("data.p.allow")
    for ask in (query.value, query.rows, query.results):
        with pytest.raises(InputError, match=r"^input\.roles"):
            ask({"roles": roles})
    with pytest.raises(InputError, match=r"^data\.roles"):
        Engine(POLICY, {"roles": roles})
    with pytest.raises(InputError, match=r"^data\.roles"):
        Engine(POLICY).with_data({"roles": roles})


def test_an_error_says_where_it_stands() -> None:
    query = Engine().prepare("input")
    for value, position in [
        (b"a", "input is of the class bytes"),
        ({"a": [1, {"b c": {"d": b""}}]}, r'input\.a\[1\]\["b c"\]\.d is of the class bytes'),
        ({"a": {1: float("inf")}}, r"input\.a\[1\] is a number that is not finite"),
        ({"a": ({(b"",): 1},)}, r"input\.a\[0\] \(a key\)\[0\] is of the class bytes"),
        ({"a": {(1, b"")}}, r"input\.a \(a member\)\[1\] is of the class bytes"),
    ]:
        with pytest.raises(InputError, match=f"^{position}") as raised:
            query.value(value)
        assert isinstance(raised.value, RegoError)
        assert raised.value.diagnostics[0].code == "eval_input_error"


@pytest.mark.parametrize(
    "value",
    [
        from_json('{"a": [1, 1.5, -0, "x", true, null, {"b": []}], "c": {}}'),
        from_python({"t": (1, 2), True: {3, (4, 5)}, 1.5: frozenset({False})}),
        {"a": 1.5, "b": [0.1]},
        10**4096 - 1,
        [],
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_rego_values_are_taken_as_they_are(value: Any) -> None:
    assert Engine().prepare("input").value(value) is value
    assert Engine(data={"x": value}).prepare("data.x").value() is value


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("input := 1", {"input": 1}),
        ("data := {}; y := data", {"data": {}, "y": {}}),
        ("x := input; input := 2", {"x": {"a": 3}, "input": 2}),
    ],
)
def test_a_query_may_name_its_variables_as_documents(query: str, want: dict[str, Any]) -> None:
    assert Engine({}, {"b": 4}).prepare(query).results({"a": 3}) == [want]
