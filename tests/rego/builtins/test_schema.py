"""JSON Schema, where the recorded answers are silent: bounds, references, findings in full."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from tests.rego.builtins.calls import asked

from doorward.rego.builtins import Context, Environment
from doorward.rego.builtins.schema_formats import FORMATS
from doorward.rego.errors import BuiltinError, HaltError, LimitError
from doorward.rego.values import Value, make_set

match = partial(asked, "json.match_schema")
verify = partial(asked, "json.verify_schema")


def findings(document: Value, schema: Value) -> list[tuple[str, str]]:
    valid, found = match(document, schema)
    assert valid is (not found)
    return [(finding["field"], finding["type"]) for finding in found]


@pytest.mark.parametrize(
    ("document", "schema", "found"),
    [
        ({"a": True}, {"properties": {"a": {"enum": [1]}}}, [("a", "enum")]),
        ({"a": 1}, {"properties": {"a": {"const": True}}}, [("a", "const")]),
        ({"a": [1, 1.0]}, {"properties": {"a": {"uniqueItems": True}}}, []),
        ({"a": [True, 1]}, {"properties": {"a": {"uniqueItems": True}}}, []),
        ([{}, {}], {"uniqueItems": True}, [("(Root)", "unique")]),
        ({"a": 1, "b": 1}, {"required": ["c", "d"]}, [("(Root)", "required")] * 2),
        ("7", {"maximum": 7, "exclusiveMaximum": True}, [("(Root)", "number_lt")]),
        ("7", {"maximum": 6}, [("(Root)", "number_lte")]),
        ("7", {"minimum": 8}, [("(Root)", "number_gte")]),
        ("7", {"minimum": 7, "exclusiveMinimum": True}, [("(Root)", "number_gt")]),
        ("7", {"if": False, "else": {"type": "string"}}, None),
        ("1e2", {"type": "integer"}, []),
        ("[]", {"type": ["string", "object"]}, [("(Root)", "invalid_type")]),
        ("1", {"oneOf": [{"type": "integer"}, {"minimum": 0}]}, [("(Root)", "number_one_of")]),
        ("7", {"if": {"type": "integer"}}, []),
        ("7", {"if": {"type": "integer"}, "then": {"minimum": 7}}, []),
        (
            "7",
            {"if": {"type": "integer"}, "then": {"minimum": 8}},
            [("(Root)", "condition_then"), ("(Root)", "number_gte")],
        ),
        ("7", {"enum": [6, 7]}, []),
        ("7", {"patternProperties": {"^a": {"type": "string"}}}, []),
        ("7", {"uniqueItems": True}, []),
        ("[1, 1]", {"uniqueItems": False}, []),
        ("true", {"multipleOf": 2}, []),
        ('"a"', {"multipleOf": 2}, []),
        ("7", {"multipleOf": 2}, [("(Root)", "multiple_of")]),
        ("7", {"contains": {"type": "string"}}, []),
        ('[1, "a"]', {"contains": {"type": "string"}}, []),
        (
            "[1]",
            {"contains": {"type": "string"}},
            [("(Root)", "contains"), ("0", "invalid_type")],
        ),
        (
            '{"b": 1}',
            {"dependencies": {"a": ["y"], "b": ["c"]}},
            [("(Root)", "missing_dependency")],
        ),
        ('{"a": 1}', {"dependencies": {"a": {"required": ["b"]}}}, [("(Root)", "required")]),
        (
            {"x": 1},
            {"oneOf": [{"type": "string"}, {}], "properties": {"x": {"$ref": "#/oneOf/0"}}},
            [("x", "invalid_type")],
        ),
        ('"x"', {"type": "integer", "pattern": "^y"}, [("(Root)", "invalid_type")]),
        (
            '"x"',
            {"allOf": [{"maxLength": 0}, {"pattern": "^y"}]},
            [("(Root)", "string_lte"), ("(Root)", "pattern")],
        ),
        (
            {"a": {"b": 1}, "c": 2},
            {"additionalProperties": False, "patternProperties": {"^a": {"required": ["x"]}}},
            [("(Root)", "additional_property_not_allowed"), ("a", "required")],
        ),
    ],
)
def test_findings(document: Value, schema: Value, found: list[Any] | None) -> None:
    if found is None:
        assert findings(document, schema) == [
            ("(Root)", "condition_else"),
            ("(Root)", "invalid_type"),
        ]
    else:
        assert findings(document, schema) == found


def test_a_set_is_an_array() -> None:
    assert findings({"a": make_set([2, 1])}, {"properties": {"a": {"type": "array"}}}) == []


def test_nothing_is_fetched() -> None:
    with pytest.raises(BuiltinError, match="cannot be resolved"):
        match({}, {"$ref": "https://example.com/schema.json"})


def test_a_schema_that_refers_to_itself_ends() -> None:
    with pytest.raises(LimitError, match="nested too deeply"):
        match({}, {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}})


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"items": []}, "schema is invalid: "),
        ({"minLength": -1}, "schema is invalid: -1 is less than the minimum of 0"),
        ({"type": "thing"}, "has a primitive type that is NOT VALID -- given: /thing/"),
        ({"allOf": [{}], "not": {"$ref": "#/allOf/1"}}, "Object has no key '1'"),
        (1, "wrong type, expected string or object"),
        ("[]", "schema is invalid"),
    ],
)
def test_a_schema_that_is_none_says_why(schema: Any, text: str) -> None:
    with pytest.raises(BuiltinError) as caught:
        match({}, schema)
    assert text in str(caught.value)


def test_the_deadline_is_no_answer() -> None:
    past = Context(Environment(), deadline=time.monotonic() - 1)
    schema: Any = {"properties": {f"deadline{n}": {"type": "string"} for n in range(3000)}}
    for name, operands in (("json.verify_schema", [schema]), ("json.match_schema", [{}, schema])):
        with pytest.raises(HaltError, match="caller cancelled"):
            asked(name, *operands, context=past)


def test_what_is_wrong_is_said_within_the_deadline() -> None:
    later = Context(Environment(), deadline=time.monotonic() + 60)
    schema: Any = {"properties": {f"wrong{n}": {"pattern": "("} for n in range(500)}}
    assert asked("json.verify_schema", schema, context=later) == [
        False,
        "jsonschema: pattern must be a valid regex",
    ]


def test_a_schema_that_nests_too_deeply_is_refused() -> None:
    schema: Any = {}
    for _ in range(400):
        schema = {"not": schema}
    with pytest.raises(LimitError, match="nested too deeply"):
        match({}, schema)


def test_a_pattern_takes_linear_time() -> None:
    start = time.monotonic()
    assert findings(f'"{"a" * 5000}!"', {"pattern": "^(a+)+$"}) == [("(Root)", "pattern")]
    assert time.monotonic() - start < 1


def test_a_pattern_that_re2_does_not_know_is_no_pattern() -> None:
    assert verify({"pattern": "(?=a)"}) == [False, "jsonschema: pattern must be a valid regex"]


def test_findings_are_bounded() -> None:
    assert len(findings(list(range(2000)), {"items": {"type": "string"}})) == 1000


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date", "2024-01-01", "2024-1-1"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01T25:00:00Z"),
        ("email", "a@b.example", "a b@c"),
        ("hostname", "a-b.example", "-a.example"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "fe80::1%eth0"),
        ("json-pointer", "/a~1b/0", "a"),
        ("regex", "^a+$", "("),
        ("relative-json-pointer", "1/a", "/a"),
        ("time", "12:00:00Z", "12:00"),
        ("uri", "https://a.example/b", "a b"),
        ("uri", "x:y", "http://[a"),
        ("uri-reference", "/a?b", "http://["),
        ("uri-template", "/a/{b}", "/a/{b"),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "0"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert FORMATS[name](good)
    assert not FORMATS[name](bad)
    assert FORMATS[name](7)


def test_patterns_of_names_take_linear_time_where_no_others_may_be() -> None:
    schema: Value = {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}
    start = time.monotonic()
    assert findings({"a" * 40 + "!": 1, "aa": 1}, schema) == [
        ("(Root)", "additional_property_not_allowed")
    ]
    assert time.monotonic() - start < 5


def test_a_part_that_names_a_draft_keeps_to_the_same_rules() -> None:
    part: Value = {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}
    start = time.monotonic()
    assert findings({"a": "a" * 40 + "!"}, {"properties": {"a": part}}) == [("a", "pattern")]
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("document", "extra", "found"),
    [
        ({"a": 1, "x1": "s", "b": 2}, False, [("(Root)", "additional_property_not_allowed")]),
        ({"a": 1, "x1": "s"}, False, []),
        ({"a": 1, "b": 2}, {"type": "string"}, [("b", "invalid_type")]),
        ({"a": 1, "b": 2}, True, []),
    ],
)
def test_names_beside_the_named_ones(
    document: Value, extra: Value, found: list[tuple[str, str]]
) -> None:
    schema: Value = {
        "properties": {"a": {}},
        "patternProperties": {"^x": {"type": "string"}},
        "additionalProperties": extra,
    }
    assert findings(document, schema) == found
