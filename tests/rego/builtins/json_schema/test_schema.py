"""JSON Schema, where the recorded answers are silent: bounds, references, findings in full."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke
from tests.waiting import PATIENCE

from doorward.rego.builtins import Context, Environment
from doorward.rego.builtins.json_schema.formats import FORMATS
from doorward.rego.errors import BuiltinError, EvaluationAborted, LimitError
from doorward.rego.numbers import Number
from doorward.rego.values import Value, make_set

match = partial(invoke, "json.match_schema")
verify = partial(invoke, "json.verify_schema")


def findings(document: Value, schema: Value) -> list[tuple[str, str]]:
    valid, actual = match(document, schema)
    assert valid is (not actual)
    return [(finding["field"], finding["type"]) for finding in actual]


@pytest.mark.parametrize(
    ("document", "schema", "expected"),
    [
        ({"a": True}, {"properties": {"a": {"enum": [1]}}}, [("a", "enum")]),
        ({"a": 1}, {"properties": {"a": {"const": True}}}, [("a", "const")]),
        ({"a": [1, 1.0]}, {"properties": {"a": {"uniqueItems": True}}}, [("a", "unique")]),
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
        ("[]", {"contains": {"type": "string"}}, [("(Root)", "contains")]),
        ("1", {"allOf": [{"type": "number"}, {"minimum": 0}]}, []),
        ("1", {"dependencies": {"a": ["b"]}}, []),
        ('{"a": 1, "b": 1}', {"dependencies": {"a": ["b"]}}, []),
        ("[1]", {"items": [{"type": "number"}], "additionalItems": False}, []),
        ("[1, 2]", {"items": [{"type": "number"}], "additionalItems": True}, []),
        ("[[1, [2.0]], [1.0, [2]]]", {"uniqueItems": True}, [("(Root)", "unique")]),
        (
            '"x"',
            {"allOf": [{"maxLength": 0}, {"pattern": "^y"}]},
            [("(Root)", "string_lte"), ("(Root)", "pattern"), ("(Root)", "number_all_of")],
        ),
        (
            {"a": {"b": 1}, "c": 2},
            {"additionalProperties": False, "patternProperties": {"^a": {"required": ["x"]}}},
            [("a", "required"), ("(Root)", "additional_property_not_allowed")],
        ),
    ],
)
def test_findings(document: Value, schema: Value, expected: list[Any] | None) -> None:
    if expected is None:
        assert findings(document, schema) == [
            ("(Root)", "condition_else"),
            ("(Root)", "invalid_type"),
        ]
    else:
        assert findings(document, schema) == expected


def test_a_set_is_an_array() -> None:
    assert findings({"a": make_set([2, 1])}, {"properties": {"a": {"type": "array"}}}) == []


def test_nothing_is_fetched() -> None:
    with pytest.raises(BuiltinError, match="cannot be resolved"):
        match({}, {"$ref": "https://example.com/schema.json"})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}},
        {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#"}}},
        {"not": {"$ref": "#"}},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"type": "array"}, {"$ref": "#"}]},
        {"if": {"$ref": "#"}, "then": {}},
    ],
    ids=str,
)
def test_a_schema_that_refers_to_itself_is_one_that_matches_nothing(schema: Any) -> None:
    """OPA's process ends with an overflow of its stack."""
    assert verify(schema) == [True, None]
    with pytest.raises(LimitError, match=r"has a cycle|nested too deeply"):
        match({}, schema)


def test_a_schema_may_refer_to_itself_where_documents_end() -> None:
    schema: Value = {"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}
    document: Value = {"n": 1, "next": {"n": 2, "next": {"n": "3"}}}
    assert findings(document, schema) == [("next.next.n", "invalid_type")]


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$id": "#"}, "properties": {"a": {"$ref": "#"}}},
        {"default": {"id": "%zz"}},
        {"const": {"id": 1}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "id": 1},
        {"$ref": "#/items/+1", "items": [{}, {}]},
        {"$schema": "HTTP://json-schema.org/draft-04/schema#", "const": 1},
    ],
    ids=str,
)
def test_ids_matter_where_a_schema_has_them(schema: Any) -> None:
    assert verify(schema) == [True, None]


