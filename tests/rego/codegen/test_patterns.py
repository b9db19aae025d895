"""Patterns: what is bound and what is tested."""

from __future__ import annotations

import ast

import pytest
from tests.rego.codegen.writing import state_for, term_of, text_of, written

from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.patterns import equality, is_open, loop_target, match, match_target
from doorward.rego.codegen.state import FunctionState
from doorward.rego.codegen.terms import constant


def matched(pattern: str, value: Operand, state: FunctionState | None = None) -> list[str]:
    state = state or state_for()
    match(state, term_of(pattern), value)
    state.code.run(load("end"))
    return text_of(state)


def test_a_new_variable_is_bound() -> None:
    state = state_for()
    assert matched("x", Operand(load("v")), state) == ["x = v", "end"]
    assert written(state.env["x"]) == ["x"]


def test_a_variable_that_is_bound_is_compared() -> None:
    state = state_for()
    state.env.bind("x", Operand(load("x"), "string"))
    assert matched("x", Operand(load("v")), state) == ["if x == v:", "    end"]


def test_a_literal_is_bound_without_a_name() -> None:
    state = state_for()
    assert matched("x", constant(state, "a"), state) == ["end"]


def test_an_array_is_taken_apart_behind_a_test_for_its_shape() -> None:
    assert matched('["a", x]', Operand(load("v"))) == [
        "if rt.type(v) is rt.list and rt.len(v) == 2 and (v[0] == 'a'):",
        "    x = v[1]",
        "    end",
    ]


def test_an_object_is_taken_apart_by_its_keys() -> None:
    lines = matched('{"a": x}', Operand(load("v")))
    assert lines[0] == "if rt.type(v) is rt.dict and rt.len(v) == 1:"
    assert lines[1].strip().endswith("v.get('a', rt.UNDEFINED)")
    assert lines[-1].strip() == "end"


def test_a_loop_assigns_a_new_variable_itself() -> None:
    state = state_for()
    x, wildcard = term_of("x"), term_of("_")
    assert is_open(state, x)
    target = loop_target(state, x)
    assert target.id == "x"
    assert not is_open(state, x)
    match_target(state, x, target)
    assert text_of(state) == []
    assert loop_target(state, wildcard).id != "_"
    again = loop_target(state, x)
    match_target(state, x, again)
    assert text_of(state)[0].startswith("if ")


@pytest.mark.parametrize(
    ("a", "b", "test"),
    [
        (Operand(load("x")), Operand(ast.Constant(value=True), "boolean", True), "x is True"),
        (Operand(load("x")), Operand(ast.Constant(value="a"), "string", "a"), "x == 'a'"),
        (Operand(load("x")), Operand(ast.Constant(value=1), "number", 1), "rt.equal(x, 1)"),
        (Operand(load("x")), Operand(ast.Constant(value=2), "number", 2), "x == 2"),
        (Operand(load("x"), "number"), Operand(load("y"), "number"), "x == y"),
        (
            Operand(load("x")),
            Operand(load("y")),
            "x == y if rt.type(x) is rt.str else rt.equal(x, y)",
        ),
        (
            Operand(load("x")),
            Operand(load("y"), is_tree=True),
            "x == y and (rt.type(x) is rt.str or rt.equal(x, y))",
        ),
    ],
)
def test_equality_is_pythons_where_that_is_exact(a: Operand, b: Operand, test: str) -> None:
    assert written(equality(a, b)) == [test]
