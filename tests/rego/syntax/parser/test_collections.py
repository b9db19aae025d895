"""Arrays, sets, objects and comprehensions over terms and bodies that are names."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import NameBodies, NameTerms, cursor_of, messages

from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Expr,
    Object,
    ObjectComprehension,
    Scalar,
    Set,
    SetComprehension,
    Term,
    Var,
)
from doorward.rego.syntax.parser.collections import Collections
from doorward.rego.syntax.parser.cursor import Cursor

A, B, ONE = Var("a"), Var("b"), Scalar(1)


def read(text: str) -> tuple[Cursor, Term | None]:
    cursor = cursor_of(text)
    parts = Collections(cursor, NameTerms(cursor), NameBodies(cursor))
    return cursor, parts.parse_array() if text[0] == "[" else parts.parse_braces()


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("[]", Array(())),
        ("[a, 1,]", Array((A, ONE))),
        ("[, a]", Array((A,))),
        ("[a | b]", ArrayComprehension(A, (Expr(B),))),
        ("{}", Object(())),
        ("{a}", Set((A,))),
        ("{a, b,}", Set((A, B))),
        ("{a | b}", SetComprehension(A, (Expr(B),))),
        ("{a: 1, b: 1}", Object(((A, ONE), (B, ONE)))),
        ("{, a: 1}", Object(((A, ONE),))),
        ("{a: 1 | b}", ObjectComprehension(A, ONE, (Expr(B),))),
    ],
)
def test_collections(text: str, term: Term) -> None:
    cursor, parsed = read(text)
    assert parsed == term
    assert parsed.span.text == text
    assert cursor.token.end == len(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a b]", 'unexpected identifier token: expected "," or "]"'),
        ("{a b}", "unexpected identifier token: non-terminated set"),
        ("{a: b c}", "unexpected identifier token: non-terminated object"),
        ("{a: b, 1 c}", "unexpected identifier token: non-terminated object"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    cursor, parsed = read(text)
    assert parsed is None
    assert messages(cursor)[-1] == message