@pytest.mark.parametrize(
    ("draft", "document", "expected"),
    [
        (4, {"exclusiveMinimum": 1}, ["(Root)", "exclusiveMinimum"]),
        (4, {"maximum": 1, "exclusiveMaximum": True}, []),
        (4, {"const": 1, "if": 1, "required": []}, ["required"]),
        (6, {"const": 1, "if": 1, "required": [], "contains": 1}, ["contains"]),
        (6, {"exclusiveMinimum": True}, ["exclusiveMinimum"]),
        (7, {"if": 1, "enum": [], "pattern": "("}, ["enum", "if", "pattern"]),
        (
            7,
            {"minLength": -1, "items": {"multipleOf": 0}},
            ["items", "items.multipleOf", "minLength"],
        ),
    ],
)
def test_a_reference_may_name_the_schema_of_a_draft(
    draft: int, document: Value, expected: list[str]
) -> None:
    schema: Value = {"$ref": f"http://json-schema.org/draft-0{draft}/schema#"}
    assert sorted({field for field, _ in findings(document, schema)}) == expected


def test_a_part_of_the_schema_of_a_draft_keeps_its_draft() -> None:
    schema: Value = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {
            "a": {"$ref": "http://json-schema.org/draft-07/schema#/properties/multipleOf"}
        },
    }
    assert findings({"a": 0}, schema) == [("a", "number_gt")]


