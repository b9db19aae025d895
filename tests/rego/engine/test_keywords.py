"""`not`, `and` and `or` of future.keywords: their operands are bodies of their own."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import UNDEFINED, Engine

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
