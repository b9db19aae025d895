"""What is unsafe in a query: OPA adds a variable for each value, which is unsafe beside others."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("x", ["_", "x"]),
        ("x + 1", ["_", "x"]),
        ("x == 1", ["_", "x"]),
        ("[x, y]", ["_", "x", "y"]),
        ("x; y", ["_", "_", "x", "y"]),
        ("lower(upper(x))", ["_", "x"]),
        ("count(x) + count([z | z])", ["_", "x", "z"]),
        ("data.a[x]; q", ["_", "q"]),
        ("x with input as 1", ["_", "x"]),
        # No value is wanted of these, or OPA looks at them later.
        ("not x", ["x"]),
        ("x := y", ["x", "y"]),
        ("plus(1, x, 3)", ["x"]),
        ("some x in y", ["x", "y"]),
        ("every a in b { a }", ["b"]),
        ("[x | y]", ["x", "y"]),
        ("{x}", ["x"]),
        ("{x: 1}", ["x"]),
        ('{"a": x}', ["_", "x"]),
    ],
)
def test_values_of_unsafe_expressions_are_unsafe(query: str, names: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        Engine().prepare(query)
    diagnostic = [each.message.split()[1] for each in caught.value.diagnostics]
    assert sorted(diagnostic) == names
