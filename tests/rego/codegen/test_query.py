"""The two functions of a query."""

from __future__ import annotations

import ast

from tests.rego.codegen.writing import checked, program_of

from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.query import query_bindings, query_value, query_variables


def test_variables_stand_in_the_order_of_the_text() -> None:
    replaced = "lower(`a`) == `A` with lower as upper"
    body = checked(f"y = 1; x = [z | z = 2]; _ = 3; some w in [4]; {replaced}")
    assert query_variables(body, program_of().callees.arity) == ["y", "x", "w@1"]


def test_a_row_holds_the_variables_and_then_the_values() -> None:
    body = checked("x = 1; input.a")
    plan = Plan(program_of().callees)
    text = ast.unparse(query_bindings("query", body, ["x", "gone"], plan, Constants()))
    assert "out.append((1, rt.UNDEFINED, True, " in text
    assert text.endswith("return out")


def test_a_value_is_returned_where_it_comes_up() -> None:
    body = checked("input.a")
    text = ast.unparse(query_value("q", body, Plan(program_of().callees), Constants()))
    assert text.endswith("return rt.UNDEFINED")
    assert text.count("return") == 3
