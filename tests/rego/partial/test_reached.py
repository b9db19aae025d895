"""What an expression may reach: rules behind references, calls and bodies inside it."""

from __future__ import annotations

import pytest

from doorward.rego import Engine
from doorward.rego.partial.core import DATA, Constant, Expr, Rule
from doorward.rego.partial.program import Program
from doorward.rego.partial.reached import data_references, has_body, reached

MODULES = {
    "p.rego": "package p\n\nf(x) := g(x)\n\ng(x) := x if data.q.r\n\nh := 1\n",
    "q.rego": "package q\n\nr if input.a\n\nunused := 2\n",
}


def expression(text: str) -> tuple[Program, Expr]:
    policy = f"package t\n\np if {{ {text} }}\n"
    engine = Engine({**MODULES, "t.rego": policy})
    program = engine.policies.lowered._program
    node = program.find((DATA, Constant("t"), Constant("p")))
    assert node is not None
    (rule,) = node.own
    return program, rule.body[-1]


@pytest.mark.parametrize(
    ("text", "is_body", "rules"),
    [
        ("input.a == 1", False, 0),
        ("data.p.h == 1", False, 1),
        ("every x in [1] { data.p.f(x) }", True, 3),
        ("count({1 | data.p.f(1)}) == 1", False, 0),
        ("[x | x := data.p.h] = [y]", True, 1),
        ("data.p.h with input.a as 1", True, 1),
    ],
)
def test_what_is_reached(text: str, is_body: bool, rules: int) -> None:
    program, expr = expression(text)
    assert has_body(expr) is is_body
    bodies = [each for each in reached(program, expr) if isinstance(each, Rule)]
    assert len(bodies) == rules
    assert bool(list(data_references(expr))) is bool(rules)
