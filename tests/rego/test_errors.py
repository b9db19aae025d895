"""Errors as text: OPA's form, and the one for people."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.errors import Diagnostic, render
from doorward.rego.source import Source, Span


def error(query: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        Engine().prepare(query)
    return caught.value


def test_an_error_without_a_place_has_no_snippet() -> None:
    empty = error("# nothing")
    assert str(empty) == "1 error occurred: rego_compile_error: empty query cannot be compiled"
    assert empty.render() == "rego_compile_error: empty query cannot be compiled"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_error_in_a_text_without_code_has_no_snippet(text: str) -> None:
    end = Span(Source("a.rego", text), len(text), len(text), 1, 1)
    problem = Diagnostic("rego_parse_error", "unexpected eof token", end)
    assert render(problem) == "a.rego:1:1: rego_parse_error: unexpected eof token"


def test_details_stand_below_the_snippet() -> None:
    assert error("count(1)").render().splitlines() == [
        "<query>:1:1: rego_type_error: count: invalid argument(s)",
        " 1 | count(1)",
        "   | ^^^^^^^^",
        "    have: (number)",
        "    want: (any<string, array[any], object[any: any], set[any]>, number)",
    ]


def test_a_hint_stands_at_the_end() -> None:
    # OPA also names `_`, the variable of its own that holds the value of the query's expression.
    assert error("x > 1").render().splitlines()[:4] == [
        "<query>:1:1: rego_unsafe_var_error: var x is unsafe",
        " 1 | x > 1",
        "   | ^^^^^",
        "hint: assign `x`, or bind it with `some x in …`",
    ]


def test_several_errors_are_counted() -> None:
    assert str(error("x; y")) == (
        "4 errors occurred:\n"
        "1:1: rego_unsafe_var_error: var x is unsafe\n"
        "1:1: rego_unsafe_var_error: var _ is unsafe\n"
        "1:4: rego_unsafe_var_error: var y is unsafe\n"
        "1:4: rego_unsafe_var_error: var _ is unsafe"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("package a\n\np if {\n    x\n\n# end\n", [" 4 |     x", "   |      ^"]),
        ("package a\n\np if {\n    x\n \t\n", [" 4 |     x", "   |      ^"]),
        ("package a\r\n\r\np if {\r\n\tx\r\n", [" 4 | \tx", "   | \t ^"]),
        ("package a\n\np if {\n    x", [" 4 |     x", "   |      ^"]),
        ("package a\n\np if {\n    x # y\n", [" 4 |     x # y", "   |          ^"]),
    ],
)
def test_an_error_at_the_end_of_a_text_shows_the_last_line(text: str, shown: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"a.rego": text})
    head, *lines, hint = caught.value.render().splitlines()
    assert hint == "hint: the `{` of row 3 is not closed"
    assert head.startswith("a.rego:")
    assert "unexpected eof token" in head
    assert lines == shown


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_error_without_a_line_names_its_file(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"a.rego": text})
    assert caught.value.render().splitlines() == [
        "a.rego:0: rego_parse_error: empty module",
        "hint: a policy begins with `package name`",
    ]
