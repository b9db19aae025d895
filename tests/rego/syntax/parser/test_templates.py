"""Template strings over bodies that are names."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import NameBodies, cursor_of, messages

from doorward.rego.syntax.nodes import Expr, TemplateString, Var
from doorward.rego.syntax.parser.templates import parse_template


def test_a_template_is_text_and_expressions() -> None:
    cursor = cursor_of('$"a {x}\\n{y}"')
    template = parse_template(cursor, NameBodies(cursor))
    assert template == TemplateString(("a ", Expr(Var("x")), "\n", Expr(Var("y"))))
    assert not template.multi_line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('$"{]}"', "invalid template-string expression"),
        ('$"{x y}"', "expected } to end template string expression"),
        ('$"{x}', "expected template-string part"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    cursor = cursor_of(text)
    assert parse_template(cursor, NameBodies(cursor)) is None
    assert messages(cursor)[-1] == message


def test_v0_has_no_templates() -> None:
    cursor = cursor_of('$"a"', v0=True)
    assert parse_template(cursor, NameBodies(cursor)) is None
    assert messages(cursor) == ["template strings are not supported by current capabilities"]
