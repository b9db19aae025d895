"""Conditions on the same value: what meets all of them is given, and what is read of a body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.rego import REGISTRY, UNDEFINED, Engine
from doorward.rego.tools import Body
from doorward.replay.deciding import Version
from doorward.search.inversion.conjunctions import Conjunctions, Numbers, Text


def compile_allow(conditions: str) -> Engine:
    text = f"package a\n\nallow if {{\n{conditions}\n}}\n"
    return Version.compile(Loaded({"a.rego": text}, {}), deadline=PATIENCE).snapshot.engine


def body_of(conditions: str) -> Body:
    node = compile_allow(conditions).policies.program.root.find(["a", "allow"])
    assert node is not None
    return node.definitions[0].rule.body


def apply(name: str, operands: Sequence[Any]) -> Any:
    builtin = REGISTRY.get(name)
    assert builtin is not None
    return UNDEFINED if UNDEFINED in operands else builtin.call(*operands)


@pytest.mark.parametrize(
    "conditions",
    [
        'regex.match(`^a.*z$`, input.s)\ncount(input.s) == 6\nnot contains(input.s, "b")',
        'startswith(input.s, "/x/")\nglob.match("/*/c*", ["/"], input.s)\ninput.s != "/x/c"',
        'input.s in {"a", "bc", "d"}\ncount(input.s) > 1',
        'endswith(input.s, ".io")\nnot count(input.s) < 9\nnot contains(input.s, "a")',
    ],
)
def test_a_text_meets_all_conditions_on_it(conditions: str) -> None:
    (group,) = Conjunctions().of(body_of(conditions))
    assert isinstance(group, Text)
    text = group.find()
    assert compile_allow(conditions).prepare("data.a.allow").answer({"s": text}) is True


def test_no_text_is_given_where_none_meets_the_conditions() -> None:
    (group,) = Conjunctions().of(body_of('startswith(input.s, "ab")\ncount(input.s) == 1'))
    assert isinstance(group, Text)
    assert group.find() is None


def test_one_condition_and_lengths_alone_are_no_group() -> None:
    conjunctions = Conjunctions()
    assert conjunctions.of(body_of('startswith(input.s, "ab")\ninput.n > 3')) == ()
    assert conjunctions.of(body_of("count(input.xs) > 2\ncount(input.xs) < 4")) == ()


@pytest.mark.parametrize(
    ("conditions", "values"),
    [
        ("input.n % 3 == 2\ninput.n % 5 == 4\ninput.n > 50", {"input.n": 59}),
        ("input.a + 2 * input.b == 20\ninput.a - input.b == 2", {"input.a": 8, "input.b": 6}),
        (
            "input.a + input.b == 1000\ninput.a - input.b == 200",
            {"input.a": 600, "input.b": 400},
        ),
        (
            "input.a + input.b + input.c == 12\ninput.a - input.b == 1\ninput.b - input.c == 1",
            {"input.a": 5, "input.b": 4, "input.c": 3},
        ),
    ],
)
def test_numbers_meet_all_conditions_on_them(conditions: str, values: dict[str, int]) -> None:
    (group,) = Conjunctions().of(body_of(conditions))
    assert isinstance(group, Numbers)
    assert next(group.solutions(apply)) == values


def test_trying_numbers_ends() -> None:
    (group,) = Conjunctions().of(body_of("input.a * input.a == 2\ninput.a > 0"))
    assert isinstance(group, Numbers)
    assert list(group.solutions(apply)) == []


def test_sums_that_floats_cannot_hold_are_left_out() -> None:
    (group,) = Conjunctions().of(body_of(f"input.a + 1 < {10**400}\ninput.a > {10**399}"))
    assert isinstance(group, Numbers)
    assert next(group.solutions(apply)) == {"input.a": 10**399 + 1}


def test_expressions_are_connected_by_what_they_read() -> None:
    body = body_of("p := input.a.b\ncount(p) > 1\ninput.a\ninput.c\nq := input.c.d\nq == 1")
    conjunctions = Conjunctions()
    assert conjunctions.connected(body, 1) == body[:3]
    assert conjunctions.connected(body, 5) == body[3:]
    assert conjunctions.connected(body, 3) == body[3:]
