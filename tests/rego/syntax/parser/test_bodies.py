"""Bodies and expressions over terms without collections; `some` and `every` are among them."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import cursor_of, messages

from doorward.rego.errors import ParseError
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import And, Body, Every, Not, Or, Scalar, SomeDecl, SomeIn, Var
from doorward.rego.syntax.parser.bodies import Bodies
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.terms import Terms
from doorward.rego.syntax.parser.texts import parse_module


def bodies_of(text: str, *, v0: bool = False, words: frozenset[str] = frozenset()) -> Bodies:
    cursor = cursor_of(text, v0=v0)
    cursor.keywords |= words
    cursor.move_to(cursor.token)
    return Bodies(cursor, Terms(cursor, {}))


def parsed(text: str) -> Body:
    body = bodies_of(text + "\n}").parse_body("}")
    assert body is not None
    return body


def test_expressions_stand_on_lines_or_between_semicolons() -> None:
    assert [expr.span.text for expr in parsed("a; b\nc := d\nnot e with x as y")] == [
        "a",
        "b",
        "c := d",
        "not e with x as y",
    ]


def test_some_declares_or_walks() -> None:
    declared, walked, pair = parsed("some x, y\nsome v in xs\nsome k, v in xs")
    assert declared.term == SomeDecl((Var("x"), Var("y")))
    assert walked.term == SomeIn(None, Var("v"), Var("xs"))
    assert pair.term == SomeIn(Var("k"), Var("v"), Var("xs"))


def test_every_has_a_body() -> None:
    (expr,) = parsed("every k, v in xs { f(k, v) }")
    assert isinstance(expr.term, Every)
    assert (expr.term.key, expr.term.value, len(expr.term.body)) == (Var("k"), Var("v"), 1)


@pytest.mark.parametrize(("text", "kind"), [("a and b", And), ("a or { b; c }", Or)])
def test_logical_words_where_they_are_keywords(text: str, kind: type) -> None:
    body = bodies_of(text, words=frozenset({"and", "or"})).parse_query_part()
    assert body is not None
    assert isinstance(body[0].term, kind)


def test_not_covers_a_body_where_the_dialect_says_so() -> None:
    bodies = bodies_of("not { a; b }")
    bodies.cursor.dialect.composite_not = True
    expr = bodies.parse_literal()
    assert expr is not None
    assert isinstance(expr.term, Not)
    assert (expr.term.braces, len(expr.term.body)) == (True, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("}", "found empty body"),
        ("a b }", "unexpected identifier token: expected \\n or ; or }"),
        ("not some x }", "unexpected some keyword: illegal negation of 'some'"),
        ("a with b }", "unexpected } token: expected as keyword"),
        ("some 1 }", "unexpected number token: expected var"),
        ("every x { y } }", "unexpected { token: expected `x[, y] in xs { ... }` expression"),
        ("every x in xs }", "unexpected } token: missing body"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    bodies = bodies_of(text)
    assert bodies.parse_body("}") is None
    assert messages(bodies.cursor)[-1] == message


def hints(cursor: Cursor) -> list[str]:
    return [hint.split(" for ")[0] for hint in cursor.hints]


def test_v0_hints_at_the_import_that_is_missing() -> None:
    bodies = bodies_of("some x in xs", v0=True)
    assert bodies.parse_literal() is not None
    assert hints(bodies.cursor) == ["`import future.keywords.in`"]
    bodies = bodies_of("every x in xs { x }", v0=True)
    assert bodies.parse_literal() is not None
    assert hints(bodies.cursor) == ["`import future.keywords.every`"]


WORDS = "package p\n\nimport future.keywords\n\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{ (input.a with input as {`a`: 1}) and input.b }", "{ input.a with input as {`a`: 1} }"),
        ("{ (not input.a) or input.b }", "not input.a"),
        ("{ ((not input.a)) or input.b }", "not input.a"),
        ("{ (not input.a with input as {}) or input.b }", "{ not input.a with input as {} }"),
        ("{ [1 | (input.a with input as 1) or input.b] }", None),
    ],
)
def test_a_group_encloses_not_and_with(text: str, wanted: str | None) -> None:
    (rule,) = parse_module(Source("p.rego", f"{WORDS}p if {text}")).rules
    (expr,) = rule.body
    if wanted is not None:
        assert isinstance(expr.term, And | Or)
        inner = parse_module(Source("p.rego", f"{WORDS}p if {{ {wanted} or true }}")).rules[0]
        other = inner.body[0].term
        assert isinstance(other, Or)
        assert (expr.term.left, expr.term.braces[0]) == (other.left, False)


def test_what_follows_a_group_modifies_it_last() -> None:
    text = "p if (input.a or input.b with input as 1) with input as 2"
    ((expr,),) = [rule.body for rule in parse_module(Source("p.rego", WORDS + text)).rules]
    assert [item.value for item in expr.withs] == [Scalar(1), Scalar(2)]


@pytest.mark.parametrize(
    "text",
    [
        "p if { not (input.a with input as 1) }",
        "p if { not (not input.a) }",
        "p if (not input.a)",
        "p if { true and (input.a with input as 1) with input as 2 }",
    ],
)
def test_groups_stand_behind_not_and_alone(text: str) -> None:
    assert parse_module(Source("p.rego", WORDS + text)).rules


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("p if { input.a with input as 1 or true }", 16, "`with` modifier is not allowed on"),
        ("p if input.a with input as 1 and true", 14, "`with` modifier is not allowed on"),
        ("p if { {print(1)} or true }", 9, "operand of `or` cannot consist only of calls to"),
        ("p if { true and print(1) }", 17, "operand of `and` cannot consist only of calls to"),
        ("p if (input.a with input as 1)", 15, "non-terminated expression"),
        ("p if { ({input.a} with input as 1) or true }", 19, "non-terminated expression"),
        ("p if { (some x in [1] with input as 1) or true }", 9, "unexpected some keyword"),
        ("p if { (not input.a with input as 1) }", 9, "unexpected not keyword"),
    ],
)
def test_refused_operands(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(Source("p.rego", WORDS + text))
    (error,) = caught.value.diagnostics
    assert (error.span.col, error.message[: len(message)]) == (column, message)


def test_an_operand_may_print_beside_what_can_fail() -> None:
    for text in ("{ {print(1); input.a} or true }", "{ {not print(1)} or true }"):
        assert parse_module(Source("p.rego", f"{WORDS}p if {text}")).rules
