"""Explained YAML is the document for a parser, and says why to a reader."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from doorward.envoy.kit.explained_yaml import explain


@pytest.mark.parametrize(
    "document",
    [
        {"a": 1, "b": 0.5, "c": True, "d": None, "e": "text"},
        {"a": {}, "b": [], "c": {"d": {"e": []}}},
        {"a": [1, "x", {"b": 2, "c": [3, {"d": 4}]}, [5, [6, 7]]]},
        {"a": ["no", "Yes", "null", "~", "1", "0x1", "1_0", "0.5s", "12:30", "2026-11-20"]},
        {"a": ["", " x", "x: y", "- x", "# x", "%x%", "*", "&x", "!x", "@x", "`x`", "é", "a\nb"]},
        {"@type": "a", "x.y": "b", "on": "c", "": "d"},
    ],
)
def test_the_lines_are_the_document(document: dict[str, Any]) -> None:
    assert yaml.safe_load("\n".join(explain(document, {}))) == document


def test_a_reason_stands_over_its_key() -> None:
    lines = explain({"a": [{"b": 1, "c": 2}], "b": 3}, {"a.b": "one", "c": "two", "b": "three"})
    assert list(lines) == [
        "a:",
        "  # one",
        "  - b: 1",
        "    # two",
        "    c: 2",
        "# three",
        "b: 3",
    ]


def test_a_long_reason_is_wrapped() -> None:
    lines = list(explain({"a": 1}, {"a": "word " * 40}))
    assert len(lines) == 4
    assert max(map(len, lines)) <= 98
