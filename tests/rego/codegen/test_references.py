"""References below `input` and `data`, with and without rules there."""

from __future__ import annotations

from tests.rego.codegen.writing import checked, state_for, text_of

from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.references import ref, rule_answer, rule_value
from doorward.rego.codegen.state import FunctionState
from doorward.rego.syntax.nodes import Ref

POLICY = "p := 1 if input.x\n\nhttp := input.a.b\n\no[k] := 1 if some k in input.ks\n\nf(x) := x"


def state_and_ref(text: str) -> tuple[FunctionState, Ref]:
    (expr,) = checked(f"_ = {text}", POLICY)
    reference = expr.term.args[1]  # type: ignore[union-attr]
    assert isinstance(reference, Ref)
    return state_for(POLICY), reference


def lines(text: str) -> list[str]:
    state, reference = state_and_ref(text)
    state.code.run(ref(state, reference).code)
    return text_of(state)


def test_a_rule_is_evaluated_once_and_kept() -> None:
    assert lines("data.t.p") == [
        "_p = _cache.get(0, rt.MISSING)",
        "if _p is rt.MISSING:",
        "    _p = _cache[0] = data.t.p(ctx)",
        "if _p is not rt.UNDEFINED:",
        "    _p",
    ]


def test_a_rule_that_is_another_name_for_input_is_not_evaluated() -> None:
    text = "\n".join(lines("data.t.http.c"))
    assert "input['a']['b'].get('c', rt.UNDEFINED)" in text
    assert "data.t.http" not in text


def test_where_no_rule_is_base_data_is_read() -> None:
    assert "data['u']['v']" in "\n".join(lines("data.u.v"))


def test_exact_code_evaluates_rules_that_make_an_object_for_one_key() -> None:
    state, reference = state_and_ref("data.t.o.a")
    assert "data.t.o(ctx)" in "\n".join(lines("data.t.o.a"))
    state.plan.exact = True
    state.code.run(ref(state, reference).code)
    assert "data.t.o.part(ctx, ('a',))" in "\n".join(text_of(state))


def test_a_folder_is_a_document() -> None:
    assert lines("data.t")[0] == "_document = ctx.document_at(k.0)"


def test_an_open_operand_walks_the_tree() -> None:
    assert "ctx.children(_node)" in "\n".join(lines("data[x].p"))


def test_an_answer_is_known_for_its_evaluation_only() -> None:
    state, _ = state_and_ref("data.t.p")
    node = state.plan.root.find(("t", "p"))
    assert node is not None
    first = rule_value(state, node)
    assert rule_value(state, node) == first
    state.env.enter("_9")
    assert rule_value(state, node) != first
    assert isinstance(first, Operand)


def test_an_answer_may_be_asked_for_without_a_test() -> None:
    state, _ = state_and_ref("data.t.p")
    node = state.plan.root.find(("t", "p"))
    assert node is not None
    rule_answer(state, node)
    state.code.run(load("end"))
    assert text_of(state)[-1] == "end"
