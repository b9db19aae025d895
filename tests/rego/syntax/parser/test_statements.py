"""Statements and texts: the whole grammar from a cursor, one statement at a time."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import cursor_of, messages

from doorward.rego.errors import ParseError
from doorward.rego.source import Source
from doorward.rego.syntax.lexer import EOF
from doorward.rego.syntax.nodes import Array, Scalar, Var
from doorward.rego.syntax.parser.grammar import Grammar
from doorward.rego.syntax.parser.statements import QueryText, Statements, parse_query_text
from doorward.rego.syntax.parser.texts import parse_module, parse_query, parse_term


def test_the_grammar_has_an_operand_for_each_kind_of_token() -> None:
    grammar = Grammar(cursor_of('[1, "a", null, {x}, $"b{y}"]'))
    term = grammar.terms.parse_term()
    assert isinstance(term, Array)
    assert [type(item).__name__ for item in term.items] == [
        "Scalar",
        "Scalar",
        "Scalar",
        "Set",
        "TemplateString",
    ]


def test_statements_are_read_one_by_one() -> None:
    cursor = cursor_of("package a\n\nimport data.b\n\np := 1\n")
    statements = Statements(cursor)
    read = 0
    while cursor.kind != EOF:
        assert statements.parse_statement()
        read += 1
    assert read == 3
    assert not statements.late_errors()
    assert not messages(cursor)


def test_a_query_text_may_begin_with_what_is_none() -> None:
    assert parse_query_text(cursor_of("import data.b")).other == "Import"
    query = parse_query_text(cursor_of("x; y"))
    assert isinstance(query, QueryText)
    assert ([expr.term for expr in query.exprs], query.other) == ([Var("x"), Var("y")], "")


def test_texts_are_read_whole_or_refused() -> None:
    assert parse_term("[1]") == Array((Scalar(1),))
    assert len(parse_query(Source("", "x; y"))) == 2
    assert parse_module(Source("p.rego", "package a\n\np := 1\n")).package.path == ("a",)
    with pytest.raises(ParseError):
        parse_term("[1")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("p { true }", [1]),
        ("p = 1 { true } else = 2 { true }\nq { true }", [1, 2]),
        ("f(x) { x } { not x }", [1, 1]),
        ("p[x] { x := 1 }\nq[x] { x := 1 }", [1, 2, 2]),
        ("x\np { true }", [1, 2]),
    ],
)
def test_a_rule_in_place_of_the_package_is_not_checked_as_v1(text: str, lines: list[int]) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(Source("p.rego", text))
    first, *others = caught.value.diagnostics
    assert first.message == "package expected"
    assert [first.span.row, *(other.span.row for other in others)] == lines
