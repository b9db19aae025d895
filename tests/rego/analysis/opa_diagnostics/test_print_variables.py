"""What is written before a `print` binds its variables: errors and silence are those of OPA."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine

UNDECLARED = [
    ("p if { print(x); x = 1 }", "x"),
    ("p if { x = y; print(x); y = 1 }", "x"),
    ("p if { not print(x); x = 1 }", "x"),
    ("p if { print(x, y); print(z); x = 1; y = 2; z = 3 }", "x y"),
    ("p if { some x; print(x); x = 1 }", "x"),
    ("p if { print(input.xs[i]) }", "i"),
    ("p if { print(input.xs[_]) }", "_"),
    ("p if { x = input.a with input as y; print(x); y = 1 }", "x"),
    ("p if { input.x == y; print(y); y = 2 }", "y"),
    ("p := y if { y = input.z; print(y) } else := z if { print(z); z = 2 }", "z"),
    # The bodies of closures, which are checked first
    ("p if { y := [1 | print(x)]; x = 1 }", "x"),
    ("p if { x := q.z; y := [1 | print(x)] }", "x"),
    ("p if { x = 1; y := [1 | print(x); print(z); z = 2] }", "z"),
    ("p if { every k in [1] { print(k, j); j = 1 } }", "j"),
    ("p if { print(x, [1 | print(y)]) }", "y"),
    # Heads, in which parameters alone are bound
    ("p := [1 | print(x)] if { x := 1 }", "x"),
    ("p := {x: [1 | print(x)]} if { some x in [1] }", "x"),
    ("p := [[1 | print(y)] | y = 1]", "y"),
    ("p if { y := {[1 | print(x)]: 1 | x = 1} }", "x"),
    ("p if { x := 1; print([[1 | print(x)] | true]) }", "x"),
]
ACCEPTED = [
    'p if { {"a": x} = input; print(x) }',
    "p if { walk(input, [path, value]); print(path, value) }",
    "p if { x = 1; y := [z | z = x; print(z, x)]; print(y, count(y)) }",
    "p if { some i, x in input.xs; y := [1 | print(i, x)]; print(y) }",
    "p if { some i; input.xs[i]; z := [1 | print(i)] }",
    "p if { every x in input.xs { print(x) } }",
    "p if { print([x | x = 1]) }",
    "f(x) := [[1 | print(x)] | y = 1]",
    "p := [1 | y = 1; z := [2 | print(y)]]",
    'p if { $"{x}"; x = 1 }',
]


@pytest.mark.parametrize(("rule", "names"), UNDECLARED)
def test_a_variable_that_is_bound_later_is_undeclared(rule: str, names: str) -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"a.rego": f"package a\n\n{rule}\n"})
    messages = [each.message for each in caught.value.diagnostics]
    assert messages == [f"var {name} is undeclared" for name in names.split()]


@pytest.mark.parametrize("rule", ACCEPTED)
def test_a_variable_that_is_bound_before_is_printed(rule: str) -> None:
    Engine({"a.rego": f"package a\n\n{rule}\n"})


def test_declared_variables_that_nothing_binds_are_unsafe() -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"a.rego": "package a\n\np if { x := y.z; print(x) }\n"})
    messages = [each.message for each in caught.value.diagnostics]
    assert messages == ["var x is unsafe", "var y is unsafe"]


def test_queries_print_what_is_bound_before() -> None:
    engine = Engine()
    engine.prepare("x = 1; print(x)")
    with pytest.raises(CompileError, match="var x is undeclared"):
        engine.prepare("print(x); x = 1")
