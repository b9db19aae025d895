"""Numbers, strings and constants need a cursor and nothing else."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import cursor_of, messages

from doorward.rego.syntax.nodes import Scalar
from doorward.rego.syntax.parser.literals import parse_constant, parse_number, parse_string


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("-1", -1), ("- 1", -1), ("1e2", 100), ("0", 0)]
)
def test_numbers(text: str, value: int) -> None:
    assert parse_number(cursor_of(text)) == Scalar(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-x", "unexpected identifier token: expected number"),
        ("01", "unexpected number token: expected number without leading zero"),
        ("1e9999999999", "unexpected number token: invalid float"),
    ],
)
def test_texts_that_are_not_numbers(text: str, message: str) -> None:
    cursor = cursor_of(text)
    assert parse_number(cursor) is None
    assert messages(cursor) == [message]


@pytest.mark.parametrize(
    ("text", "value"),
    [('"a\\tb"', "a\tb"), (r"`a\tb`", r"a\tb"), (r'"\ud83d\ude00"', "😀"), (r'"\ud83d"', "\ufffd")],
)
def test_strings(text: str, value: str) -> None:
    scalar = parse_string(cursor_of(text))
    assert scalar is not None
    assert (scalar.value, scalar.raw) == (value, text[0] == "`")


def test_constants() -> None:
    texts = ("true", "false", "null")
    assert [parse_constant(cursor_of(text)) for text in texts] == [
        Scalar(True),
        Scalar(False),
        Scalar(None),
    ]
