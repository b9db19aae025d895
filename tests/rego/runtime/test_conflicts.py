"""Objects whose rules conflict: a lookup sees the pieces at its path, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from doorward.rego import Engine, Environment, EvalError
from doorward.rego.runtime.conflicts import Record
from doorward.rego.source import NOWHERE


def record() -> Record:
    new = Record()
    new.insert({}, "a", 1, NOWHERE)
    new.insert({}, "b", {"x": 2}, NOWHERE)
    new.insert_at({}, ("b", "y"), 3, NOWHERE)
    new.insert_member_at({}, ("c", "x"), 4, NOWHERE)
    new.insert_member_at({}, ("c", "x"), 5, NOWHERE)
    new.insert_at({}, ("d", "x"), 6, NOWHERE)
    new.insert_at({}, ("d", "x"), 7, NOWHERE)
    new.insert({}, True, 8, NOWHERE)
    new.open_at({}, ("e", "x"), NOWHERE)
    return new


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (("a",), {"a": 1}),
        (("b", "x"), {"b": {"x": 2}}),
        (("c",), {"c": {"x": frozenset({4, 5})}}),
        (("d", "y"), {}),
        (("e", "x"), {"e": {"x": {}}}),
        ((1,), {}),
        (("none", "x"), {}),
    ],
)
def test_a_lookup_sees_what_concerns_it(path: tuple[Any, ...], want: object) -> None:
    assert record().part(path) == want


@pytest.mark.parametrize("path", [("b",), ("b", "y"), ("b", "y", "z"), ("d",), ("d", "x")])
def test_a_conflict_that_concerns_it_fails_a_lookup(path: tuple[Any, ...]) -> None:
    with pytest.raises(EvalError, match="object keys must be unique"):
        record().part(path)


MANY = "\n".join(
    [f'q[k] := v if {{ input.n == "{n}"; some [k, v] in input.pairs }}' for n in range(9)]
)


def policies() -> Iterator[str]:
    yield "q[k] := v if some [k, v] in input.pairs"
    yield "q[p[0]] := p[1] if some p in input.pairs"
    yield MANY  # a table chooses among the definitions
    yield "q[k] := v if { some [k, v] in input.pairs; every x in [1] { x == 1 } }\n\nq.z.z := 1"


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("policy", list(policies()), ids=range(4))
def test_every_kind_of_rule_answers_at_keys_without_a_conflict(policy: str, traced: bool) -> None:
    query = "[x | some k in input.keys; x := data.t.q[k]]"
    engine = Engine({"t.rego": f"package t\n\n{policy}\n"}, traced=traced)
    input = {"n": "7", "pairs": [["a", 1], ["b", 2], ["b", 3], ["c", 4]], "keys": ["a", "c", "d"]}
    assert engine.prepare(query).value(input) == [1, 4]
    assert engine.prepare("data.t.q.c").value(input) == 4
    for conflicting in ("data.t.q.b", "data.t.q", "count(data.t.q)", "data.t.q[_] == 1"):
        with pytest.raises(EvalError, match=re.escape("object keys must be unique")):
            engine.prepare(conflicting).results(input)
    whole = {**input, "pairs": [["a", 1], ["c", 4]]}
    assert engine.prepare("data.t.q.a").value(whole) == 1


def test_rules_with_a_conflict_are_asked_twice_and_not_for_each_lookup() -> None:
    printed: list[str] = []
    policy = "package t\n\nq[k] := v if { print(1); some [k, v] in input.pairs }\n"
    environment = Environment(on_print=lambda text, _: printed.append(text))
    engine = Engine({"t.rego": policy}, environment=environment)
    query = engine.prepare("count([x | some k in input.keys; x := data.t.q[k]])")
    pairs = [["b", 0], ["b", 1], *[[f"k{n}", n] for n in range(50)]]
    assert query.value({"pairs": pairs, "keys": [f"k{n}" for n in range(50)]}) == 50
    assert len(printed) == 2
