"""The built-ins that policies need are those that OPA's compiler says it needed."""

from __future__ import annotations

import pytest

from doorward.rego import REGISTRY
from doorward.rego.analysis.required import required_builtins
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ("p := 1", ""),
        ("p := count([1])", "count"),
        ("p := q", "eq"),
        ("p := lib.q", "eq"),
        ("p := [count([1])]", "count"),
        ("p := {x | some x in [1]}", "eq"),
        ("p := {q: 1 | true}", "eq"),
        ("p if x := 1", "assign eq"),
        ("p if 1 == 1", "eq equal"),
        ("p if input.a", ""),
        ("p if count(input.a)", "count eq"),
        ("p if count([1])", "count"),
        ("p if input[data.a]", "eq"),
        ('p if startswith(lower(upper(["a"][0])), "b")', "eq lower startswith upper"),
        ('p if startswith(lower("a"), "b")', "lower startswith"),
        ("p if q with input as data.a", "eq"),
        ("p if q with input as 1", ""),
        ("p if 1 in [1]", "internal.member_2"),
        ("p if every x in [1] { x }", "eq"),
        ("p := rego.metadata.rule()", "eq"),
        ("p if f(1)\n\nf(x) if missing.g(x)", ""),
        ("count(x) := x\n\np := count(1)", ""),
    ],
)
def test_they_are_listed(rules: str, names: str) -> None:
    module = parse_module(Source("p.rego", f"package p\n\nimport data.lib\n\nq := 1\n\n{rules}\n"))
    assert required_builtins([module], REGISTRY) == names.split()
