"""The cursor goes on, comes back, and collects errors; it knows no production."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import cursor_of, messages

from doorward.rego.syntax.lexer import EOF, IDENT, WHITESPACE
from doorward.rego.syntax.parser.cursor import MAX_DEPTH, TooDeep


def test_going_on_reaches_every_token_and_then_the_end() -> None:
    cursor = cursor_of("a := if # note\n1")
    kinds = []
    while cursor.kind != EOF:
        kinds.append(cursor.kind)
        cursor.scan()
    assert kinds == [IDENT, ":=", "if", "number"]
    cursor.scan()
    assert cursor.kind == EOF


def test_going_back_restores_everything_that_was_noted() -> None:
    cursor = cursor_of("a _ b")
    state = cursor.save()
    cursor.scan()
    cursor.hint("say it")
    assert [cursor.wildcard(), cursor.wildcard()] == ["$0", "$1"]
    cursor.error("wrong")
    cursor.enter()
    cursor.restore(state)
    assert (cursor.token.text, cursor.depth, cursor.errors, cursor.hints) == ("a", 0, [], ())
    assert cursor.wildcard() == "$0"


def test_a_blank_is_a_token_only_where_it_is_looked_for() -> None:
    cursor = cursor_of("a b.c")
    cursor.scan_blank()
    assert cursor.kind == WHITESPACE
    cursor.scan()
    assert cursor.token.text == "b"
    cursor.scan_blank()
    assert cursor.kind == "."
    assert cursor.peek_tight() == IDENT


def test_hints_go_with_the_next_error_only() -> None:
    cursor = cursor_of("a b")
    cursor.hint("one")
    cursor.hint("two")
    cursor.error("wrong")
    cursor.illegal()
    assert messages(cursor) == ["wrong (hints: one, two)", "unexpected identifier token"]


def test_keywords_are_names_in_front_of_a_dot() -> None:
    cursor = cursor_of("if.x if x")
    assert cursor.kind == "if"
    assert cursor.take_ref_keyword()
    assert cursor.kind == IDENT
    for _ in range(3):
        cursor.scan()
    assert not cursor.take_ref_keyword()
    assert cursor.kind == "if"


def test_other_keywords_for_a_while() -> None:
    cursor = cursor_of("a every", v0=True)
    with cursor.with_keywords(cursor.keywords | {"every"}):
        cursor.scan()
        assert cursor.kind == "every"
    assert "every" not in cursor.keywords


def test_nesting_has_a_limit() -> None:
    cursor = cursor_of("a")
    for _ in range(MAX_DEPTH):
        cursor.enter()
    with pytest.raises(TooDeep) as caught:
        cursor.enter()
    assert [error.message for error in caught.value.errors] == [
        "max parsing recursion depth exceeded"
    ]


def test_spans_are_counted_from_offsets() -> None:
    cursor = cursor_of("ab\ncd ef")
    cursor.scan()
    assert (cursor.here().row, cursor.here().col, cursor.here().text) == (2, 1, "cd")
    cursor.scan()
    assert cursor.since(3).text == "cd"
    assert cursor.through(3).text == "cd ef"
    assert cursor.call_span(cursor.here(), 3).text == "cd"
