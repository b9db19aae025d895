"""What is read before a loop, and before several definitions."""

from __future__ import annotations

import ast
import tracemalloc

from tests.rego.codegen.writing import checked, state_for, text_of

from doorward.rego.codegen.reading_ahead import (
    BodyReads,
    plain_path,
    plain_references,
    prefetch,
    references_of,
    share_reads,
)
from doorward.rego.codegen.state import FunctionState
from doorward.rego.syntax.nodes import Ref, Term


def read_before(query: str, *, traced: bool = False) -> tuple[FunctionState, str]:
    state = state_for(traced=traced)
    BodyReads(state, checked(query)).before(0)
    return state, "\n".join(text_of(state))


def test_nothing_is_read_ahead_without_a_loop() -> None:
    assert read_before("input.a == 1; input.b == 2")[1] == ""


def test_a_loop_waits_for_what_each_round_needs() -> None:
    state, text = read_before("some x in input.xs; x == input.b")
    assert "input.get('xs'" in text
    assert "input.get('b'" in text
    assert state.code.conditional


def test_what_may_fail_ends_the_tests_and_not_the_reading() -> None:
    state, text = read_before("some x in input.xs; count(x) == 1; x == input.b")
    assert "input.get('b'" in text
    # `xs` is tested; `b` is read behind that test, and not tested itself.
    assert state.code.depth == 1


def test_traced_code_reads_nothing_ahead() -> None:
    assert read_before("some x in input.xs; x == input.b", traced=True)[1] == ""


def test_a_body_is_read_ahead_once() -> None:
    state = state_for()
    body = checked("some x in input.xs; some y in input.ys; x == y")
    ahead = BodyReads(state, body)
    ahead.before(0)
    before = text_of(state)
    ahead.before(1)
    assert text_of(state) == before


def references(query: str) -> list[Ref]:
    refs = [ref for expr in checked(query) for ref in references_of(expr)]
    # The operator of a call is a reference, too.
    return [ref for ref in refs if ref.args]


def test_what_a_with_may_redirect_is_no_reference_of_the_body() -> None:
    assert len(references("input.a; [x | x := input.b]")) == 2
    assert references("input.a with input.c as 1") == []


def test_references_in_closures_are_not_read_in_any_case() -> None:
    (expr,) = checked("[input.a, [x | x := input.b]] == [1, {input.c: input.d}]")
    term = expr.term
    assert isinstance(term, Term)
    paths = [plain_path(state_for().plan, ref) for ref in plain_references(term)]
    assert paths == [("input", "a"), ("input", "c"), ("input", "d")]


def test_an_object_of_which_three_members_are_read_is_shared() -> None:
    two, three = state_for(), state_for()
    share_reads(two, references("input.a.b; input.a.c"))
    share_reads(three, references("input.a.b; input.a.c; input.a.d"))
    assert text_of(two) == []
    assert "rt.getter" in text_of(three)[-1]


def test_a_long_reference_takes_no_quadratic_memory() -> None:
    long = references(f"input{'.a' * 5_000}")
    tracemalloc.start()
    try:
        share_reads(state_for(), [*long, *long])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20  # 100 MB for each of its prefixes
    finally:
        tracemalloc.stop()


def test_objects_on_the_way_to_others_are_not_shared() -> None:
    state = state_for()
    names = "input.a.b.c.d; input.a.b.c.e; input.a.b.c.f; input.a.x.y; input.a.x.z"
    share_reads(state, references(names))
    text = "\n".join(text_of(state))
    assert text.count("rt.getter") == 2
    base = ast.Name("input")
    assert state.reads.nearest(base, ("a", "b", "c", "g"))[1] == ("g",)
    assert state.reads.nearest(base, ("a", "q", "r"))[1] == ("q", "r")
    assert state.reads.nearest(base, ("b", "q"))[1] == ("b", "q")


def test_what_the_first_definition_reads_is_read_for_all() -> None:
    state = state_for("p := 1 if input.x")
    (path,) = references("input.a.b")
    prefetch(state, path)
    assert state.reads.knows(("input", "a", "b"))
    (expr,) = checked("data.t.p", "p := 1 if input.x")
    assert isinstance(expr.term, Ref)
    prefetch(state, expr.term)
    assert state.reads.knows(("ctx", 0))
    assert not state.code.conditional
