"""Terms, with what is above them stood in for by functions that write a name."""

from __future__ import annotations

import pytest
from tests.rego.codegen.writing import NO_WRITERS, state_for, term_of, text_of, written

from doorward.rego.codegen.comprehensions import comprehension
from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.state import FunctionState, Writers
from doorward.rego.codegen.terms import constant, count_item, is_known, key, term, terms
from doorward.rego.syntax.nodes import ArrayComprehension, Body, Call, Ref, Var


def writes_ref(state: FunctionState, ref: Ref) -> Operand:
    """A reference becomes a temporary, and binds its operands."""
    for operand in ref.args:
        if isinstance(operand, Var):
            state.env.bind(operand.name, Operand(load(operand.name)))
    return Operand(state.code.bind_temp(load("ref"), state.temps.fresh("read")))


def writes_body(state: FunctionState, body: Body) -> None:
    state.code.test(load("body"))


WRITERS = Writers(
    writes_ref, NO_WRITERS.call, comprehension, writes_body, NO_WRITERS.expression_value
)


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        ('"a"', "'a'", "string"),
        ("true", "True", "boolean"),
        ("[x, 1]", "[x, 1]", "array"),
        ("{x}", "rt.frozenset((rt.to_key(x),))", "set"),
        ('{"a": x}', "{'a': x}", "object"),
        ("[1, [2]]", "k.0", "array"),
        ("1.5", "k.0", "number"),
    ],
)
def test_a_term_becomes_an_expression(text: str, code: str, kind: str) -> None:
    state = state_for()
    state.env.bind("x", Operand(load("x")))
    operand = term(state, term_of(text))
    assert (written(operand), operand.kind) == ([code], kind)
    assert text_of(state) == []


def test_input_must_be_there() -> None:
    state = state_for()
    assert written(term(state, Var("input"))) == ["input"]
    state.code.run(load("next"))
    assert text_of(state) == ["if input is not rt.UNDEFINED:", "    next"]


def test_what_binds_a_variable_is_written_before_what_needs_it() -> None:
    state = state_for(writers=WRITERS)
    state.env.bind("xs", Operand(load("xs")))
    assert not is_known(state, Var("x"))
    assert written(term(state, term_of("[x, xs[x]]"))) == ["[x, read2]"]
    assert is_known(state, Var("x"))


def test_the_key_of_a_value_is_computed_where_it_is_not_known() -> None:
    state = state_for()
    assert written(key(state, constant(state, True)))[0].startswith("k.")
    assert written(key(state, constant(state, 1))) == ["1"]
    assert written(key(state, Operand(load("x"), "string"))) == ["x"]
    assert written(key(state, Operand(load("x")))) == ["rt.to_key(x)"]


def test_a_comprehension_is_closed_again_and_has_one_value() -> None:
    state = state_for(writers=WRITERS)
    comprehension = term_of("[1 | true]")
    assert isinstance(comprehension, ArrayComprehension)
    out = term(state, comprehension)
    state.code.run(out.code)
    assert text_of(state) == [
        "_collected = []",
        "if body:",
        "    _collected.append(1)",
        "_collected",
    ]
    assert state.counters.loops == 0


def test_items_are_counted_where_they_are_limited() -> None:
    free, limited = state_for(), state_for(limited=True)
    count_item(free)
    count_item(limited)
    assert (text_of(free), text_of(limited)) == ([], ["ctx.count_items(1, k.0)"])


def test_a_term_above_is_asked_for_through_the_table() -> None:
    state = state_for()
    with pytest.raises(AssertionError, match="a module above was called"):
        terms(state, [Call(Ref(Var("count"), ()), ())])
