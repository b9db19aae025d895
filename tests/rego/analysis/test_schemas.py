"""Schemas say what can stand in a document; nothing else is checked."""

from __future__ import annotations

import json

import pytest

from doorward.rego.analysis.environment import TypeNode
from doorward.rego.analysis.passes import CheckOptions, check
from doorward.rego.analysis.schemas import (
    AnnotatedDocuments,
    SchemaError,
    Schemas,
    schema_type,
)
from doorward.rego.analysis.type_errors import type_text
from doorward.rego.builtins import REGISTRY
from doorward.rego.builtins.registry.signature import ObjectType
from doorward.rego.errors import CompileError
from doorward.rego.numbers import Number
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module

USER = {"type": "object", "properties": {"name": {"type": "string"}}}

TYPES: list[tuple[object, str]] = [
    ({}, "any"),
    (True, "any"),
    ({"type": "integer"}, "number"),
    ({"type": ["null", "object", "string"]}, "string"),
    ({"type": "null"}, "any"),
    ({"type": "null", "properties": {"n": {}}}, "object<n: any>"),
    (USER, "object<name: string>"),
    ({"properties": {"n": {"type": "number"}}}, "object<n: number>"),
    ({"type": "object"}, "object[any: any]"),
    ({"type": "array", "items": {"type": "string"}}, "array[string]"),
    ({"type": "array", "items": [{"type": "string"}, {"type": "number"}]}, "array<string, number>"),
    ({"items": {"type": "boolean"}}, "array[boolean]"),
    ({"type": "array", "items": []}, "array[any]"),
    ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "any<number, string>"),
    ({"allOf": [USER, {"properties": {"n": {}}}]}, "object<n: any, name: string>"),
    ({"$ref": "#/$defs/u", "$defs": {"u": USER}}, "object<name: string>"),
    ({"anyOf": [{"type": "string"}], **USER}, "any<string, object<name: string>>"),
    ({"anyOf": [{"type": "string"}], "type": "object"}, "string"),
    ({"anyOf": [{"type": "string"}], "type": "number"}, "string"),
    ({"allOf": [{}]}, "any"),
    ({"allOf": [{"type": "string"}, {"type": "string", "minLength": 1}]}, "string"),
    ({"allOf": [{"items": [{}]}, {"items": [{}, {"type": "number"}]}]}, "array<any, number>"),
    ({"allOf": [USER], "type": "object", "properties": {"n": {}}}, "object<n: any, name: string>"),
    ({"allOf": [USER], "properties": {"n": {}}}, "object<name: string>"),
    ({"allOf": [{"$ref": "#/u"}, {"minLength": 1}], "u": USER}, "object<name: string>"),
    ({"$ref": "#"}, "any"),
    ({"anyOf": [False, False]}, "any"),
    ({"type": "string", "minimum": Number("1e400")}, "string"),
]


