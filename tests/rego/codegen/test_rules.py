"""Which functions the rules at a node become."""

from __future__ import annotations

import ast

import pytest
from tests.rego.codegen.writing import program_of

from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.rules import rule_functions


def functions(policy: str, name: str = "p") -> dict[str, str]:
    program = program_of(policy)
    plan = Plan(program.callees, program.constant, program.mocked)
    node = plan.root.find(("t", name))
    assert node is not None
    created = rule_functions(node, plan, Constants())
    return {function.name: ast.unparse(function) for _, function in created}


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("p := 1", "return 1"),
        ("default p := 2\n\np := 1 if input.x", "return 2"),
        ("p := 1 if input.x\n\np := 2 if input.y", "answer = rt.one(answer, 2, k."),
        ("p(x) := 1 if x\n\np(x) := 2 if input.y", "rt.one_of_function(answer, 2"),
        ("p contains 1", "out.add(1)"),
        ("p[x] := 1 if some x in input", "insert(out, x, 1, k.0)"),
        ("p[x].a[y] := 1 if some x, y in input", "insert_at(out, (x, 'a', y), 1, k.0)"),
        ("p[x] contains 1 if some x in input", "insert_member_at(out, (x,), 1, k.0)"),
        ("p := 1 if input.x\n\nelse := 2", "return 2"),
        ("p := 1 if input.x\n\nelse := 2\n\np := 3 if input.y", "def chain"),
    ],
)
def test_a_rule_returns_or_collects(policy: str, line: str) -> None:
    assert line in functions(policy)["data.t.p"]


def test_answers_are_compared_only_where_there_may_be_several() -> None:
    assert "rt.one(" not in functions("p := x if x := input.a")["data.t.p"]
    assert "rt.one(" in functions("p := x if x := input.a[_]")["data.t.p"]
    # Every answer is the same: the first one is enough.
    assert "rt.one(" not in functions("p := 1 if input.a[_]")["data.t.p"]


def test_a_parameter_is_matched_before_the_body_binds_its_key() -> None:
    text = functions("p({y: z}) := z if y = input.k")["data.t.p"]
    assert text.index("if not False:") < text.index("input.get('k'")
    assert "arg0" not in text.partition("\n")[2]


def test_a_parameter_with_a_reference_is_an_equation_of_the_body() -> None:
    text = functions("p({y.a: z}) := z if y = input.k")["data.t.p"]
    assert text.index("input.get('k'") < text.index("arg.get(")


def test_a_table_leaves_each_definition_a_function() -> None:
    policy = "\n\n".join(f'p := {n} if input.x == "{n}"' for n in range(8))
    names = functions(policy)
    assert list(names) == [*(f"data.t.p#{n}" for n in range(8)), "data.t.p"]
    assert "rt.candidates(table.data.t.p, " in names["data.t.p"]
