"""Calls of built-ins and functions, on operands that are written as they are."""

from __future__ import annotations

import pytest
from tests.rego.codegen.writing import checked, state_for, text_of, written

from doorward.rego.codegen.calls import call_into, call_value, condition, has_output, predicate
from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.state import FunctionState
from doorward.rego.syntax.nodes import Call

POLICY = "f(x) := x"


def state_and_call(text: str, *, limited: bool = False) -> tuple[FunctionState, Call]:
    """The call as it comes to code generation, where `x` and `y` are bound."""
    (*_, expr) = checked(f"x = input; y = input; {text}", POLICY)
    assert isinstance(expr.term, Call)
    state = state_for(POLICY, limited=limited)
    for name in ("x", "y"):
        state.env.bind(name, Operand(load(name)))
    return state, expr.term


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("x == 2", "x == 2"),
        ("x < 2", "x < 2 if rt.type(x) is rt.int else rt.less(x, 2)"),
        ('x in {"a", "b"}', "rt.type(x) is rt.str and x in k.0"),
        ('"a" in x', "'a' in x if rt.type(x) is rt.list else rt.contains('a', x)"),
        ("x, y in [1]", "rt.contains_pair(x, y, k.0)"),
    ],
)
def test_comparisons_are_tests(text: str, test: str) -> None:
    state, call = state_and_call(text)
    code = condition(state, call)
    assert code is not None
    assert written(code) == [test]


def test_other_calls_are_no_conditions() -> None:
    state, call = state_and_call("count(x)")
    assert condition(state, call) is None
    assert predicate(state, call) is None


def test_a_built_in_that_says_yes_or_no_is_a_test() -> None:
    state, call = state_and_call('startswith(x, "a")')
    code = predicate(state, call)
    assert code is not None
    assert "x.startswith('a')" in text_of(state)[1]


def test_a_built_in_that_fails_is_undefined() -> None:
    state, call = state_and_call("ceil(x)")
    state.code.run(call_value(state, call).code)
    text = "\n".join(text_of(state))
    assert "except rt.CALL_ERRORS as" in text
    assert "ctx.failed(" in text


def test_a_prepared_pattern_is_compiled_now() -> None:
    state, call = state_and_call('regex.match("^a$", x)')
    code = predicate(state, call)
    assert code is not None
    assert text_of(state) == []


def test_a_function_is_called_by_its_name_and_counted() -> None:
    state, call = state_and_call("data.t.f(x)")
    call_value(state, call)
    state.code.run(load("end"))
    assert text_of(state)[0] == "_f = data.t.f(ctx, x)"
    assert state.counters.calls == 1


def test_the_output_is_matched_with_the_last_operand() -> None:
    state, call = state_and_call("count(x, n)")
    assert has_output(state, call)
    call_into(state, call)
    state.code.run(load("n"))
    assert text_of(state)[-1].strip() == "n"


def test_what_is_replaced_is_looked_up_first() -> None:
    state, call = state_and_call("count(x) with count as 1")
    plan = state.plan
    plan.mocked = frozenset({"count"})
    state.code.run(call_value(state, call).code)
    assert "ctx.mocks.get('count')" in "\n".join(text_of(state))


def test_results_are_counted_where_they_are_limited() -> None:
    state, call = state_and_call("upper(x)", limited=True)
    call_value(state, call)
    assert "ctx.count_size(" in "\n".join(text_of(state))
