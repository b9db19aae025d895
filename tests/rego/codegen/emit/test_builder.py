"""Blocks, scopes and inner functions, of statements that mean nothing."""

from __future__ import annotations

import ast

import pytest

from doorward.rego.codegen.emit.ast_nodes import call, load, store
from doorward.rego.codegen.emit.builder import MAX_DEPTH, MAX_LOOPS, MAX_TESTS, Builder
from doorward.rego.codegen.emit.temporaries import Temporaries
from doorward.rego.source import Source, Span


@pytest.fixture
def code() -> Builder:
    return Builder(Temporaries())


def lines(code: Builder) -> list[str]:
    return ast.unparse(code.written).split("\n")  # type: ignore[arg-type]


def test_what_follows_a_test_stands_in_it(code: Builder) -> None:
    code.test(load("a"))
    code.run(load("b"))
    assert lines(code) == ["if a:", "    b"]
    assert code.conditional


def test_tests_in_a_row_are_joined_up_to_a_limit(code: Builder) -> None:
    for _ in range(MAX_TESTS + 1):
        code.test(load("a"))
    code.run(load("b"))
    assert lines(code) == ["if " + " and ".join(["a"] * MAX_TESTS) + ":", "    if a:", "        b"]


def test_a_test_that_says_more_replaces_the_one_for_undefined(code: Builder) -> None:
    code.test_defined(load("a"))
    code.test(ast.Compare(left=load("a"), ops=[ast.Eq()], comparators=[ast.Constant(value=1)]))
    code.run(load("b"))
    assert lines(code) == ["if a == 1:", "    b"]


def test_a_scope_closes_what_was_opened_in_it(code: Builder) -> None:
    with code.scope():
        code.loop(store("x"), load("xs"))
        code.run(load("x"))
        assert (code.loops, code.depth, code.conditional) == (1, 1, True)
    code.run(load("end"))
    assert (code.loops, code.depth, code.conditional) == (0, 0, False)
    assert lines(code) == ["for x in xs:", "    x", "end"]


def test_what_is_captured_stands_where_it_is_spliced(code: Builder) -> None:
    with code.capture() as statements:
        code.run(load("second"))
    code.run(load("first"))
    code.splice(statements)
    assert lines(code) == ["first", "second"]
    assert not code.conditional


def test_the_function_goes_on_inside_where_python_nests_no_deeper(code: Builder) -> None:
    for n in range(MAX_LOOPS + 1):
        code.loop(store(f"x{n}"), load("xs"))
    code.return_value(load("x0"))
    function = code.function("f", ["xs"], [])
    assert len(code.tails) == 1
    assert ast.unparse(code.tails[0][-1]) == "return rt.MISSING"
    module = ast.Module(body=[function], type_ignores=[])
    assert "def rest():" in ast.unparse(module)
    compile(module, "f", "exec")


def test_tests_alone_nest_no_deeper_either(code: Builder) -> None:
    for n in range(MAX_DEPTH + 1):
        code.assign(f"x{n}", load("a"))
        code.test(load(f"x{n}"))
    code.return_value(load("a"))
    compile(ast.Module(body=[code.function("f", ["a"], [])], type_ignores=[]), "f", "exec")
    # In an inner function, where each test is a guard.
    assert code.depth == 0


def test_an_inner_function_is_written_apart(code: Builder) -> None:
    code.test(load("a"))
    inner = code.inner_function("inner")
    with code.redirect_to(inner):
        assert (code.depth, code.conditional) == (0, True)
        code.return_value(load("b"))
    code.run(call(load("inner")))
    assert lines(code) == ["if a:", "", "    def inner():", "        return b", "    inner()"]


def test_a_copy_is_known_for_what_it_is_a_copy_of(code: Builder) -> None:
    assert code.bind_temp(load("a")).id == "a"
    assert code.bind_temp(load("a"), "b").id == "b"
    assert code.bind_temp(load("b"), "c").id == "c"
    assert code.temps.original("c") == "a"


def test_an_inner_function_may_assign_what_is_shared(code: Builder) -> None:
    code.temps.share("x")
    for name in ("x", "y"):
        code.assign(name, load("a"))
    with code.redirect_to(code.inner_function("inner")):
        for name in ("x", "y"):
            code.assign(name, load("b"))
    code.temps.bind_at_start("input", load("ctx"))
    text = ast.unparse(code.function("f", ["ctx"], [call(load("count"))]))
    assert "nonlocal x\n" in text
    assert text.index("input = ctx") < text.index("count()") < text.index("x = a")


def test_statements_have_the_position_of_their_expression(code: Builder) -> None:
    source = Source("p.rego", "text")
    with code.at(Span(source, 0, 1, 7, 3)):
        code.run(load("a"))
        with code.at(Span(source, 0, 1, 0, 0)):
            code.run(load("b"))
    code.run(load("c"))
    assert [(s.lineno, s.col_offset) for s in code.written] == [(7, 2), (7, 2), (1, 0)]