def test_a_name_may_be_empty() -> None:
    assert findings({"": 1}, {"properties": {"": {"type": "string"}}}) == [("", "invalid_type")]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": False}}, "false"),
        ({"$ref": "#/definitions/a%20b", "definitions": {"a b": False}}, "false"),
        (
            {"$ref": "#named", "definitions": {"x": {"$id": "#named", "not": {}}}},
            "number_not",
        ),
        (
            {
                "$id": "http://a.example/root.json",
                "$ref": "item.json",
                "definitions": {"x": {"$id": "item.json", "required": ["y"]}},
            },
            "required",
        ),
        (
            {
                "$id": "http://a.example/root.json",
                "$ref": "http://a.example/root.json#/definitions/x",
                "definitions": {"x": {"not": {}}},
            },
            "number_not",
        ),
        ({"$ref": "#/definitions/x", "definitions": {"x": False}, "required": ["y"]}, "false"),
        ({"properties": {"$ref": {"type": "string"}}, "required": ["$ref"]}, "required"),
        ({"const": {"$ref": "nowhere"}}, "const"),
    ],
    ids=str,
)
def test_a_reference_reaches_into_its_schema(schema: Any, expected: str) -> None:
    assert findings({}, schema) == [("(Root)", expected)]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"$schema": 5}, "$schema must be of type string"),
        ({"$ref": 5}, "Invalid type. Expected: string, given: $ref"),
        ({"$ref": "#/a/b", "a": [1]}, "Invalid array index 'b'"),
        ({"$ref": "#/a/b", "a": 1}, "Invalid token reference 'b'"),
        ({"$ref": "#/a", "a": 1}, "Valid Schema must be of type object"),
        ({"$ref": "other.json"}, "Reference /other.json must be canonical"),
        ({"$ref": "http://[a"}, 'parse "http://[a"'),
        ({"items": [{"$id": "a"}, {"$id": "a"}]}, 'Reference already exists: "/a"'),
        ({"items": [{"$id": "x/../a"}, {"$id": "a"}]}, 'Reference already exists: "/a"'),
        ({"items": [{"$id": "#"}, {"id": ""}]}, 'Reference already exists: ""'),
        ({"id": 1}, "Invalid type. Expected: string, given: id"),
        ({"$id": ["a"]}, "Invalid type. Expected: string, given: $id"),
        ({"$id": "%zz"}, 'parse "%zz": invalid URL escape "%zz"'),
        ({"$ref": "%zz"}, 'parse "%zz": invalid URL escape "%zz"'),
        ({"$schema": "http://["}, 'parse "http://["'),
        ({"$ref": "#/allOf/-1", "allOf": [{}]}, "Out of bound array[0,1] index '-1'"),
        ({"$ref": "file:///etc/passwd"}, "other documents are not fetched"),
        ({"const": Number("1e400")}, "cannot compare the number 1e400: it is too large"),
        ({"enum": [2**2000]}, "it is too large"),
        ('"a" null', "invalid JSON string"),
        ({"title": 1}, "Invalid type. Expected: string, given: title"),
        ({"definitions": []}, "Invalid type. Expected: Array Of Schemas, given: definitions"),
        ({"definitions": {"a": 1}}, "Invalid type. Expected: Array Of Schemas, given: definitions"),
        ({"type": [1]}, "Invalid type. Expected: type, given: string/Array Of Strings"),
        ({"properties": {"a": 1}}, "Expected: Valid Schema, given: Invalid JSON"),
        ({"additionalProperties": 1}, "boolean/Valid Schema, given: additionalProperties"),
        (
            {"patternProperties": 1},
            "Expected: Valid Schema, given: patternProperties",
        ),
        ({"patternProperties": {"(": {}}}, "Invalid regex pattern '('"),
        ({"propertyNames": 1}, "Expected: Valid Schema, given: patternProperties"),
        ({"dependencies": 1}, "dependencies must be of type object"),
        ({"dependencies": {"a": [1]}}, "Dependency must be of type Schema Or Array Of Strings"),
        ({"items": [1]}, "Valid Schema/Array Of Schemas, given: items"),
        ({"additionalItems": 1}, "boolean/Valid Schema, given: additionalItems"),
        ({"multipleOf": "1"}, "Invalid type. Expected: Number, given: multipleOf"),
        ({"multipleOf": 0}, "multipleOf must be strictly greater than 0"),
        ({"maximum": True}, "maximum must be of a Number"),
        ({"exclusiveMaximum": True}, "exclusiveMaximum cannot be used without maximum"),
        ({"exclusiveMaximum": "1"}, "Expected: boolean/number, given: exclusiveMaximum"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "exclusiveMaximum": True},
            "Expected: number, given: exclusiveMaximum",
        ),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMaximum": 1},
            "Expected: boolean, given: exclusiveMaximum",
        ),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "not": True},
            "Expected: Valid Schema, given: Invalid JSON",
        ),
        ({"minItems": 1.5}, "minItems must be of an integer"),
        ({"minLength": -1}, "minLength must be greater than or equal to 0"),
        ({"minProperties": 2, "maxProperties": 1}, "minProperties cannot be greater than max"),
        ({"pattern": 1}, "Invalid type. Expected: string, given: pattern"),
        ({"format": 1}, "Invalid type. Expected: string, given: format"),
        ({"required": [1]}, "Invalid type. Expected: string, given: required"),
        ({"uniqueItems": 1}, "uniqueItems must be of a boolean"),
        ({"contains": 1}, "Expected: Valid Schema, given: Invalid JSON"),
        ({"enum": 1}, "enum must be of an array"),
        ({"enum": [1, 1.0]}, "enum items must be unique"),
        ({"oneOf": 1}, "oneOf must be of an array"),
        ({"not": 1}, "not must be of an object"),
        ({"if": True, "then": 1}, "then must be of an object"),
        ({"else": 1}, "else must be of an object"),
        ({"type": "thing"}, "has a primitive type that is NOT VALID -- given: /thing/"),
        ({"allOf": [{}], "not": {"$ref": "#/allOf/1"}}, "Out of bound array[0,1] index '1'"),
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
        with pytest.raises(EvaluationAborted, match="caller cancelled"):
            invoke(name, *operands, context=past)


