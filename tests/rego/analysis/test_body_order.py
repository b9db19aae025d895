"""Bodies are evaluated in OPA's order, and what another expression needs comes before it."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import Engine

INPUT = {"xs": [5, 6, 7], "ys": [1, 2, 3], "zs": [[1], [1]]}


def rule(text: str) -> Engine:
    return Engine({"t.rego": f"package t\n\nf(x) := x\n\n{text}\n"})


def order_of(text: str) -> list[str]:
    """The expressions of the rule `p`, as they are written; one that was added is its value."""
    engine = rule(text)
    (definition,) = engine.policies.program.root.children["t"].children["p"].definitions
    source = definition.rule.span.source.text
    return [source[expr.span.start : expr.span.end] for expr in definition.rule.body]


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("p if { x := input.a; x > 1 }", ["x := input.a", "x > 1"]),
        ("p if { x > 1; x = input.a }", ["x = input.a", "x > 1"]),
        ("p if { x = y; y = z; input.a; z = 1 }", ["input.a", "z = 1", "y = z", "x = y"]),
        ("p if { f(x) == y; x = 1; y = 2 }", ["x = 1", "y = 2", "f(x) == y"]),
        ("p if { not f(x); x = input.a }", ["x = input.a", "not f(x)"]),
        ("p if { [x, y] = [y, 1]; x > 0 }", ["[x, y] = [y, 1]", "x > 0"]),
        ("p if { some x; input.xs[x]; x > 0 }", ["some x", "input.xs[x]", "x > 0"]),
        ("p if { y > 1 with input.a as x; x = 1; y = 2 }",
         ["x = 1", "y = 2", "y > 1 with input.a as x"]),
        ("p := input.xs[i] if i > 1", ["input.xs[i]", "i > 1"]),
        ("p contains input.xs[i] if i > 1", ["input.xs[i]", "i > 1"]),
        ("p[input.xs[i]] := 1 if i > 1", ["input.xs[i]", "i > 1"]),
        ("p[i] := input.xs[i]", ["input.xs[i]"]),
        ("p[input.xs[i]] := input.ys[i] if input.a", ["input.a"]),
    ],
)  # fmt: skip
def test_expressions_stand_behind_what_they_need(text: str, order: list[str]) -> None:
    assert order_of(text) == order


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("p := {input.xs[i]: i | i > 0}", {6: 1, 7: 2}),
        ("p := [input.xs[i] | i > 0]", [6, 7]),
        ("p[input.xs[i]] := i", {5: 0, 6: 1, 7: 2}),
        ("p[input.xs[i]] := 1 if i > 0", {6: 1, 7: 1}),
        ("p[input.xs[i]][i] := 1", {5: {0: 1}, 6: {1: 1}, 7: {2: 1}}),
        ("p[i][input.xs[i]] := 1", {0: {5: 1}, 1: {6: 1}, 2: {7: 1}}),
        ("p := [x | x := ys[_]; x > 1] if ys := input.ys", [2, 3]),
    ],
)
def test_heads_bind_what_is_beside_them(text: str, answer: Any) -> None:
    for strict in (False, True):
        query = rule(text).prepare("data.t.p", strict_builtin_errors=strict)
        assert query.value(INPUT) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("p contains z if { count(input.zs[i]) == z; z = i + 1 }", {1}),
        ("p contains x if { z := count(input.zs[i]) + x; x = i + 1 }", {1, 2}),
        ("p contains z if { z = count(input.zs[i]) + y; y = count([1 | i]) }", {2}),
        ("p contains [i, z][1] if { count(input.zs[i]) == z; z = f(i) + 1 }", {1}),
    ],
)
def test_an_expression_binds_what_it_waits_for_through_another(text: str, answer: set[int]) -> None:
    """A call in its operand binds `i`, with which another expression binds what the rest needs."""
    for strict in (False, True):
        query = rule(text).prepare("data.t.p", strict_builtin_errors=strict)
        assert query.value(INPUT) == answer
