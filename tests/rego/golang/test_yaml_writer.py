"""The text of YAML events where it is not plain: folding, quotes, keys with `?`, blocks."""

from __future__ import annotations

from functools import partial

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.values import Value

marshal = partial(invoke, "yaml.marshal")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a" * 128: 1}, "a" * 128 + ": 1\n"),
        ({"a" * 129: [1]}, "? " + "a" * 129 + "\n: - 1\n"),
        ({"é" * 64: 1}, "é" * 64 + ": 1\n"),
        ({"é" * 65: {"b": 1}}, "? " + "é" * 65 + "\n: b: 1\n"),
        ({"a\rb": [1, [2]]}, '? "a\\rb"\n: - 1\n  - - 2\n'),
        ({"a\u2028b": 1}, "? 'a\u2028  b'\n: 1\n"),
        ({"a\nb": 1}, "? |-\n  a\n  b\n: 1\n"),
        ({"a": [1, {"b": []}], "": {}}, '"": {}\na:\n- 1\n- b: []\n'),
        ([[[]], {"": ""}], '- - []\n- "": ""\n'),
        ("\n", "|2+\n\n"),
        (["a\n"], "- |\n  a\n"),
        (["a\n\n", 1], "- |+\n  a\n\n- 1\n"),
        ([" a\nb"], "- |2-\n   a\n  b\n"),
        (["a \nb"], '- "a \\nb"\n'),
        (["a\nb "], '- "a\\nb "\n'),
        (["a\tb", "a\x07\x1b\xa0"], '- "a\\tb"\n- "a\\a\\e\xa0"\n'),
        (["\U0001f600\ue000\u0378"], '- "\\U0001F600\ue000\u0378"\n'),
        (['\ufeff "é\\'], '- "\\uFEFF\\x20\\"\\xE9\\\\"\n'),
        (["", " a", "a ", "it's", "'"], "- \"\"\n- ' a'\n- 'a '\n- it's\n- ''''\n"),
        (["a: b", "a:b", "a:", ":a", ": a"], "- 'a: b'\n- a:b\n- 'a:'\n- :a\n- ': a'\n"),
        (["- a", "-a", "?", "?a", "? a"], "- '- a'\n- -a\n- '?'\n- ?a\n- '? a'\n"),
        (["# a", "a #b", "a#b", "a\u2028#"], "- '# a'\n- 'a #b'\n- a#b\n- 'a\u2028  #'\n"),
        (["---", "...a", "--", "%a", "a%"], "- '---'\n- '...a'\n- --\n- '%a'\n- a%\n"),
        (["@", "`a", "{", "a{", "[", ","], "- '@'\n- '`a'\n- '{'\n- a{\n- '['\n- ','\n"),
        ({"k": "word " * 20 + "x"}, f"k: {'word ' * 15}word\n  {'word ' * 4}x\n"),
        (["it: s  " * 14], None),
        (["\x07 é  " * 30], None),
    ],
)
def test_text(value: Value, text: str | None) -> None:
    if text is not None:
        assert marshal(value) == text
    assert invoke("yaml.unmarshal", marshal(value)) == value


def test_deep_values_are_folded_at_each_space() -> None:
    value: Value = "a b  c"
    for _ in range(50):
        value = {"k": value}
    assert marshal(value).endswith(f"{' ' * 98}k: a\n{' ' * 100}b  c\n")
    assert invoke("yaml.unmarshal", marshal(value)) == value