def test_what_is_wrong_is_said_within_the_deadline() -> None:
    later = Context(Environment(), deadline=time.monotonic() + PATIENCE)
    schema: Any = {"properties": {f"wrong{n}": {"pattern": "("} for n in range(500)}}
    assert invoke("json.verify_schema", schema, context=later) == [
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
    # With a pattern that is matched by trying this does not end.
    assert findings(f'"{"a" * 5000}!"', {"pattern": "^(a+)+$"}) == [("(Root)", "pattern")]


def test_a_pattern_that_re2_does_not_know_is_no_pattern() -> None:
    assert verify({"pattern": "(?=a)"}) == [False, "jsonschema: pattern must be a valid regex"]


@pytest.mark.parametrize(
    ("document", "schema"),
    [
        (list(range(2000)), {"items": {"type": "string"}}),
        (list(range(2000)), {"items": [{}], "additionalItems": {"type": "string"}}),
        ({str(n): n for n in range(2000)}, {"additionalProperties": False}),
        ([1] * 2000, {"uniqueItems": True}),
        (list(range(2000)), {"allOf": [{"items": {"type": "string"}}] * 3}),
    ],
)
def test_findings_are_bounded(document: Any, schema: Any) -> None:
    assert len(findings(document, schema)) == 1000


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (0, "0"),
        (5, "5"),
        (Number("5.50"), "5.5"),
        (123456, "123456"),
        (999999, "999999"),
        (1000000, "1e+06"),
        (1234567890, "1.23456789e+09"),
        (12345678949, "1.2345678949e+10"),
        (-(10**12), "-1e+12"),
        (Number("0.00001"), "1e-05"),
        (Number("0.0001"), "0.0001"),
        (Number("0.12345678901"), "0.12345678901"),
        (Number("0.30000000000000004"), "0.30000000000000004"),
        (2**63 - 1, "9.223372036854775807e+18"),
        (Number("1e400"), "1e+400"),
        (Number("1e-400"), "1e-400"),
        (Number("1e-4000"), "1e-4000"),
        (Number("123456789.123456789"), "1.23456789123456789e+08"),
        (Number("3.0000000000000000000001"), "3.0000000000000000000001"),
        (2**53 + 1, "9.007199254740993e+15"),
        (Number("0.99999999999999999999"), "0.99999999999999999999"),
    ],
)
def test_limits_have_the_fewest_digits_that_tell_them_apart(limit: Any, shown: str) -> None:
    _, actual = match({"a": -(10**13)}, {"properties": {"a": {"minimum": limit}}})
    assert [f["desc"] for f in actual] == [f"Must be greater than or equal to {shown}"]


@pytest.mark.parametrize(
    ("document", "schema"),
    [
        ({"a": [2**53, 2**53 + 1]}, {"properties": {"a": {"uniqueItems": True}}}),
        ({"a": [2**53, 2**53 + 1]}, {"properties": {"a": {"contains": {"const": 1}}}}),
        ({"a": Number("-0")}, {"properties": {"a": {"const": 0}}}),
        ({}, {"enum": []}),
        ("1", {"enum": []}),
        (
            {"a": 1},
            {"$schema": "http://json-schema.org/draft-07/schema#", "if": True, "then": False},
        ),
    ],
)
def test_what_does_not_match(document: Any, schema: Any) -> None:
    assert match(document, schema)[0] is False


@pytest.mark.parametrize(
    ("document", "schema"),
    [
        ({"a": Number("1.0")}, {"properties": {"a": {"const": 1, "enum": [1], "type": "integer"}}}),
        ({"a": Number("0.3")}, {"properties": {"a": {"multipleOf": Number("0.1")}}}),
        ({"a": 1}, {"properties": {"a": {"type": ["string", "number"]}}}),
        ({}, {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1, "if": False}),
        ({}, {"anyOf": [], "allOf": [], "oneOf": []}),
        ({"a": 2**53 + 1}, {"properties": {"a": {"enum": [2**53]}}}),
        ({"a": Number("1e-400")}, {"properties": {"a": {"const": 0}}}),
        ([1, 2], {"additionalItems": False}),
    ],
)
def test_what_matches(document: Any, schema: Any) -> None:
    assert match(document, schema) == [True, []]


