"""Which rules and bodies may have several answers."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import REGISTRY
from doorward.rego.analysis.multiplicity import (
    in_order,
    is_folder,
    is_known,
    is_open,
    is_pattern,
    multiplicity_of_rules,
    ready_equations,
)
from doorward.rego.analysis.passes import CheckOptions, Program, check
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Array, Every, Term, Var
from doorward.rego.syntax.parser import parse_module, parse_query
from doorward.rego.syntax.walk import walk


def program_of(policy: str) -> Program:
    modules = [parse_module(Source("t.rego", f"package t\n\n{policy}\n"))]
    return check(modules, REGISTRY, CheckOptions())


def several(policy: str, prints: bool = False) -> bool:
    """Whether the rule `p` may have several answers."""
    program = program_of(policy)
    node = program.root.find(("t", "p"))
    assert node is not None
    facts = multiplicity_of_rules(node.definitions, program.callees, prints=prints)
    return facts.may_have_several(node.definitions[0].rule)


@pytest.mark.parametrize(
    ("policy", "loops"),
    [
        ("p := 1", False),
        ("p := input.a.b", False),
        ("p := input[_]", True),
        ("p := x if x := input.xs[i]", True),
        ('p := x if { i := "a"; x := input.xs[i] }', False),
        ("p := x if { x := input.xs[i]; i = 1 }", True),
        ("p := x if { [i, y] := input.pair; x := input.xs[i][y] }", False),
        ("p := x if some x in input", True),
        ("p if every x in input { x }", True),
        ("p := [x | some x in input]", False),
        ("p := {x: 1 | some x in input}", False),
        ("p := count([x | some x in input])", False),
        ("p := x if walk(input, [_, x])", True),
        ("p if not input.a", False),
        ("p if not f(g(input[_]))", True),
        ("p if { every x in input { x[_] } }", True),
        ("p if not input.a == input.b", False),
        ("p(x) := x", False),
        ("p([x, y]) := x", False),
        ("p := x if x := data.t.o[_]", True),
        ("p := x if x := data.t.f(input)", False),
        ("p := x if x := data.t.f(input) with input as input[_]", True),
        ("p := x if x := data.t.f(input) with data.t.f as data.t.g", False),
        ("p if { count(input, n); n == 1 }", False),
        ("p if { x = {input[_]: 1}; x }", True),
        ("p contains input[_]", True),
        ("p[x] := 1 if x := input", False),
        ("p := x if some x in data.t.folder", True),
        ("default p := [x | some x in [1]]", False),
    ],
)
def test_a_rule_that_loops_may_have_several_answers(policy: str, loops: bool) -> None:
    assert (
        several(
            f"{policy}\n\nfolder.q := 1\n\no[x] := 1 if some x in input\n\nf(x) := x\n\ng(x) := x"
        )
        is loops
    )


def test_operands_of_a_print_give_one_answer() -> None:
    # A variable that the operand itself would bind is undeclared, as in OPA.
    policy = "p if print(f(input.a)[0])\n\nf(x) := [y | some y in x]"
    assert (several(policy), several(policy, prints=True)) == (False, False)


def test_an_else_branch_and_a_closure_are_known_on_their_own() -> None:
    program = program_of(
        "p := 1 if { every x in input.a { x[_] }; every x in input.b { x } } else := input[_]"
    )
    (definition,) = program.root.find(("t", "p")).definitions  # type: ignore[union-attr]
    facts = multiplicity_of_rules([definition], program.callees, prints=False)
    rule = definition.rule
    bodies = [expr.term.body for expr in rule.body if isinstance(expr.term, Every)]
    assert [facts.may_have_several(body) for body in bodies] == [True, False]
    assert rule.else_rule is not None
    assert facts.may_have_several(rule.else_rule)


def term(text: str) -> Any:
    (expr,) = parse_query(Source("", text))
    return expr.term


def no_arity(call: object) -> None:
    return None


def order(text: str, bound: set[str]) -> list[int]:
    """The order of the items, each of which binds all of its variables."""
    array = term(text)
    assert isinstance(array, Array)
    positions = []
    for n in in_order(array.items, bound, frozenset(), no_arity):
        positions.append(n)
        bound.update(v.name for v in walk(array.items[n]) if isinstance(v, Var))
    return positions


def test_what_binds_comes_before_what_needs() -> None:
    assert order("[1, x, y]", {"x", "y"}) == [0, 1, 2]
    assert order("[x, xs[x]]", {"xs"}) == [1, 0]
    assert order("[x, y]", set()) == [0, 1]


def test_of_two_known_sides_the_left_one_is_the_value() -> None:
    bound = {"a", "b"}
    assert [*ready_equations(Var("a"), Var("b"), bound, frozenset(), no_arity)] == [
        (Var("b"), Var("a"))
    ]
    left, right = term("[x, y]"), term("[y, a]")
    pairs = []
    for pattern, value in ready_equations(left, right, bound, frozenset(), no_arity):
        assert isinstance(pattern, Var)
        pairs.append((pattern.name, value.name))  # type: ignore[union-attr]
        bound.add(pattern.name)
    assert pairs == [("y", "a"), ("x", "y")]
    with pytest.raises(AssertionError, match="unsafe equation"):
        [*ready_equations(Var("x"), Var("z"), bound - {"x"}, frozenset(), no_arity)]


def test_variables_are_open_known_or_patterns() -> None:
    nothing: frozenset[str] = frozenset()
    x: Term = Var("x")
    assert is_open(x, nothing)
    assert not is_open(Var("input"), nothing)
    assert is_open(term('[1, {"a": x}]'), nothing)
    assert not is_open(term("{x}"), nothing)
    assert not is_known(x, nothing, nothing, no_arity)
    assert is_known(Var("data"), nothing, nothing, no_arity)
    assert not is_known(term("[x]"), nothing, nothing, no_arity)
    assert is_pattern(term("[x]"), nothing, nothing, no_arity)
    assert not is_pattern(term("{x}"), nothing, nothing, no_arity)
    # What a collection is made of is not bound by walking it.
    assert not is_known(term("x[x]"), nothing, nothing, no_arity)
    assert not is_known(term("[x][x]"), nothing, nothing, no_arity)
    assert is_known(term("input[x]"), nothing, nothing, no_arity)
    assert is_known(term("input[[x, input]]"), nothing, nothing, no_arity)
    assert not is_known(term("x[input]"), nothing, nothing, no_arity)
    assert is_pattern(term("[input, x]"), nothing, nothing, no_arity)


def test_a_folder_has_rules_below_it_and_none_itself() -> None:
    root = program_of("a.b := 1\n\nf(x) := x").root
    folders = ["data", "data.t", "data.t.a", "data.t.a.b", "data.u", "data[x]", "input"]
    assert [is_folder(root, term(text)) for text in folders] == [True] * 3 + [False] * 4
