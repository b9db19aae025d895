"""Bodies, written with the real modules below them."""

from __future__ import annotations

import pytest
from tests.rego.codegen.writing import checked, program_of, state_for, text_of

from doorward.rego.analysis.multiplicity import closure_outer, multiplicity_of_query
from doorward.rego.codegen.bodies import body, expression_value, trace
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.function import WRITERS
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.state import FunctionKind, FunctionState


def lines(query: str, **options: bool) -> list[str]:
    parsed = checked(query)
    callees = program_of().callees
    several = multiplicity_of_query(parsed, closure_outer(parsed, ()), callees, prints=True)
    plan = Plan(callees, **options)  # type: ignore[arg-type]
    state = FunctionState(plan, Constants(), WRITERS, FunctionKind.QUERY, several)
    body(state, parsed)
    state.code.run(load("end"))
    return text_of(state)


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("not input", "if not (input is not rt.UNDEFINED and input is not False):"),
        ("some x in input; x == 2", "for x in ctx.values(input):"),
        ("every x in input { x == 2 }", "if not x == 2:"),
        ("false", "if False:"),
        ("input with input as 1", "_ctx = ctx.replace(((k.0, 1),), (), (), k.1)"),
        ("every x in input { x[_] == 2 }", "def _holds2():"),
    ],
)
def test_an_expression_becomes_a_test_or_a_loop(query: str, line: str) -> None:
    assert line in [each.strip() for each in lines(query)]


def test_whether_a_body_holds_is_one_test_where_it_can_be() -> None:
    assert not any("= True" in line for line in lines("x = input; not x == 2"))
    flagged = lines("every x in input { x.a == 2; x.b == x.c }")
    assert any(line.strip() == "_holds = False" for line in flagged)
    looped = lines("every x in input { x[_] == 2 }")
    assert any("return True" in line for line in looped)


def test_a_print_is_left_out_where_nobody_listens() -> None:
    assert lines("print(input)") == ["end"]
    assert "ctx.print(" in "\n".join(lines("print(input)", prints=True))


def test_traced_code_reports_what_it_evaluates() -> None:
    state = state_for(traced=True)
    (expr,) = checked("input")
    trace(state, expr)
    trace(state, expr, holds=True)
    assert text_of(state) == ["ctx.trace(k.0, False, {})", "ctx.trace(k.1, True, {})"]
    untraced = state_for()
    trace(untraced, expr)
    assert text_of(untraced) == []


def test_a_with_ends_with_its_expression() -> None:
    state = state_for(writers=WRITERS)
    (expr,) = checked("input.a with input as {}")
    expression_value(state, expr)
    assert state.env.evaluation == "ctx"
    assert "ctx.replace(" in "\n".join(text_of(state))
