"""References and calls behind a head, with operands that are names."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import NameTerms, cursor_of, messages

from doorward.rego.syntax.nodes import Call, Ref, Scalar, Set, Term, Var
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.productions import TermProductions
from doorward.rego.syntax.parser.references import SUFFIXES, parse_ref


def parsed(text: str) -> tuple[Term | None, Cursor]:
    """What is read of `text` behind its first name."""
    cursor = cursor_of(text)
    terms: TermProductions = NameTerms(cursor)
    head = Var(cursor.token.text, cursor.here())
    cursor.scan()
    assert cursor.kind in SUFFIXES
    return parse_ref(cursor, terms, head, 0), cursor


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("a.b", Ref(Var("a"), (Scalar("b"),))),
        ("a[x].b", Ref(Var("a"), (Var("x"), Scalar("b")))),
        ("f(x, y)", Call(Ref(Var("f"), ()), (Var("x"), Var("y")))),
        ("a.f()", Call(Ref(Var("a"), (Scalar("f"),)), ())),
        ("f(x).b", Ref(Call(Ref(Var("f"), ()), (Var("x"),)), (Scalar("b"),))),
        ("set()", Set(())),
    ],
)
def test_suffixes_follow_without_a_blank(text: str, term: Term) -> None:
    assert parsed(text)[0] == term


def test_a_blank_ends_a_reference() -> None:
    term, cursor = parsed("a.b [x]")
    assert term == Ref(Var("a"), (Scalar("b"),))
    assert cursor.kind == "["


@pytest.mark.parametrize(
    ("text", "message"),
    [("a.1", "expected identifier"), ("a[x", "expected ["), ("a[+]", "unexpected plus token")],
)
def test_what_is_missing_is_said(text: str, message: str) -> None:
    term, cursor = parsed(text)
    assert term is None
    assert any(message in each for each in messages(cursor))
