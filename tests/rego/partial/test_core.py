"""Terms, bodies and their order by themselves."""

from __future__ import annotations

import pytest

from doorward.rego.partial.core import (
    INPUT,
    TRUE,
    Array,
    Comprehension,
    Constant,
    Every,
    Expr,
    Object,
    Operator,
    Ref,
    Set,
    Term,
    Var,
    is_ground,
)
from doorward.rego.partial.order import in_safe_order
from doorward.rego.partial.paths import path_names
from doorward.rego.partial.residual import term_to_nodes
from doorward.rego.partial.text import body_text
from doorward.rego.syntax import nodes

X, ONE = Var("x"), Constant(1)
A = Ref((INPUT, Constant("a")))


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (ONE, True),
        (X, False),
        (A, True),
        (Ref((X, ONE)), True),
        (Ref((INPUT, X)), False),
        (Array((ONE, A)), True),
        (Set((ONE, X)), False),
        (Object(((X, ONE),)), False),
        (Comprehension("array", None, ONE, ()), False),
    ],
)
def test_a_ground_term_has_no_variable_but_the_head_of_a_reference(
    term: Term, expected: bool
) -> None:
    assert is_ground(term) is expected


def test_a_constant_shows_its_value() -> None:
    assert repr(Constant({"a": 1})) == "Constant({'a': 1})"


def declared_operands(operator: Operator) -> int:
    return 2 if operator == "gt" else 0


@pytest.mark.parametrize("kind", ["set", "object", "array"])
def test_bodies_inside_of_collections_are_put_in_order(kind: str) -> None:
    test, binds = Expr((X, ONE), "gt"), Expr((X, A), "eq")

    def collection(*body: Expr) -> Term:
        inner = Comprehension("array", None, X, body)
        if kind == "object":
            return Object(((inner, inner),))
        return Set((inner, ONE)) if kind == "set" else Array((inner,))

    (ordered,) = in_safe_order((Expr((A, collection(test, binds)), "eq"),), (), declared_operands)
    assert ordered.args == (A, collection(binds, test))


@pytest.mark.parametrize("text", ["input[1.5]", "data.a[null]", "input[true]"])
def test_a_path_has_names_and_indexes_only(text: str) -> None:
    with pytest.raises(ValueError, match="path"):
        path_names(text)


def test_variables_that_an_every_does_not_read_have_no_names() -> None:
    every = Every(Var("k"), Var("v"), A, (Expr((TRUE,)),))
    assert body_text((Expr((), every=every),)) == "every _ in input.a { true }"
    reads = Every(Var("k"), Var("v"), A, (Expr((Var("k"),)), Expr((Var("v"),))))
    assert body_text((Expr((), every=reads),)) == "every k, v in input.a { k; v }"


def test_a_reference_at_the_head_of_another_is_joined_with_it() -> None:
    joined = term_to_nodes(Ref((A, Constant("b"))))
    assert isinstance(joined, nodes.Ref)
    assert joined == term_to_nodes(Ref((INPUT, Constant("a"), Constant("b"))))
