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
