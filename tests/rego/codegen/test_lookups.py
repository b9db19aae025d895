"""Lookups in values whose origin does not matter."""

from __future__ import annotations

import pytest
from tests.rego.codegen.writing import state_for, term_of, text_of, written

from doorward.rego.codegen.emit.ast_nodes import load, store
from doorward.rego.codegen.lookups import constant_names, lookup_path, loop_over, read, share
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.state import FunctionKind, FunctionState
from doorward.rego.codegen.terms import constant
from doorward.rego.syntax.nodes import Ref, Term


def operands(text: str) -> tuple[Term, ...]:
    ref = term_of(text)
    assert isinstance(ref, Ref)
    return ref.args


def test_constant_names_come_in_one_step() -> None:
    assert constant_names(operands("x.a.b[1].c")) == ["a", "b"]
    state = state_for()
    lookup_path(state, Operand(load("input")), operands("x.a.b"))
    assert "input['a'].get('b', rt.UNDEFINED)" in "\n".join(text_of(state))


def test_a_path_is_read_once() -> None:
    state = state_for()
    for _ in range(2):
        lookup_path(state, Operand(load("input")), operands("x.a"))
    assert "\n".join(text_of(state)).count("input.get('a'") == 1


def test_base_data_is_read_by_subscript() -> None:
    state = state_for()
    temp = read(state, load("data"), ["a", "b"])
    assert "data['a']['b']" in "\n".join(text_of(state))
    assert state.reads.is_of_data(temp)


def test_an_item_that_a_loop_came_to_may_lack_everything() -> None:
    state = state_for()
    read(state, load("item"), ["a", "b"])
    assert "item.get('a', rt.NOTHING).get('b', rt.UNDEFINED)" in "\n".join(text_of(state))


def test_a_long_path_is_looked_up_by_a_call() -> None:
    state = state_for()
    read(state, load("input"), ["a"] * 17)
    assert text_of(state)[0].startswith("_a = rt.lookup_path(input, path.a.a")


def test_an_open_operand_becomes_a_loop() -> None:
    state = state_for()
    value = lookup_path(state, Operand(load("xs")), operands("xs[i]"))
    state.code.run(value.code)
    assert text_of(state) == ["for i, _item in ctx.items(xs):", "    _item"]
    assert state.counters.loops == 1


@pytest.mark.parametrize(("kind", "counted"), [(FunctionKind.RULE, 1), (FunctionKind.FUNCTION, 2)])
def test_what_runs_once_leaves_two_short_loops_uncounted(kind: FunctionKind, counted: int) -> None:
    state = state_for(kind=kind)
    for name in ("x", "y", "z"):
        loop_over(state, store(name), Operand(load("xs")))
    state.code.run(load("x"))
    plain = [line for line in text_of(state) if "rt.len(xs) <= 8" not in line and "for" in line]
    assert len(plain) == counted


def test_a_constant_is_put_in_order_when_compiling() -> None:
    state = state_for()
    loop_over(state, store("x"), constant(state, frozenset({"b", "a"})))
    state.code.run(load("x"))
    assert ["a", "b"] in state.constants.names.values()
    assert text_of(state) == ["for x in k.1:", "    x"]


def test_members_of_a_shared_object_are_read_by_its_getter() -> None:
    state: FunctionState = state_for()
    share(state, "input", ["a"])
    member = read(state, load("input"), ["a", "b"])
    getter, use = text_of(state)[-2:]
    assert getter.endswith(" else rt.getter(_a)")
    assert use == f"{written(member)[0]} = {getter.partition(' ')[0]}('b', rt.UNDEFINED)"
