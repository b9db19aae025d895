"""What is known of a value."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from tests.rego.codegen.writing import term_of

from doorward.rego.codegen.operand import NOT_CONSTANT, Operand, constant_value, items_kind


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ('["a", {"b": null}]', ["a", {"b": None}]),
        ("{1, 1}", frozenset({1})),
        ("[x]", NOT_CONSTANT),
        ("{x}", NOT_CONSTANT),
        ('{"a": x}', NOT_CONSTANT),
        ("input.a", NOT_CONSTANT),
        ("count([])", NOT_CONSTANT),
    ],
)
def test_a_term_without_variables_is_constant(text: str, value: Any) -> None:
    assert constant_value(term_of(text)) == value


def test_an_operand_may_hold_any_constant() -> None:
    code = ast.Constant(value=None)
    assert Operand(code, "null", None).is_constant
    assert not Operand(code).is_constant


@pytest.mark.parametrize(
    ("value", "kind"),
    [(["a", "b"], "string"), (["a", 1], ""), ([], ""), (frozenset({"a"}), "string"), ("a", "")],
)
def test_items_of_one_kind_are_known(value: Any, kind: str) -> None:
    assert items_kind(value) == kind
