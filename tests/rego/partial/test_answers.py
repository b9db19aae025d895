"""Residuals of rare terms decide as the policy does."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.rego.partial.test_operands import compare

from doorward.rego import UNDEFINED, Engine, EvalError


@pytest.mark.parametrize(
    "rules",
    [
        'p if $"{input.x}-{1}-{true}" == "3-1-true"',
        "q := {k: v | some k; v := input.xs[k]}\n\np if q == {0: 2, 1: 0}",
        "q := {k | some k, v in input.xs; v == 2}\n\np if q == {0}",
        "q := {[y | y := input.x]: 1 | true}\n\np if q == {[3]: 1}",
        "p if { input.x; some k; input.xs[k] == 2; k == input.x }",
        "p if { some k; input.xs[k] == 2; k == input.x; input.x }",
        "p if { input.x; some k, v in input.xs; v == 2; k == input.x }",
        "f(a) := a\n\np if { input.y; f(input.x) with f as 3 }",
        "f(a) := a\n\np if { input.y; f(input.x) with f as false }",
    ],
)
def test_a_residual_answers_as_the_policy(rules: str) -> None:
    compare(f"{rules}\n")


SETS = (
    "q[y].b contains x if { some x in [0, 2]; some y in [3, 5] }",
    "q[y].b contains x if { some x in input.xs; some y in [3, 5] }",
    "q[y].b contains x if { some x in [0, 2]; some y in [3, 5]; y == input.x }",
)
OBJECTS = (
    "q[y].b[z] := x if { some x, z in [0, 2]; some y in [3, 5] }",
    "q[y].b[z] := x if { some z, x in input.xs; some y in [3, 5] }",
    "q[y].b[z] := x if { some x, z in [0, 2]; some y in [3, 5]; y == input.x }",
)
READ_ALIKE = (
    "not count(q[5].b) == 2",
    "count(q[input.x].b) == 2",
    "q[input.x].b[2]",
    "not q[5].b",
    "count(q) == 0",
    "count(q) < input.x",
)


@pytest.mark.parametrize(
    ("rules", "conditions"),
    [
        (
            SETS,
            [
                "q[input.x].b == {0, 2}",
                "not q[input.x].b == {0, 2}",
                "input.y; q[3].b == {0, 2}",
                "some k; q[k].b == {0, 2}; k == input.x",
                *READ_ALIKE,
            ],
        ),
        (
            OBJECTS,
            [
                "q[input.x].b == {0: 2, 1: 0}",
                "not q[input.x] == {`b`: {0: 2, 1: 0}}",
                "input.y; q[3] == {`b`: {2: 0, 0: 1}}",
                "some k; q[k].b == {0: 2, 1: 0}; k == input.x",
                *READ_ALIKE,
            ],
        ),
    ],
    ids=["sets", "objects"],
)
def test_what_several_solutions_fill_is_read_as_a_whole(
    rules: tuple[str, ...], conditions: list[str]
) -> None:
    for rule, condition in product(rules, conditions):
        compare(f"{rule}\n\np if {{\n\tinput.x\n\t{condition}\n}}\n")


def test_two_values_of_a_known_key_are_an_error() -> None:
    rules = "package a\n\np if { y := {1: v | some v in [1, 2]}; input.x == y }\n"
    with pytest.raises(EvalError, match="object keys must be unique"):
        Engine({"a.rego": rules}).partial("data.a.p")


@pytest.mark.parametrize(
    "query", ["data.a.p; input.x", "not data.a.p", "data.a.p with input.x as 1", "input.x"]
)
def test_only_a_query_for_one_document_has_definitions(query: str) -> None:
    engine = Engine({"a.rego": "package a\n\ndefault p := 3\n\np := 1 if input.y\n"})
    assert engine.partial(query, only_truth=True).definitions is None
    assert engine.partial("data.a.p").definitions is None
    definitions = engine.partial("data.a.p", only_truth=True).definitions
    assert definitions is not None
    assert definitions.default == 3


def test_a_default_that_is_not_known_is_none_of_the_definitions() -> None:
    rules = "package a\n\ndefault p := [x | x := input.z]\n\np := 2 if input.y\n"
    definitions = Engine({"a.rego": rules}).partial("data.a.p", only_truth=True).definitions
    assert definitions is not None
    assert definitions.default is UNDEFINED
    assert [[len(branch.outcomes) for branch in rule] for rule in definitions.rules] == [[1]]


def test_what_never_holds_by_its_types_leaves_nothing() -> None:
    def texts(rules: str, **options: Any) -> tuple[str, ...]:
        engine = Engine({"a.rego": f"package a\n\n{rules}\n"}, {"n": 5})
        return engine.partial("data.a.p", **options).query_texts

    wrong = "startswith(input.x, data.n)"
    assert texts(f"p if {wrong}\n\np if input.y") == ("input.y",)
    both = f"q if {wrong}\n\nq if {{ input.x == 1; input.y == 2 }}\n\np if not q"
    assert texts(both) == ("not input.x = 1", "not input.y = 2")
    engine = Engine({"a.rego": f"package a\n\np := 1 if {wrong}\n\np := 2 if input.y\n"}, {"n": 5})
    definitions = engine.partial("data.a.p", only_truth=True).definitions
    assert definitions is not None
    assert [[len(branch.outcomes) for branch in rule] for rule in definitions.rules] == [[0], [1]]


def test_each_solution_of_a_set_is_a_definition() -> None:
    rules = "package a\n\np contains 1 if input.x\n\np contains x if some x in input.xs\n"
    definitions = Engine({"a.rego": rules}).partial("data.a.p", only_truth=True).definitions
    assert definitions is not None
    assert definitions.default is UNDEFINED
    assert [[branch.path for branch in rule] for rule in definitions.rules] == [["data.a.p"]]


@pytest.mark.parametrize(
    ("rules", "query", "may_conflict"),
    [
        ("f(x) := 1 if input.c\nf(x) := 2 if x > 3", "data.a.f(input.a)", True),
        ("f(x) := 1 if input.c\nf(x) := 2 if not input.c", "data.a.f(input.a)", False),
        ("f(x) := input.b if input.c\nf(x) := 3 if x != x", "data.a.f(input.a)", False),
        ("p[k] := v if some k, v in input.a\np[k] := 1 if k := input.b", "data.a.p[input.k]", True),
        ("p[k] := 1 if { k := `x`; input.c >= 3 }\np[k] := 2 if { k := `x`; 3 >= input.c }",
         "data.a.p[input.k]", True),
        ("p[k] := 1 if { k := `x`; input.c > 3 }\np[k] := 2 if { k := `x`; 3 > input.c }",
         "data.a.p[input.k]", False),
    ],
)  # fmt: skip
def test_rules_that_may_give_two_values_are_named(
    rules: str, query: str, may_conflict: bool
) -> None:
    partial = Engine({"a.rego": f"package a\n\n{rules}\n"}).partial(query, only_truth=True)
    assert bool(partial.conflicts) is may_conflict
