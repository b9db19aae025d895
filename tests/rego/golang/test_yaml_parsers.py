"""libyaml and the parser that is put right give the same trees, where libyaml is asked at all."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from doorward.rego.golang import yaml_nodes
from doorward.rego.golang.yaml_nodes import Node, YamlError
from doorward.rego.golang.yaml_scanner import loader_class

WORDS = st.sampled_from(
    [
        "a",
        "key",
        "1",
        "1.5",
        "true",
        "~",
        "0x1F",
        "2024-01-02",
        "'x_y'",
        '"q\\n"',
        "x,y",
        "-",
        "--",
        "#",
        "#c",
        "a#c",
        "<<",
        "?",
        "&",
        "&x",
        "*x",
        "|",
        "|-",
        "|+2",
        ">",
        ">-",
        "|#",
        "{",
        "}",
        "[",
        "]",
        "{a:_1}",
        "[1,2]",
        "a:b",
        "a:_b",
        "_:",
        ":_",
        "http://x:80",
        "''",
        '""',
        "=",
        ".inf",
        "---",
        "...",
        "%",
        "!",
        "!!str",
        "@",
        "é",
        "\t",
    ]
)
LINES = st.tuples(
    st.integers(0, 6), st.sampled_from(["", "- ", "key: ", "- a: "]), WORDS, st.sampled_from("\n ")
)


@given(st.lists(LINES, max_size=8))
def test_both_parsers_agree(lines: list[tuple[int, str, str, str]]) -> None:
    text = "".join(f"{' ' * n}{mark}{word.replace('_', ' ')}{end}" for n, mark, word, end in lines)
    fast = yaml_nodes.compose_fast(text)
    if fast is not None:
        slow = yaml_nodes.compose_slow(text, is_old=True)
        assert slow is not None
        assert shape(fast) == shape(slow)


@given(st.lists(LINES, max_size=8))
def test_all_documents_are_the_same_to_both_parsers(
    lines: list[tuple[int, str, str, str]],
) -> None:
    text = "".join(f"{' ' * n}{mark}{word.replace('_', ' ')}{end}" for n, mark, word, end in lines)
    try:
        nodes = yaml_nodes.compose_yaml(text)
    except yaml.YAMLError:
        return
    slow = yaml.compose_all(text, yaml_nodes._node_loader(loader_class()))
    assert [serialized(each) for each in nodes] == [serialized(each) for each in slow]


def serialized(node: Any) -> object:
    """The node with its tags, styles and aliases."""
    return node and yaml.serialize(node)


def shape(node: Node) -> object:
    if node.kind == "scalar":
        return node.tag, node.value, node.plain
    if node.kind == "alias":
        return node.kind, node.tag
    if node.kind == "sequence":
        return [shape(item) for item in node.value]
    return [(shape(key), shape(value)) for key, value in node.value]


@pytest.mark.parametrize("text", ["[" * 5000, "{a: [" * 5000, "a: |#\n b", "é: 1", "a: !!str 1"])
def test_what_they_read_differently_is_left_to_one(text: str) -> None:
    assert yaml_nodes.compose_fast(text) is None


def test_errors_are_those_of_the_parser_that_is_put_right() -> None:
    with pytest.raises(YamlError, match="did not find expected"):
        yaml_nodes.compose("a: [1", is_old=True)
