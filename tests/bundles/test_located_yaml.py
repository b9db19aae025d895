"""YAML with the lines of its values, and the lines of its errors."""

from __future__ import annotations

import pytest

from doorward.bundles.located_yaml import LocatedError, read_documents


@pytest.mark.parametrize("note", ["", " # é"])
def test_values_know_their_lines_whichever_parser_reads_them(note: str) -> None:
    text = f"a: [1, {{b: 2}}]{note}\nc:\n  d: |\n    x\n  e: [\n    3]\n---\n- f\n"
    first, second = read_documents(text, 10)
    assert first.plain() == {"a": [1, {"b": 2}], "c": {"d": "x\n", "e": [3]}}
    assert [each.line for each in first.walk()] == [11, 11, 11, 11, 11, 12, 13, 15, 16]
    assert first.get("c", "d").text_line == 14
    assert [each.line for each in second.walk()] == [18, 18]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: [1", 1, "expected ',' or ']'"),
        ("a: [1\n", 2, "expected ',' or ']'"),
        ("a: 1\nb: c: d\n", 2, "mapping values are not allowed here"),
        ("a: &x 1\nb: &x 2\n", 2, "an anchor of this name is already defined"),
        ("a: 1\na: 2\n", 2, "the key `a` is repeated"),
        ("[a]: 1\n", 1, "a key of a YAML mapping must be a string"),
        ("{a: [" * 5000, 1, "nested too deeply"),
        ("a: \x01", 1, "special characters are not allowed"),
    ],
)
def test_an_error_names_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(
        LocatedError, match=message.replace("[", r"\[").replace("]", r"\]")
    ) as raised:
        read_documents(text)
    assert raised.value.line == line
