"""Packages, imports, heads and rules over terms and bodies that are names."""

from __future__ import annotations

import pytest
from tests.rego.syntax.parser.parts import NameBodies, NameTerms, cursor_of, messages

from doorward.rego.syntax.nodes import Expr, Head, Ref, Scalar, Var
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.drafts import Draft, check_v1
from doorward.rego.syntax.parser.heads import head_of, parse_head
from doorward.rego.syntax.parser.imports import parse_import, parse_package, use_import
from doorward.rego.syntax.parser.names import is_variable, value_name
from doorward.rego.syntax.parser.recovery import names_at, skip_statement
from doorward.rego.syntax.parser.rules import Rules
from doorward.rego.syntax.parser.short_rules import rule_of_body
from doorward.rego.syntax.parser.terms import Terms


def rules_of(text: str) -> tuple[Cursor, list[Draft] | None]:
    cursor = cursor_of(text)
    return cursor, Rules(cursor, NameTerms(cursor), NameBodies(cursor)).parse_rules()


@pytest.mark.parametrize(
    "text",
    ["p if a", "p contains x if a", "p := a if b", "f(x) := a if b else := c", "default p := 1"],
)
def test_rules(text: str) -> None:
    cursor, drafts = rules_of(text)
    assert drafts is not None
    assert [draft.span.text for draft in drafts] == [text]
    assert [fault for draft in drafts for fault in check_v1(draft)] == []
    assert messages(cursor) == []


def test_several_bodies_after_one_head() -> None:
    _, drafts = rules_of("p { a } { b }")
    assert drafts is not None
    assert [draft.body for draft in drafts] == [(Expr(Var("a")),), (Expr(Var("b")),)]
    (fault,) = check_v1(drafts[0])
    assert fault.message == "`if` keyword is required before rule body"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p contains x if a else := b", "else keyword cannot be used on multi-value rules"),
        ("p if a else b", "unexpected identifier token: expected else value term or rule body"),
        ("default f(1) := a", "illegal default rule (arguments cannot contain number)"),
        ("default p.q", "illegal default rule (must have a value)"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    cursor, drafts = rules_of(text)
    assert drafts is None
    assert messages(cursor)[-1] == message


def test_what_is_not_a_rule_is_left_to_others() -> None:
    cursor, drafts = rules_of("p := a")
    assert drafts is None
    assert messages(cursor) == []


def test_a_head_is_a_name_with_parameters_key_or_value() -> None:
    cursor = cursor_of("p[x].y := a")
    draft = parse_head(cursor, NameTerms(cursor), default=False)
    assert draft is not None
    ref = Ref(Var("p"), (Var("x"), Scalar("y")))
    assert draft.head == Head(ref, value=Var("a"), assign=True)
    assert head_of(Scalar(1)) is None


@pytest.mark.parametrize(
    ("expr", "fault"),
    [
        (Expr(Var("x"), negated=True), "negated expressions cannot be used for rule head"),
        (Expr(Var("data")), "refs cannot be used for rule head"),
        (Expr(Scalar(1)), "number cannot be used for rule name"),
    ],
)
def test_queries_that_are_not_rules(expr: Expr, fault: str) -> None:
    assert rule_of_body((expr,), ()) == (None, fault)
    assert rule_of_body((expr, expr), ()) == (
        None,
        "multiple expressions cannot be used for rule head",
    )


def test_a_reference_is_a_short_rule() -> None:
    draft, fault = rule_of_body((Expr(Ref(Var("p"), (Var("x"),))),), ())
    assert draft is not None
    assert (draft.head.key, draft.wrote_body, fault) == (Var("x"), False, "")


def test_packages_and_imports() -> None:
    cursor = cursor_of('package a["b"].c import data.x as y')
    terms = Terms(cursor, {"string": lambda: Scalar("b")})
    package = parse_package(cursor, terms)
    assert package is not None
    assert package.path == ("a", "b", "c")
    imported = parse_import(cursor, terms)
    assert imported is not None
    assert imported.alias == "y"


def test_an_import_turns_words_on() -> None:
    cursor = cursor_of("import rego.v1", v0=True)
    imported = parse_import(cursor, Terms(cursor, {}))
    assert imported is not None
    assert "if" not in cursor.keywords
    use_import(cursor, imported)
    assert {"if", "contains", "in", "every"} <= cursor.keywords
    assert cursor.dialect.v1


def test_an_import_begins_at_a_root() -> None:
    cursor = cursor_of("import foo.bar")
    assert parse_import(cursor, Terms(cursor, {})) is None
    assert "must begin with one of: {data, future, input, rego}" in messages(cursor)[0]


def test_behind_an_error_the_next_statement_begins_a_line() -> None:
    cursor = cursor_of("allow if ] {\n\tx\n}\n\nnext := 1\n")
    lost = skip_statement(cursor, 0)
    assert cursor.token.text == "next"
    assert "allow" in lost
    assert names_at(cursor.source, [cursor.here()]) == {"next"}


def test_terms_are_named_as_in_opa() -> None:
    assert [value_name(Scalar(v)) for v in (None, True, "a", 1)] == [
        "null",
        "boolean",
        "string",
        "number",
    ]
    assert (value_name(Var("input")), value_name(Var("x"))) == ("ref", "var")
    assert is_variable(Var("x"))
    assert not is_variable(Var("data"))