def test_of_alternatives_the_nearest_is_told() -> None:
    schema: Value = {
        "anyOf": [
            {"type": "string"},
            {"required": ["a", "b"], "properties": {"a": {"type": "integer"}}},
            {"required": ["c", "d"]},
        ]
    }
    assert findings({"a": 1}, schema) == [("(Root)", "number_any_of"), ("(Root)", "required")]
    _, actual = match({"a": 1}, schema)
    assert actual[1]["desc"] == "b is required"


def test_the_nearest_alternative_has_no_point_for_properties() -> None:
    schema: Value = {
        "oneOf": [
            {"type": "integer"},
            {"additionalProperties": False, "propertyNames": {"type": "object"}},
        ]
    }
    assert findings({"b": 1}, schema) == [("(Root)", "number_one_of"), ("(Root)", "invalid_type")]
    _, actual = match({"b": 1}, schema)
    assert actual[1]["desc"] == "Invalid type. Expected: integer, given: object"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date", "2024-01-01", "2024-1-1"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01T25:00:00Z"),
        ("date-time", "12:00:00", "2024-01-01 00:00:00Z"),
        ("date-time", "2024-01-01", "2024-01-01T00:00:00"),
        ("date-time", "2024-01-01T0:00:00,5Z", "2024-01-01t00:00:00z"),
        ("email", "a@b.example", "a b@c"),
        ("email", "A B <a@b> (c)", "a..b@c"),
        ("email", '"a b"@[1.2.3.4]', '""@b'),
        ("email", "A: a@b;", "A: a@b, c@d;"),
        ("hostname", "a-b.example", "-a.example"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv4", "::1.2.3.4", "1.2.3.04"),
        ("ipv6", "::1", "fe80::1%eth0"),
        ("json-pointer", "/a~1b/0", "a"),
        ("regex", "^a+$", "("),
        ("relative-json-pointer", "1/a", "/a"),
        ("time", "12:00:00Z", "12:00"),
        ("time", "1:00:00", "12:00:00z"),
        ("time", "12:00:00,5", "12:00:00+25:00"),
        ("uri", "https://a.example/b", "a b"),
        ("uri", "x:y", "http://[a"),
        ("uri-reference", "/a?b", "http://["),
        ("uri-reference", "ftp://a:1:2", "http://a:1:2"),
        ("uri-template", "/a/{b}", "/a/{b"),
        ("uri-template", "{a{b}}", "{a}{b"),
        ("uri-template", "a?{b", "\\{a}"),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "0"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert FORMATS[name](good)
    assert not FORMATS[name](bad)
    assert FORMATS[name](7)


def test_patterns_of_names_take_linear_time_where_no_others_may_be() -> None:
    schema: Value = {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}
    assert findings({"a" * 40 + "!": 1, "aa": 1}, schema) == [
        ("(Root)", "additional_property_not_allowed")
    ]


def test_a_part_that_names_a_draft_keeps_to_the_same_rules() -> None:
    part: Value = {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}
    assert findings({"a": "a" * 40 + "!"}, {"properties": {"a": part}}) == [("a", "pattern")]


@pytest.mark.parametrize(
    ("document", "extra", "expected"),
    [
        ({"a": 1, "x1": "s", "b": 2}, False, [("(Root)", "additional_property_not_allowed")]),
        ({"a": 1, "x1": "s"}, False, []),
        ({"a": 1, "b": 2}, {"type": "string"}, [("b", "invalid_type")]),
        ({"a": 1, "b": 2}, True, []),
    ],
)
def test_names_beside_the_named_ones(
    document: Value, extra: Value, expected: list[tuple[str, str]]
) -> None:
    schema: Value = {
        "properties": {"a": {}},
        "patternProperties": {"^x": {"type": "string"}},
        "additionalProperties": extra,
    }
    assert findings(document, schema) == expected
