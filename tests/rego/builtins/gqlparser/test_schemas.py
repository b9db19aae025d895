"""GraphQL schemas, with the checks that OPA's library has, and without those that it has not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins.gqlparser.parser import parse_schema
from doorward.rego.builtins.gqlparser.schemas import read_schema, type_text

is_valid = partial(invoke, "graphql.schema_is_valid")

INTERFACE = "interface I { a(x: Int): I } "


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "scalar A",
        "type Mutation { a: Int } schema { mutation: Mutation }",
        "type A { a(x: Int = [] y: Int = {z: 1}): Int }",
        "scalar A @specifiedBy(url: 3)",
        "enum E { A @deprecated(reason: []) }",
        "input A { a: A! }",
        "input A @oneOf { a: Int! b: Int = 1 }",
        "type A { a(x: Int x: Int): Int }",
        "extend type A { a: Int }",
        "extend type A { b: Int } type A { a: Int }",
        "extend type __Type { a: Int }",
        "directive @skip on FIELD directive @skip(a: Int!) on OBJECT type A @skip(a: 1) { a: Int }",
        "directive @d on OBJECT type A @d { a: Int } extend type A @d",
        "directive @d repeatable on OBJECT | FIELD_DEFINITION type A @d @d { a: Int @d @d }",
        f"{INTERFACE} type A implements I {{ a(x: Int y: Int): A }}",
        f"{INTERFACE} type A implements I {{ a(x: Int y: Int! = 1): I! }}",
        "interface I { a: [I] } type A implements I { a: [A!]! }",
        "interface I { a: U } union U = A type A implements I { a: A }",
        "union U",
    ],
)
def test_schemas(schema: str) -> None:
    assert is_valid(schema) is True


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("scalar Int", "input:1:8: Cannot redeclare type Int."),
        ("type A { a: Int } scalar A", "input:1:26: Cannot redeclare type A."),
        (
            "type A { a: Int } extend input A { a: Int }",
            "input:1:32: Cannot extend type A because the base type is a OBJECT, not INPUT_OBJECT.",
        ),
        (
            "directive @d on FIELD directive @d on FIELD",
            "input:1:34: Cannot redeclare directive d.",
        ),
        (
            "type A { a: Int } schema { query: A } schema { query: A }",
            "input:1:46: Cannot have multiple schema entry points",
        ),
        ("schema { query: A }", "input:1:10: Schema root query refers to a type A that does not"),
        ("extend schema { query: A }", "input:1:17: Schema root query refers to a type A that"),
        ("type A { __a: Int }", 'Name "__a" must not begin with "__", which is reserved'),
        ("type __A { a: Int }", 'Name "__A" must not begin with "__"'),
        ("directive @__d on FIELD", 'Name "__d" must not begin with "__"'),
        ("type A { a(__x: Int): Int }", 'Name "__x" must not begin with "__"'),
        ("type A { a: Nope }", "input:1:13: Undefined type Nope."),
        ("type A { a(x: [Nope]): Int }", "Undefined type Nope."),
        (
            "type A { a(x: A): Int }",
            "cannot use A as argument x because OBJECT is not a valid input",
        ),
        ("union U = Nope", 'Undefined type "Nope".'),
        ("union U = Int", 'UNION type "Int" must be OBJECT.'),
        ("union U = A | A type A { a: Int }", "Union type U can only include type A once."),
        ("type A", "OBJECT A: must define one or more fields."),
        ("input A", "INPUT_OBJECT A: must define one or more input fields."),
        ("enum A", "ENUM A: must define one or more unique enum values."),
        ("enum A { true }", "ENUM A: non-enum value true."),
        ("enum A { B B }", "Enum value A.B can only be defined once."),
        ("type A { a: Int a: Int }", "Field A.a can only be defined once."),
        ("type A { a: Int } extend type A { a: Int }", "Field A.a can only be defined once."),
        (
            "type A { a: B } input B { b: Int }",
            "OBJECT A: field must be one of SCALAR, OBJECT, INTERFACE, UNION, ENUM.",
        ),
        (
            "input A { a: B } type B { b: Int }",
            "OBJECT a: field must be one of SCALAR, ENUM, INPUT_OBJECT.",
        ),
        ("type A @nope { a: Int }", "Undefined directive nope."),
        ("type A @__d { a: Int }", 'Name "__d" must not begin with "__"'),
        ("type A @skip(if: true) { a: Int }", "Directive skip is not applicable on OBJECT."),
        ("type A { a: Int @deprecated @deprecated }", "The directive deprecated can only be used"),
        (
            "enum A { B @deprecated(x: 1) }",
            "input:1:24: Undefined argument x for directive deprecated.",
        ),
        ("scalar A @specifiedBy", "Argument url for directive specifiedBy cannot be null."),
        ("scalar A @specifiedBy(url: null)", "Argument url for directive specifiedBy cannot be"),
        (
            "directive @d(a: Int @d) on ARGUMENT_DEFINITION",
            "Directive d cannot refer to itself.",
        ),
        ("type A implements I { a: Int }", 'Undefined type "I".'),
        ("type A implements Int { a: Int }", '"Int" is a non interface type SCALAR.'),
        (f"{INTERFACE} type A implements I {{ b: Int }}", "it must have a field called a."),
        (f"{INTERFACE} type A implements I {{ a: Int }}", "the field a must have type I."),
        (f"{INTERFACE} type A implements I {{ a: A }}", "the same arguments but it is missing x."),
        (
            f"{INTERFACE} type A implements I {{ a(x: Int!): A }}",
            "the same arguments but x has the wrong type.",
        ),
        (
            f"{INTERFACE} type A implements I {{ a(x: Int y: Int!): A }}",
            "must be optional or have a default value but y is required.",
        ),
        (
            "interface I { a: I } interface J implements I { a: I } type A implements J { a: I }",
            "Type A must implement I because it is implemented by J.",
        ),
        (
            "interface I implements J { a: I } interface J implements I { a: I }",
            "Type I cannot implement J because it would create a circular reference.",
        ),
        ("interface I { a: [I] } type A implements I { a: I }", "the field a must have type [I]."),
        ("interface I { a: I! } type A implements I { a: I }", "the field a must have type I!."),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(schema: str, problem: str) -> None:
    assert is_valid(schema) is False
    with pytest.raises(Exception, match="SchemaDocument to Schema conversion") as caught:
        invoke("graphql.parse", "{ a }", schema)
    assert problem in str(caught.value)


def test_a_schema_does_not_change_the_next_one() -> None:
    for _ in range(2):
        assert is_valid("extend type __Type { z: Int } extend type A { a: Int }") is True
        query = "{ __schema { types { z } } a }"
        assert invoke("graphql.is_valid", query, "type Query { a: Int }") is False


def test_the_last_definition_of_a_directive_counts() -> None:
    schema = "directive @skip(if: Int!) on FIELD type Query { a: Int }"
    assert invoke("graphql.is_valid", "{ a @skip(if: 1) }", schema) is True
    assert invoke("graphql.is_valid", "{ a @skip(if: true) }", schema) is False


def test_roots() -> None:
    def roots(text: str) -> Any:
        return {k: v["Name"] for k, v in read_schema(parse_schema(text, 1000)).roots.items()}

    types = "type Query { a: [[Int!]]! } type Mutation { a: Int } type Q { a: Int }"
    assert roots(types) == {"query": "Query", "mutation": "Mutation"}
    assert roots(f"{types} schema {{ query: Q }}") == {"query": "Q"}
    extended = f"{types} extend schema {{ query: Q }}"
    assert roots(extended) == {"query": "Q", "mutation": "Mutation"}
    field = read_schema(parse_schema(types, 1000)).types["Query"]["Fields"][0]
    assert type_text(field["Type"]) == "[[Int!]]!"
