"""Errors of calls come as OPA reports them: inner calls first, heads behind bodies."""

from __future__ import annotations

import pytest

from doorward.rego import Engine
from doorward.rego.errors import CompileError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("p := f(1) if g(2)", "g f"),
        ("p[f(1)] := g(2) if h(3)", "h f g"),
        ("p contains f(1) if g(2)", "g f"),
        ('p := {"a": f(1), "b": g(2)} if h(3)', "h f g"),
        ("p := f(1) if g(2)\nelse := h(3) if k(4)", "g f k h"),
        ("p if { not m(n(1)); x := 1 + k(2) }", "n m k"),
        ("p if g(1) with input as f(2)", "f g"),
        ("p if every x in f(1) { g(h(x)) }", "f h g"),
        ("p if { some x in f(1); g(x) }", "f g"),
        ("p if input[f(1)] == g(h(2))", "f h g"),
        ("p if { x := a(1) + b(2) * c(3); x > d(4) }", "a b c d"),
        ("p if count([c(x) | x := f(1)]) == k(1)", "f c k"),
        ("p := [c(x) | x := f(1); d(x)]", "f d c"),
        ("p := {c(x): d(x) | x := f(1)}", "f c d"),
        ("p if count({c(x): d(x) | x := f(1)}) == k(1)", "f c d k"),
        ("p if x := {c(1): [d(y) | y := e(1)]}", "c e d"),
        ("p if not { h({f(1)}) } or g(2)", "f h g"),
        ("p if f([y | y := c(1)], g(2))", "g f"),  # what is in a comprehension is not looked at
    ],
)
def test_the_order_is_that_of_opa(text: str, names: str) -> None:
    imports = "import future.keywords.not\nimport future.keywords.or"
    with pytest.raises(CompileError) as caught:
        Engine({"p.rego": f"package p\n{imports}\n{text}\n"})
    messages = [each.message for each in caught.value.diagnostics]
    assert messages == [f"undefined function {name}" for name in names.split()]


def test_a_query_has_the_same_order() -> None:
    with pytest.raises(CompileError) as caught:
        Engine().prepare("x := f(g(1)); h(x)")
    assert [each.message[-1] for each in caught.value.diagnostics] == ["g", "f", "h"]
