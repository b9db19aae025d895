"""Sets whose members are listed before they are hashed: they answer as all sets do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.rego.codegen.writing import program_of

from doorward.rego import REGISTRY, UNDEFINED, Engine, Registry, types
from doorward.rego.codegen.listed_sets import is_listed
from doorward.rego.codegen.plan import Plan

HEADER = "package t\n\n"


def answer(policy: str, query: str, input: Any = None) -> Any:
    return Engine({"t.rego": HEADER + policy}).prepare(query).value(input)


@pytest.mark.parametrize(
    ("rule", "listed"),
    [
        ("s contains x if some x in input.a", True),
        ("s contains x if x := input.a[_]", True),
        ('s contains {"a": x} if x := input.a', True),
        ("s contains x if { some x in input.a; n := [y | some y in x.b; y.c[_]] }", True),
        ("s contains x if { some x in input.a; every y in x.b { y.c[_] } }", True),
        ("s contains x if some x in input.a\n\ns contains x if some x in input.b", True),
        # A few members any number of times.
        ("s contains x if { some y in input.a; some x in y.b }", False),
        ("s contains x if x := input.a[_].b[_]", False),
        ("s contains x if walk(input, [_, x])", False),
        # Texts are hashed in no time.
        ('s contains "a" if input.b', False),
        ('s contains sprintf("%v", [x]) if some x in input.a', False),
        ("s[x] contains 1 if some x in input.a", False),
        ("s := {x | some x in input.a}", False),
    ],
)
def test_what_is_listed(rule: str, listed: bool) -> None:
    program = program_of(rule)
    plan = Plan(program.callees, program.constant, program.mocked)
    node = plan.root.find(("t", "s"))
    assert node is not None
    assert is_listed(node, plan) is listed
    traced = Plan(program.callees, program.constant, program.mocked, traced=True)
    assert not is_listed(node, traced)


SET = "s contains x if some x in input.a\n\n"
VALUES: Any = [
    {"b": 1, "a": 2},
    [3, 1],
    "z",
    {"a": 2, "b": 1},
    1.0,
    1,
    True,
    {"a": 1},
    None,
    "z",
    [3, 1.0],
    {},
    2.5,
]
ORDER: Any = [None, True, 1, 2.5, "z", [3, 1], {}, {"a": 1}, {"a": 2, "b": 1}]


@pytest.mark.parametrize(
    "walked",
    [
        "r := [x | some x in s]",
        "r := [x | x := s[_]]",
        "r := [x | some x in data.t.s]",
        "r := [x | some _, x in s]",
        "r := [x | s[x]]",
        # Asked for as a whole before, or behind.
        "r := [x | count(s) > 1; some x in s]",
        "r := [x | some x in s; count(s) > 1]",
        "r := [x | some x in s; x in s]",
    ],
)
def test_members_are_walked_in_order_and_once(walked: str) -> None:
    assert answer(SET + walked, "data.t.r", {"a": VALUES}) == ORDER


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s == {1, {}}", True),
        ("count(s)", 2),
        ("{} in s", True),
        ("[s[1.0], [y | some y in s]]", [1, [1, {}]]),
        ("count({y | some y in s} | {2})", 3),
    ],
)
def test_the_set_itself_is_the_same(expression: str, expected: Any) -> None:
    assert answer(SET + f"r := {expression}", "data.t.r", {"a": [1, {}, 1.0, {}]}) == expected


def test_every_member_is_looked_at() -> None:
    policy = SET + "r if every x in s { x.ok }\n\nnone if every x in s { x.no }"
    assert answer(policy, "data.t.r", {"a": [{"ok": True}, {"ok": 1}]}) is True
    assert answer(policy, "data.t.r", {"a": [{"ok": True}, {"ok": False}]}) is UNDEFINED
    assert answer(policy, "data.t.none", {"a": []}) is True


@pytest.mark.parametrize("replacement", ["{5, 4}", "[5, 4]", '{"k": 5, "l": 4}'])
def test_a_replaced_set_is_walked_in_its_place(replacement: str) -> None:
    policy = SET + f"q := [x | some x in s]\n\nr := x if x := q with data.t.s as {replacement}"
    expected = [4, 5] if replacement.startswith("{5") else [5, 4]
    assert answer(policy, "[data.t.q, data.t.r]", {"a": [1]}) == [[1], expected]


def test_a_rule_is_evaluated_once_walked_and_whole() -> None:
    calls: list[int] = []
    mine = Registry()

    @mine.builtin("acme.note", types.number, returns=types.number, pure=False)
    def note(value: int) -> int:
        calls.append(value)
        return value

    policy = "s contains x if { some y in input.a; x := acme.note(y) }\n\n"
    for rules in (
        "r := [[x | some x in s], count(s), s]",
        "r := [count(s), [x | some x in s]]",
        "r := [walked, s]\n\nwalked := [x | some x in s]",
    ):
        calls.clear()
        engine = Engine({"t.rego": HEADER + policy + rules}, registry=Registry(REGISTRY, mine))
        engine.prepare("data.t.r").value({"a": [1, 2]})
        assert calls == [1, 2], rules
    calls.clear()
    engine.prepare("[data.t.walked, data.t]").value({"a": [1, 2]})
    assert calls == [1, 2]
