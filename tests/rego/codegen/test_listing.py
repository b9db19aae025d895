"""Generated code as text: the legend says what names mean, comments show the policy's rows."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from doorward.rego import Engine, compile
from doorward.rego.codegen.listing import listing
from doorward.rego.source import Source

POLICY = """package a

p contains x if {
	some x in input.xs
	x > 1 # big
	regex.match("a.*", input.name)
}

q if data.b[input.k] == 1 with input.name as {"a": 1}
"""


def listed(rules: str = POLICY, name: str = "p.rego", **options: Any) -> str:
    return Engine({name: rules}, **options).emit()[name]


def test_a_comment_shows_the_row_where_its_code_begins() -> None:
    lines = [line.strip() for line in listed().splitlines()]
    first = lines.index("def data.a.p(ctx, *as_list):")
    assert lines[first + 1] == "# p.rego:3: p contains x if {"
    assert lines[first + 2] == "input = ctx.input"
    row = lines.index("# p.rego:5: x > 1 # big")
    assert lines[row + 1].startswith("if (x > 1 if ")


def test_a_listing_needs_a_tree_and_its_names_only() -> None:
    tree = ast.parse("def f(x):\n    return x")
    text = listing(Source("p.rego", "p := 1\n  p := 2"), tree, {})
    assert text.endswith("\n\ndef f(x):\n    return x")


def test_a_blank_row_has_no_comment() -> None:
    tree = ast.parse("def f(x):\n    y = x\n    z = y\n    return z")
    text = listing(Source("p.rego", "p := 1\n\np := 2\n"), tree, {})
    assert text.endswith("def f(x):\n    y = x\n    # p.rego:3: p := 2\n    z = y\n    return z")


def test_the_legend_names_what_the_code_names_and_nothing_else() -> None:
    legend = listed().partition("\n\n")[0]
    for text in ("# rt.*", "# path.*", "the path name", "the position p.rego:9"):
        assert text in legend
    assert "# data.*" not in legend
    assert "# table.*" not in legend


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("p := x if some x in [1, 2, input.x]", "the position p.rego:3"),
        ("p if input.x == {1, 2}", "{1, 2}"),
        ('p := {"a": [1.50, null]}', '{"a": [1.50, null]}'),
        ("p := abs(input.x)", "the call of abs at p.rego:3"),
        ("p if count(input.x) == 1 with count as sum", "a BuiltinMock"),
        ("p if data.b.c[_]", "path.*"),
    ],
)
def test_a_constant_is_shown(rule: str, line: str) -> None:
    assert line in listed(f"package a\n\n{rule}\n").partition("\n\n")[0]


def test_variables_may_be_called_as_constants_are() -> None:
    text = listed("package a\n\np := at if { some k, at in input.xs; k > 1 }\n")
    assert "for k, at in ctx.items(" in text


def test_traced_code_names_its_expressions() -> None:
    text = compile({"p.rego": POLICY}).traced().emit()["p.rego"]
    assert "the policy's expr at p.rego:4" in text
    assert "the policy's rule at p.rego:3" in text


def test_a_query_has_no_file() -> None:
    text = Engine({}).prepare("x := 1\nx > input.y").emit()
    assert "    # x := 1" in text.splitlines()
    assert "    # x > input.y" in text.splitlines()
    assert "the empty path" in Engine({"p.rego": POLICY}).prepare("data").emit()


def test_long_rows_and_values_are_cut() -> None:
    text = listed('package a\n\np := {"' + "x" * 300 + '", input.y, 3}\n')
    assert all(len(line) < 130 for line in text.splitlines() if line.lstrip().startswith("#"))


@pytest.mark.parametrize("name", ["a\nb.rego", "a\u2028b.rego"])
def test_a_comment_is_one_row_whatever_the_file_is_called(name: str) -> None:
    text = listed("package a\n\np if input.x\n", name)
    assert "# a b.rego:3: p if input.x" in text
    ast.parse("\n".join(line for line in text.splitlines() if line.lstrip().startswith("#")))


def test_the_code_that_runs_has_no_comments() -> None:
    policies = compile({"p.rego": POLICY})
    before = [ast.dump(unit.tree) for unit in policies.code.units]
    policies.emit()
    assert [ast.dump(unit.tree) for unit in policies.code.units] == before
