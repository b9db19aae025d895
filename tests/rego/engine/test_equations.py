"""Both sides of an equation are evaluated from left to right, as in OPA."""

from __future__ import annotations

import pytest

from doorward.rego import Engine, EvalError

POLICY = """package t

s := true

s := "1" if input.conflict

allow := true

allow := 1 if {
	s = input.missing
}
"""


def test_an_error_at_the_left_is_not_hidden_by_an_undefined_right_side() -> None:
    query = Engine({"p.rego": POLICY}).prepare("data.t.allow")
    assert query.value({}) is True
    with pytest.raises(EvalError, match="complete rules must not produce multiple outputs"):
        query.value({"conflict": True})


def test_an_undefined_left_side_ends_the_expression() -> None:
    turned = POLICY.replace("s = input.missing", "input.missing = s")
    query = Engine({"p.rego": turned}).prepare("data.t.allow")
    assert query.value({"conflict": True}) is True