@pytest.mark.parametrize(("schema", "text"), TYPES)
def test_a_schema_is_a_type(schema: object, text: str) -> None:
    assert type_text(schema_type(schema)) == text


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (
            {"allOf": [{"type": "string"}, {"minLength": 1}]},
            ": type mismatch: string and Undefined",
        ),
        ({"allOf": [USER, {"type": "string"}]}, ": type mismatch: object and string"),
        ({"allOf": [False, USER]}, ": type mismatch: Undefined and object"),
        (
            {"allOf": [{"type": ["string", "null"]}, {"type": "null"}]},
            ": type mismatch: [string,null] and null",
        ),
        ({"allOf": [USER], "type": "string"}, ""),
        ({"allOf": [{"items": [{"type": "null"}]}, {"items": [{"type": "string"}]}]}, ""),
    ],
)
def test_schemas_of_different_types_are_not_merged(schema: object, kinds: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_type(schema)
    assert str(caught.value) == f"type checking: unable to merge these schemas{kinds}"


def doubling(depth: int) -> dict[str, object]:
    """Each definition refers to the next one twice."""
    parts: dict[str, object] = {}
    for n in range(depth):
        both = {x: {"$ref": f"#/definitions/d{n + 1}"} for x in "ab"}
        parts[f"d{n}"] = {"anyOf": [{"properties": both}, {"type": "string"}]}
    last = {f"d{depth}": {"type": "string"}}
    return {"definitions": {**parts, **last}, "$ref": "#/definitions/d0"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "foo"},
        {"type": 1},
        {"$ref": "http://a.example/x"},
        {"$schema": 5},
        {"enum": [float("inf")]},
        {"properties": {"a": 5}},
        {"anyOf": "x"},
        5,
        json.loads('{"not":' * 900 + "{}" + "}" * 900),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(schema: object) -> None:
    with pytest.raises(SchemaError):
        schema_type(schema)


def test_references_that_double_are_not_followed_to_the_end() -> None:
    assert type_text(schema_type(doubling(5))).count("string") == 2**6 - 1
    assert len(type_text(schema_type(doubling(40)))) < 1_000_000


def refusal(text: str, schemas: Schemas | None = None) -> list[str]:
    module = parse_module(Source("p.rego", text), annotations=True)
    try:
        check([module], REGISTRY, CheckOptions(schemas=schemas))
    except CompileError as error:
        return [d.message for d in error.diagnostics]
    return []


def test_a_schema_by_name_is_the_one_that_was_given() -> None:
    text = "package p\n# METADATA\n# schemas:\n# - input: schema.user\np if input.nme"
    assert refusal(text) == []
    assert refusal(text, {("user",): USER}) == ["undefined ref: input.nme"]
    assert refusal(text, {("other",): USER}) == ["undefined schema: schema.user"]


def test_the_schema_of_the_input_holds_everywhere() -> None:
    assert refusal("package p\np if input.nme", {(): USER}) == ["undefined ref: input.nme"]
    assert refusal("package p\np if input.name", {(): USER}) == []


def test_a_schema_of_a_part_leaves_the_rest_open() -> None:
    head = 'package p\n# METADATA\n# schemas:\n# - input.a: {"type": "array"}\n'
    assert refusal(f"{head}p if {{ input.b.c; input.a[0] }}") == []
    assert refusal(f"{head}p if input.a.c") == ["undefined ref: input.a.c"]


def test_a_package_may_be_described_once() -> None:
    text = "# METADATA\n# title: a\npackage p\np := 1"
    assert refusal(text) == []
    modules = [parse_module(Source(f"{n}.rego", text), annotations=True) for n in "ab"]
    with pytest.raises(CompileError, match=r"package annotation redeclared: a\.rego:1"):
        check(modules, REGISTRY, CheckOptions())


def test_a_schema_becomes_a_type_once_for_all_rules_that_name_it() -> None:
    text = (
        "# METADATA\n# schemas:\n# - input: schema.user\npackage p\n\na if input.name\n\n"
        "# METADATA\n# schemas:\n# - data.x: schema.user\nb if data.x.name\n\nc if input.name\n"
    )
    module = parse_module(Source("p.rego", text), annotations=True)
    annotations = AnnotatedDocuments([module], {("user",): USER})
    said = [annotations.of(rule, module, TypeNode()) for rule in module.rules]
    assert said[0] is said[2]
    assert isinstance(said[0], TypeNode)
    assert isinstance(said[1], TypeNode)
    data = said[1].children["data"].type
    assert isinstance(data, ObjectType)
    assert dict(data.fields)["x"] is said[0].children["input"].type is not None


def test_annotations_hold_from_the_widest_scope_to_the_narrowest() -> None:
    outer = (
        '# METADATA\n# scope: subpackages\n# schemas:\n# - input: {"type": "string"}\npackage a\n'
    )
    inner = '# METADATA\n# schemas:\n# - input: {"type": "number"}\npackage a.b\n\np := input\n'
    texts = {"b.rego": inner, "a.rego": outer, "c.rego": "package a.c\n\np := input\n"}
    modules = [parse_module(Source(n, t), annotations=True) for n, t in texts.items()]
    annotations = AnnotatedDocuments(modules, None)
    types = []
    for module in (modules[0], modules[2]):
        tree = annotations.of(module.rules[0], module, TypeNode())
        assert isinstance(tree, TypeNode)
        types.append(type_text(tree.children["input"].type))
    assert types == ["number", "string"]
