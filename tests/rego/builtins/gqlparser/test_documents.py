"""GraphQL, where the recorded answers are silent: objects back to text, bounds."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins import Context, Environment
from doorward.rego.builtins.gqlparser.documents import query_text, schema_text
from doorward.rego.errors import BuiltinError, EvaluationAborted, LimitError

parse_query = partial(invoke, "graphql.parse_query")
parse_schema = partial(invoke, "graphql.parse_schema")
is_valid = partial(invoke, "graphql.is_valid")

QUERY = """
query Q($a: [Int!]! = [1, 2], $b: In = {x: "é\\"", y: E, z: null} @d) @d(x: 1.5) {
  alias: field(a: $a, b: null, c: true) @include(if: $b) {
    ...F ... on T { x } ... @skip(if: false) { y(v: {w: [$b]}) }
  }
}
mutation { m }
subscription S { s }
fragment F on T @d { z }
"""
SCHEMA = """
"A schema" schema @d { query: Q mutation: M }
"A directive" directive @d(x: Float = 1.5 @d) repeatable on SCHEMA | FIELD
"A type" type Q implements I & J @d { "A field" f("An argument" a: [Int!]! = [1]): String! @d }
type M { m: Int }
interface I { f: String }
interface J implements I { f: String }
union U @d = Q | M
enum E @d { "A value" A @d B }
input In { x: Int = 3 y: [In] }
scalar Date @d
extend type Q { g: Int }
extend schema @d
extend union U = T
"""


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ('"d" query { x }', 'Unexpected String "d" in GraphQL string at location 1:2'),
        ('"a\\"b" query { x }', 'Unexpected String "a\\"b" in GraphQL string at location 1:2'),
        ('"a\\"b" { x }', 'Unexpected String "a\\"b" in GraphQL string at location 1:2'),
        ('"" { x }', "Unexpected String in GraphQL string at location 1:2"),
        ('"""d""" { x }', 'Unexpected BlockString "d" in GraphQL string at location 1:4'),
        ('"""d""" mutation { x }', 'Unexpected BlockString "d" in GraphQL string at location 1:4'),
        ('\n "d" fragment F on Q { x }', 'Unexpected String "d" in GraphQL string at location 2:3'),
        ('query("d" $a: Int) { x }', "Expected $, found String in GraphQL string at location 1:8"),
        ("query($a: Int = $b) { x }", "Unexpected $ in GraphQL string at location 1:17"),
        ('{ x "a" }', "Expected Name, found String in GraphQL string at location 1:6"),
        ('{ x """a""" }', "Expected Name, found BlockString in GraphQL string at location 1:8"),
        (
            "fragment F T { x }",
            'Expected "on", found Name "T" in GraphQL string at location 1:12',
        ),
        ("query Q 1 { x }", "Expected {, found Int in GraphQL string at location 1:9"),
        ("query ($a b) { x }", "Expected :, found Name in GraphQL string at location 1:11"),
    ],
)
def test_what_is_not_a_query_is_refused_in_opas_words(query: str, problem: str) -> None:
    with pytest.raises(BuiltinError, match=f"^{re.escape(problem)}$"):
        parse_query(query)
    assert is_valid(query, "type Query { x: Int }") is False


@pytest.mark.parametrize(
    ("text", "parse", "write"),
    [(QUERY, parse_query, query_text), (SCHEMA, parse_schema, schema_text)],
)
def test_an_object_written_and_read_is_the_same(text: str, parse: Any, write: Any) -> None:
    tree = parse(text)
    assert parse(write(tree)) == tree


@pytest.mark.parametrize(
    "query",
    [
        {"Operations": 1},
        {"Operations": [1]},
        {"Operations": [{"Operation": "query", "SelectionSet": [{"Name": "a } query B { b"}]}]},
        {"Operations": [{"Operation": "query", "Name": 1}]},
        {"Fragments": [{"Name": "F", "TypeCondition": "T { a } query"}]},
    ],
)
def test_an_object_that_is_no_query_is_not_valid(query: Any) -> None:
    assert is_valid(query, "type Query { a: Int }") is False


def test_a_value_in_an_object_cannot_be_more_than_one() -> None:
    value = {"Kind": 1, "Raw": "1) b(x: 2"}
    field: Any = {"Alias": "a", "Name": "a", "Arguments": [{"Name": "x", "Value": value}]}
    with pytest.raises(BuiltinError, match="Raw must be one literal"):
        query_text({"Operations": [{"Operation": "query", "SelectionSet": [field]}]})


def test_a_schema_needs_no_queries() -> None:
    schema = "type Mutation { a: Int } schema { mutation: Mutation }"
    assert is_valid("mutation { a }", schema) is True
    assert is_valid("{ a }", schema) is False


def test_long_and_deep_texts_are_refused() -> None:
    with pytest.raises(LimitError, match="longer than"):
        parse_query("#" * (512 * 1024 + 1))
    with pytest.raises(LimitError, match="10000"):
        parse_query("{ " + "a " * 10_000 + "}")
    with pytest.raises(LimitError, match="nested too deeply"):
        parse_query("{ a" * 4000 + "}" * 4000)
    deep: Any = {"Alias": "a", "Name": "a"}
    for _ in range(2000):
        deep = {"Alias": "a", "Name": "a", "SelectionSet": [deep]}
    query: Any = {"Operations": [{"Operation": "query", "SelectionSet": [deep]}]}
    with pytest.raises(LimitError, match="nested too deeply"):
        is_valid(query, "type Query { a: Query }")


def test_a_query_is_no_schema_and_a_schema_no_query() -> None:
    with pytest.raises(BuiltinError):
        parse_query("type A { a: Int }")
    with pytest.raises(BuiltinError):
        parse_schema("{ a }")


@pytest.mark.parametrize(
    "schema",
    [
        "type Query { a: Nope }",
        "scalar A @specifiedBy(url: 3) type Query { a: A }",
        "enum E { A @deprecated(reason: []) } type Query { a: E }",
        "type Query { a(x: Int = []): Int }",
    ],
)
def test_a_schema_that_contradicts_itself_is_none(schema: str) -> None:
    assert invoke("graphql.schema_is_valid", schema) is False
    with pytest.raises(BuiltinError, match="SchemaDocument to Schema conversion"):
        invoke("graphql.parse", "{ a }", schema)


def test_the_deadline_is_no_answer() -> None:
    past = Context(Environment(), deadline=time.monotonic() - 1)
    query = "{ " + "a " * 2000 + "}"
    for name in ("graphql.parse_and_verify", "graphql.is_valid"):
        with pytest.raises(EvaluationAborted, match="caller cancelled"):
            invoke(name, query, "type Query { a: Int }", context=past)


def test_fragments_that_nest_too_deeply_are_no_query() -> None:
    chain = " ".join(f"fragment f{n} on Query {{ ...f{n + 1} }}" for n in range(600))
    query = f"{{ ...f0 }} {chain} fragment f600 on Query {{ a }}"
    assert is_valid(query, "type Query { a: Int }") is False


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"Directives": [{"Name": "d", "Locations": ["FIELD", "A B"]}]}, "Locations must be names"),
        ({"Definitions": [{"Kind": "THING", "Name": "A"}]}, "Kind of a definition must be one of"),
    ],
)
def test_an_object_that_is_no_schema_is_refused(schema: Any, text: str) -> None:
    with pytest.raises(BuiltinError, match=text):
        invoke("graphql.parse", "{ a }", schema)
