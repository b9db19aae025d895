"""Texts for patterns and documents for schemas: the built-ins accept them."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import Engine
from doorward.rego.builtins.inversion.witnesses import (
    glob_witnesses,
    group_witnesses,
    instances_of,
    regex_witnesses,
)

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 5}}},
    {"properties": {"a": {"const": 3}}, "required": ["a"]},
    {"required": ["xs"], "properties": {"xs": {"type": "array", "minItems": 2}}},
    {"required": ["s"], "properties": {"s": {"type": "string", "pattern": "^a[0-9]{2}$"}}},
    {"required": ["s"], "properties": {"s": {"type": "string", "minLength": 4}}},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"required": ["b"], "properties": {"b": {"enum": ["x", "y"]}}},
    {"required": ["b"], "properties": {"b": {"type": ["boolean", "null"]}}},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_an_instance_is_accepted_by_its_schema(schema: dict[str, Any]) -> None:
    query = Engine().prepare("json.match_schema(input.document, input.schema)[0]")
    documents = instances_of(schema)
    assert any(query.answer({"document": each, "schema": schema}) is True for each in documents)


def test_a_recursive_schema_and_one_that_is_not_an_object_end() -> None:
    schema: dict[str, Any] = {}
    schema |= {"required": ["a"], "properties": {"a": schema}}
    assert instances_of(schema)
    assert instances_of("x") == [{}]


def test_groups_become_parts_of_a_text_that_matches() -> None:
    pattern = r"^/orgs/([a-z]+)/repos/([0-9]+)$"
    texts = group_witnesses(pattern, ["acme", None])
    query = Engine().prepare("regex.find_all_string_submatch_n(input.p, input.s, 1)[0]")
    assert [query.answer({"p": pattern, "s": each})[1] for each in texts] == ["acme"] * len(texts)


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a|bb", ["a", "bb"]),
        ("[^a]", ["b"]),
        ("[^b]", ["a"]),
        ("[^ab]+", ["~", "~~"]),
        ("[xyz]", ["x"]),
        ("[b-y]", ["b"]),
        (r"\d\s\w", ["1 a"]),
        ("a{2,}", ["aa", "aaa"]),
        ("b*?", ["", "b"]),
        ("(cc|dd).", ["cca", "dda"]),
    ],
)
def test_a_pattern_matches_its_texts(pattern: str, texts: list[str]) -> None:
    assert regex_witnesses(pattern)[: len(texts)] == texts
    query = Engine().prepare('regex.match(sprintf("^(%s)$", [input.p]), input.s)')
    assert all(query.answer({"p": pattern, "s": each}) for each in texts)


@pytest.mark.parametrize("pattern", ["(", "a" * 201])
def test_a_pattern_that_is_invalid_or_long_has_no_texts(pattern: str) -> None:
    assert regex_witnesses(pattern) == []
    assert group_witnesses(pattern, ["a"]) == []


def test_a_long_glob_has_no_texts() -> None:
    assert glob_witnesses("a" * 201) == []
    assert glob_witnesses("a" * 200)[0] == "a" * 200


def test_each_alternative_of_a_glob_has_a_text() -> None:
    texts = glob_witnesses("*.{dev,prod}.corp")
    assert "a.dev.corp" in texts
    assert "a.prod.corp" in texts
