"""`not`, `and` and `or` of future.keywords: their operands are bodies of their own."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import UNDEFINED, CompileError, Engine
from doorward.rego.source import Source
from doorward.rego.syntax.format import format_source

IMPORTS = "import future.keywords.and\nimport future.keywords.not\nimport future.keywords.or\n"


@pytest.mark.parametrize(
    ("body", "input_", "want"),
    [
        ("not { input.x == 1; input.y == 2 }", {"x": 1, "y": 3}, True),
        ("not { input.x == 1; input.y == 2 }", {"x": 1, "y": 2}, UNDEFINED),
        ("not count(input.nothing) > 1", {}, True),
        ('not object.get({}, "a", never)', {}, True),
        ("not { some x in input.xs; x > 1 }", {"xs": [1]}, True),
        ("not { some x in input.xs; x > 1 }", {"xs": [1, 2]}, UNDEFINED),
        ("input.x == 1 or input.y == 2", {"x": 2}, UNDEFINED),
        ("input.x == 1 or input.y == 2", {"y": 2}, True),
        ("input.x == 1 and input.y == 2", {"x": 1, "y": 2}, True),
        ("input.x == 1 and not input.y == 2", {"x": 1, "y": 2}, UNDEFINED),
        ("some x in input.xs; x > 1 or x == 0", {"xs": [1, 0]}, True),
        ("and({1, 2}, {2, 3}) == {2}", {}, True),
        ("(input.x == 1 or input.y == 2) and input.z", {"y": 2, "z": True}, True),
        ("{ some x in input.xs; x > 1 } or { some y in input.ys; y > 1 }", {"ys": [2]}, True),
    ],
)
def test_operands_are_bodies(body: str, input_: Any, want: Any) -> None:
    text = f"package a\n\n{IMPORTS}\nnever := 1 if false\n\np if {{\n\t{body}\n}}\n"
    assert Engine({"a.rego": text}).prepare("data.a.p").value(input_) is want


@pytest.mark.parametrize(
    ("body", "input_", "want", "with_import"),
    [
        ("not startswith(input.a, `x`) or input.b", {"b": 1}, True, True),
        ("not startswith(input.a, `x`) or input.b", {}, UNDEFINED, True),
        ("input.b or not startswith(input.a, `x`)", {}, UNDEFINED, True),
        ("not input.a or input.b", {}, True, True),
        ("not input.a and input.b", {"b": 1}, True, True),
        ("not input.a and input.b", {"a": 1, "b": 1}, UNDEFINED, UNDEFINED),
        ("not input.a in input.xs and input.b", {"b": 1}, UNDEFINED, True),
        ("not lower(input.a) == `x` or input.b == 1", {"b": 1}, True, True),
        ("input.a or startswith(input.z, `x`) with input as {`z`: `xy`}", {}, True, True),
        ("not startswith(input.z, `x`) and input.b with input as {`b`: 1}", {}, UNDEFINED, True),
        (
            "every x in input.xs { not startswith(x.a, `b`) or x.ok }",
            {"xs": [{"ok": 1}, {"a": "c"}]},
            True,
            True,
        ),
        ("every x in input.xs { not startswith(x.a, `b`) or x.ok }", {"xs": [{}]}, UNDEFINED, True),
        ("some x in input.xs; not f(x.a) or x.ok", {"xs": [{}, {"ok": 1}]}, True, True),
        (
            "{ some x in input.xs; not x.a in input.ys } or input.b",
            {"xs": [{"a": 1}]},
            UNDEFINED,
            True,
        ),
    ],
)
def test_an_operand_that_is_undefined_fails_its_side_only(
    body: str, input_: Any, want: Any, with_import: Any
) -> None:
    rules = f"f(x) := x\n\np if {{\n\t{body}\n}}\n"
    plain = IMPORTS.replace("import future.keywords.not\n", "")
    for imports, wanted in ((plain, want), (IMPORTS, with_import)):
        engine = Engine({"a.rego": f"package a\n\n{imports}\n{rules}"})
        assert engine.prepare("data.a.p").value(input_) is wanted


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("(input.a or input.b) and input.c", UNDEFINED),
        ("input.a or (input.b and input.c)", True),
        ("(input.a and input.c) or input.b", True),
        ("((input.a)) and ((input.b or input.c))", True),
        ("not (input.a and input.c)", True),
        ("not (input.a or input.c)", UNDEFINED),
        ("(input.a) and (input.n + 1) == 3", True),
        ("(input.a and input.c)\n\t[input.a]", UNDEFINED),
    ],
)
def test_parentheses_group_operands(body: str, want: Any) -> None:
    """OPA 1.20.2."""
    text = f"package a\n\n{IMPORTS}\np if {{\n\t{body}\n}}\n"
    query = Engine({"a.rego": text}).prepare("data.a.p")
    assert query.value({"a": 1, "b": 2, "n": 2}) is want


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("xs[_] and true", "_"),
        ("true and xs[_]", "_"),
        ("xs[y] or true", "y"),
        ("lower(xs[_]) and true", "_"),
        ("(xs[_] and true) or true", "_"),
        ("some i; xs[i] and true", "i"),
        ("y = 1 and true", "y"),
        ("every x in xs { x and xs[_] }", "_"),
    ],
)
def test_an_operand_without_braces_binds_no_variables(body: str, name: str) -> None:
    """OPA 1.20.2."""
    text = f"package a\n\n{IMPORTS}\nxs := [1]\n\np if {{\n\t{body}\n}}\n"
    with pytest.raises(CompileError, match=f"var {name} is unsafe"):
        Engine({"a.rego": text})


@pytest.mark.parametrize(
    "body",
    [
        "{ xs[_] } and true",
        "{ xs[y] == 1 } or false",
        "[1 | xs[_]] and true",
        "y := 0; xs[y] and y == 0",
    ],
)
def test_braces_and_what_is_bound_before_are_for_variables(body: str) -> None:
    text = f"package a\n\n{IMPORTS}\nxs := [1]\n\np if {{\n\t{body}\n}}\n"
    assert Engine({"a.rego": text}).prepare("data.a.p").value({}) is True


def test_formatting_keeps_groups_and_the_braces_that_bind() -> None:
    body = "\t(input.a or input.b) and input.c\n\t{ input.xs[_] } and true"
    text = f"package a\n\n{IMPORTS}\np if {{\n{body}\n}}\n"
    formatted = format_source(Source("a.rego", text))
    assert "(input.a or input.b) and input.c" in formatted
    assert "{ input.xs[_] } and true" in formatted
    assert format_source(Source("a.rego", formatted)) == formatted
