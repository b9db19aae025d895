"""Input and data that are not made of Rego values: refused, since no policy could match them."""

from __future__ import annotations

from collections import OrderedDict, UserDict, deque
from enum import IntEnum, StrEnum
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
    ADMIN = "admin"


class Level(IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    key: str
    value: int


FOREIGN: list[Any] = [
    ("banned",),
    {"banned"},
    deque(["banned"]),
    (role for role in ["banned"]),
    b"banned",
    bytearray(b"banned"),
    {"banned": 1}.keys(),
    OrderedDict(banned=1),
    UserDict({"banned": 1}),
    MappingProxyType({"banned": 1}),
    Role.ADMIN,
    Level.HIGH,
    Pair("banned", 1),
    range(3),
    iter([]),
    1j,
    float("nan"),
    float("inf"),
    10**5000,
    object(),
    UNDEFINED,
    frozenset({("a", "tuple")}),
    frozenset({True}),
    {1: {True: 1}},
    {("a", "tuple"): 1},
    {b"bytes": 1},
]


@pytest.mark.parametrize("roles", FOREIGN, ids=lambda value: type(value).__name__)
def test_what_no_policy_can_match_is_refused(roles: Any) -> None:
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
        (("a",), "input is of the class tuple"),
        ({"a": [1, {"b c": {"d": b""}}]}, r'input\.a\[1\]\["b c"\]\.d is of the class bytes'),
        ({"a": {1: float("inf")}}, r"input\.a\[1\] is a number that is not finite"),
        ({"a": {(): 1}}, r"input\.a has a key or member that is not a Rego value"),
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
    ("value", "want"),
    [
        (("banned",), ["banned"]),
        (OrderedDict(a=Role.ADMIN), {"a": "admin"}),
        (MappingProxyType({"a": Level.HIGH}), {"a": 3}),
        (Pair("a", 1), ["a", 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_converted_can_be_matched(value: Any, want: Any) -> None:
    converted = from_python(value)
    assert Engine().prepare("input").value(converted) == want


@pytest.mark.parametrize(
    "value",
    [b"x", deque([1]), iter([]), float("nan"), 10**5000, object()],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_rego_value_is_not_converted(value: Any) -> None:
    with pytest.raises(InputError):
        from_python({"a": [value]})
