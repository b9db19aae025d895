"""Operators and operands, with numbers for the only operands besides names."""

from __future__ import annotations

from functools import partial

import pytest
from tests.rego.syntax.parser.parts import cursor_of, messages

from doorward.rego.syntax.lexer import NUMBER
from doorward.rego.syntax.nodes import Call, Ref, Scalar, Term, Var
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.literals import parse_number
from doorward.rego.syntax.parser.terms import Terms


def terms_of(text: str) -> tuple[Cursor, Terms]:
    cursor = cursor_of(text)
    return cursor, Terms(cursor, {NUMBER: partial(parse_number, cursor)})


def shape(term: Term | None) -> str:
    """The term with everything in parentheses."""
    match term:
        case Var(name):
            return name
        case Scalar(value):
            return str(value)
        case Call(_, args):
            return f"({term.name} {' '.join(map(shape, args))})"
        case Ref(head, args):
            return shape(head) + "".join(f"[{shape(arg)}]" for arg in args)
    return repr(term)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", "(plus 1 (mul 2 3))"),
        ("(1 + 2) * 3", "(mul (plus 1 2) 3)"),
        ("a < 1 | b & c", "(lt a (or 1 (and b c)))"),
        ("1 - 2 - 3", "(minus (minus 1 2) 3)"),
        ("-x", "(minus 0 x)"),
        ("x in xs", "(internal.member_2 x xs)"),
        ("k, v in xs", "(internal.member_3 k v xs)"),
        ("f(1, g(x))[y].z", "(f 1 (g x))[y][z]"),
    ],
)
def test_operators_and_references(text: str, expected: str) -> None:
    assert shape(terms_of(text)[1].parse_infix()) == expected


def test_in_a_list_a_comma_separates() -> None:
    _, terms = terms_of("k, v in xs]")
    items = terms.parse_list("]", [])
    assert items is not None
    assert list(map(shape, items)) == ["k", "(internal.member_2 v xs)"]


def test_a_remembered_term_is_not_parsed_again() -> None:
    cursor, terms = terms_of("1 + _ x")
    before = cursor.save()
    term = terms.parse_infix()
    assert term is not None
    terms.remember_infix(term, before)
    after = cursor.save()
    cursor.restore(before)
    assert terms.parse_infix() is term
    assert cursor.save() == after
    cursor.restore(before)
    cursor.wildcard()
    assert shape(terms.parse_infix()) == "(plus 1 $1)"  # another name for `_`: read again
    cursor.restore(before)
    terms.forget()
    assert terms.parse_infix() is not term


def test_a_term_that_was_read_goes_on() -> None:
    cursor, terms = terms_of("a.b * 2 + 1")
    first = terms.parse_term()
    assert first is not None
    assert shape(terms.continue_infix(first, 0)) == "(plus (mul a[b] 2) 1)"
    assert cursor.since(0).text == "a.b * 2 + 1"


def test_a_term_is_not_read_again_until_it_is_forgotten() -> None:
    cursor, terms = terms_of("f(x) y")
    state = cursor.save()
    first = terms.parse_term()
    cursor.restore(state)
    assert terms.parse_term() is first
    cursor.restore(state)
    terms.forget()
    again = terms.parse_term()
    assert again == first
    assert again is not first


def test_errors_inside_a_remembered_term_come_back_with_it() -> None:
    cursor, terms = terms_of("f(]")
    state = cursor.save()
    assert terms.parse_term() is None
    noted = messages(cursor)
    cursor.restore(state)
    assert messages(cursor) == []
    assert terms.parse_term() is None
    assert messages(cursor) == noted == ["unexpected ] token"]


def test_an_operand_without_a_production_is_illegal() -> None:
    cursor, terms = terms_of("[1]")
    assert terms.parse_term() is None
    assert messages(cursor) == ["unexpected [ token"]
    cursor, terms = terms_of("[1]")
    terms.add_operand("[", lambda: Scalar("bracket"))
    assert terms.parse_term() == Scalar("bracket")
