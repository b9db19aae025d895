"""What is safe as it is written has the same order when it is taken apart; the rest is."""

from __future__ import annotations

import pytest

from doorward.rego.analysis import body_order, passes
from doorward.rego.analysis.passes import CheckOptions, Program
from doorward.rego.analysis.written_order import is_rule_in_order
from doorward.rego.builtins import REGISTRY
from doorward.rego.shared import Source
from doorward.rego.syntax.nodes import Module, Rule
from doorward.rego.syntax.parser import parse_module

PLAIN = [
    "p if input.x == 1",
    "p if { x := input.xs[i]; x > i; not x == 3 }",
    "p contains x if { some x in input.xs; x.y }",
    "p contains [k, v] if { some k, v in input.xs; count(v) > 1 }",
    "p[k] := v if { some k; v := input.xs[k] }",
    "p := {1, 2}",
    "p if input.x = input.y",
    "p := 1 if input.a else := x if { x := input.b } else := 3",
    "p if g(input.x, input.y[_].z)",
    "g(a, b) := c if { c := a.x[b] }",
    "default p := 1",
    "p if input.x with input.x as 1",
    "p if { x := input.y; input.xs[_] == 1 with input as [x, {1: 2}] with data.a.b as x }",
    "p if { not input.x with input as {1, {2}} }",
    "p if { count(input.x) == 1 with input as [x | some x in data.xs] }",
    "p := [x | some x in input.xs]",
    "p if { ys := {y | y := input.xs[i]}; some i; input.zs[i] in ys }",
    "p := {x: [y | y := x.ys[_]] | some x in input.xs}",
    "p if every k, x in input.xs { x > 1; k != x }",
    "p if { ys := {y | y := input.xs[i]; i > 1}; zs := {z | z := input.xs[j]}; ys == zs }",
    "p if { not count([x | some x in input.xs]) > 2 }",
    "p if { [x, 1, [y, _]] := input.x; x == y }",
    "p if { some [x, 1] in input.xs; x > 1 }",
    "p if { x = input.x; input.y = y; x == y }",
    "p if { x = input.xs[i]; i > 1; x = i }",
]

LEFT_TO_OTHERS = [
    "p if { ys := {y | y := input.xs[i]}; input.zs[i] in ys }",
    "p if { input.xs[i] == count([y | y := input.ys[i]]) }",
    "p if { ys := {y | {z | z := input.xs[i]} == y; y := input.zs[i]}; count(ys) == 1 }",
    "p := [x | some x in input.xs; not x.y]",
    "p := [input.xs[i] | i > 1]",
    "p if every x in input.xs { not x }",
    "p if every x in input.xs[_] { x }",
    "p if { [x, 1] := [1, 2] }",
    "p if { [x, 1] = input.x }",
    'p if { {"a": x} := input.x; x }',
    "p if { x = y; y := input.x }",
    "p if { x = input.xs[x] }",
    "p if { not x = input.x }",
    "p if { some [x, y] in [y]; x }",
    "p if { x > 1; x := input.x }",
    "p if { not input.xs[_] }",
    "p if input.x with input as data.xs[_]",
    "p if { input.x == 1 with input as y; y := 1 }",
    "p if { count(input.x) == 1 with count as 1 }",
    "p := x if { count(input.xs, x) }",
    "p if { walk(input, [path, _]); path[0] }",
    "p if { print(input.x) }",
    'p := $"{input.x}"',
    "p := input.xs[_]",
    "p if { input.xs[i] == i }",
    "p if { {input.xs[_]} == 1 }",
    "q(input.x) := 1",
    "p := y",
    "p if { x := x }",
    "p := eq(1, 1)",
    "p if { x := eq(1, input.y) }",
]


def parsed(text: str) -> tuple[Program, Rule]:
    """The program up to safety, and its first rule."""
    source = Source("p.rego", f"package p\n\n{text}\n\ng(a, b) if a == b\n")
    program = Program([parse_module(source)], REGISTRY, CheckOptions())
    for run in passes.PASSES[: passes.PASSES.index(passes.order_bodies)]:
        run(program)
    return program, program.modules[0].rules[0]


@pytest.mark.parametrize("text", PLAIN)
def test_the_order_is_the_same_when_rules_are_taken_apart(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, rule = parsed(text)
    assert is_rule_in_order(rule, program.callees.arity)
    quick = order(program)
    monkeypatch.setattr(body_order, "is_rule_in_order", lambda *_: False)
    assert order(program) == quick


def order(program: Program) -> list[Module]:
    modules, errors = body_order.order_modules(program.modules, program.callees)
    assert errors == []
    return list(modules)


@pytest.mark.parametrize("text", LEFT_TO_OTHERS)
def test_nothing_is_said_of_the_others(text: str) -> None:
    program, rule = parsed(text)
    assert not is_rule_in_order(rule, program.callees.arity)
