"""`some` and `every` over terms of the grammar and bodies of names."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import NameBodies, cursor_of, messages

from doorward.rego.syntax.nodes import Every, Expr, SomeDecl, SomeIn, Var
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.quantifiers import hint_every, parse_every, parse_some
from doorward.rego.syntax.parser.terms import Terms


def some(text: str, *, v0: bool = False) -> tuple[Expr | None, Cursor]:
    cursor = cursor_of(text, v0=v0)
    return parse_some(cursor, Terms(cursor, {}), NameBodies(cursor), 0), cursor


def every(text: str) -> tuple[Expr | None, Cursor]:
    cursor = cursor_of(text)
    return parse_every(cursor, Terms(cursor, {}), NameBodies(cursor), 0), cursor


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("some x, y", SomeDecl((Var("x"), Var("y")))),
        ("some x in xs", SomeIn(None, Var("x"), Var("xs"))),
        ("some k, v in xs", SomeIn(Var("k"), Var("v"), Var("xs"))),
    ],
)
def test_some_declares_names_or_walks(text: str, term: SomeDecl | SomeIn) -> None:
    expr, _ = some(text)
    assert expr is not None
    assert expr.term == term


@pytest.mark.parametrize(
    ("text", "message"),
    [("some x + y", "expected `x in xs` or `x, y in xs` expression"), ("some", "expected var")],
)
def test_some_of_something_else_is_an_error(text: str, message: str) -> None:
    expr, cursor = some(text)
    assert expr is None
    assert any(message in each for each in messages(cursor))


def test_every_has_variables_and_a_body() -> None:
    expr, _ = every("every k, v in xs { a b }")
    assert expr is not None
    assert expr.term == Every(Var("k"), Var("v"), Var("xs"), (Expr(Var("a")), Expr(Var("b"))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("every x { a }", "expected `x[, y] in xs { ... }` expression"),
        ("every f.a in xs { a }", "expected value to be a variable"),
        ("every f.a, v in xs { a }", "expected key to be a variable"),
        ("every x in xs", "missing body"),
    ],
)
def test_every_of_something_else_is_an_error(text: str, message: str) -> None:
    expr, cursor = every(text)
    assert expr is None
    assert any(message in each for each in messages(cursor))


def test_v0_hints_at_the_import_and_stays_where_it_was() -> None:
    cursor = cursor_of("every x in xs { a }", v0=True)
    state = cursor.save()
    hint_every(cursor, Terms(cursor, {}), NameBodies(cursor), state)
    assert any("future.keywords.every" in hint for hint in cursor.hints)
    assert cursor.token.text == "every"
    assert not cursor.errors
