"""GraphQL queries, with the rules that OPA's library has, and without those that it has not."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins import Context, Environment
from doorward.rego.builtins.gqlparser.nodes import from_object
from doorward.rego.builtins.gqlparser.suggestions import any_of, similar, value_text
from doorward.rego.errors import BuiltinError, EvaluationAborted, LimitError

is_valid = partial(invoke, "graphql.is_valid")

SCHEMA = """
type Query implements I {
  a: Int
  b(x: Int!, y: [String], z: E, w: In): String
  c: Query
  d(x: Int! = 1, o: One): I
  e: U
  f: E!
  s(v: Date): Date
}
type Other { a: String n: Int! c: Other }
type Mutation { m(in: [In!]!): Other }
type Subscription { s: Int t: Int }
interface I { a: Int }
union U = Query | Other
enum E { RED GREEN }
input In { i: Int! j: In k: Boolean = true l: Int! = 3 }
input One @oneOf { p: Int q: String }
scalar Date
directive @d(n: Int) on QUERY | FIELD | VARIABLE_DEFINITION
directive @r repeatable on FIELD | FRAGMENT_DEFINITION
"""


@pytest.mark.parametrize(
    "query",
    [
        "",
        "fragment F on Query { a } { ...F }",
        "query A { a } query B { a }",
        "query($v: Int = 1) @d { b(x: $v) }",
        "query($v: Int! @d) { b(x: $v) @r @r }",
        "query($v: Int) { d(x: $v) { a } }",
        "query($v: Date! = []) { c { s(v: $v) } }",
        "mutation($v: Int!) { m(in: {i: $v}) { a } }",
        "{ b(x: 9223372036854775807) }",
        "{ b(x: 1, y: null) }",
        '{ b(x: 1, y: "one") }',
        '{ b(x: 1, y: ["a", null]) }',
        "{ b(x: {}) }",
        "{ b(x: 1, z: {}) }",
        "{ b(x: 1, z: RED, w: {i: 1, j: {i: 2}}) }",
        "{ s(v: [1, {a: X}]) }",
        "{ d(o: {p: 1}) { a } }",
        "query($v: Int!) { d(o: {p: $v}) { a } }",
        "{ e { ... on Query { a } ... on Other { n } __typename } }",
        "{ e { ... on I { a } } }",
        "{ e { ... on Query { x: a } ... on Other { y: a } } }",
        "{ c { a } c { f } }",
        "{ c { ... { a } ...F } } fragment F on I { a }",
        "{ x: b(x: 1) y: b(x: 2) }",
        '{ b(x: 1, y: ["a"]) b(x: 1, y: ["b"]) }',
        "subscription { s s }",
        '{ __type(name: "a") { fields { type { fields { name } } } } }',
        "{ __schema { types { name } } }",
        "{ a @include(if: true) @skip(if: false) }",
        "{ ... @defer { a } }",
        "fragment F on Query { a @d } query A { ...F } query B { ...F }",
    ],
)
def test_queries(query: str) -> None:
    assert is_valid(query, SCHEMA) is True


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (
            "{ z }",
            'Cannot query field "z" on type "Query". Did you mean "a", "b", "c", "d", or "e"?',
        ),
        ("{ a { a } }", 'Cannot query field "a" on type "Int".'),
        ("{ e { a } }", 'on type "U". Did you mean to use an inline fragment on "I", "Other", or'),
        ("{ d { n } }", 'Cannot query field "n" on type "I".'),
        ("{ c }", 'Field "c" of type "Query" must have a selection of subfields. Did you mean'),
        ("{ __typename { a } }", 'Cannot query field "a" on type "String".'),
        ("{ a(x: 1) }", 'Unknown argument "x" on field "Query.a" in'),
        ("{ b(x: 1, u: 1) }", 'Unknown argument "u" on field "Query.b". Did you mean'),
        ("{ b }", 'Field "b" argument "x" of type "Int!" is required, but it was not provided in'),
        ("{ b(x: 1, x: 1) }", 'There can be only one argument named "x" in'),
        ("{ b(x: null) }", 'Expected value of type "Int!", found null in'),
        ("{ b(x: 1.0) }", "Int cannot represent non-integer value: 1.0"),
        (
            "{ b(x: 9223372036854775808) }",
            "Int cannot represent non 32-bit signed integer value: 9",
        ),
        ('{ b(x: "1") }', 'Int cannot represent non-integer value: "1"'),
        ("{ b(x: [1]) }", "Int cannot represent non-integer value: [1]"),
        ("{ b(x: 1, y: 1) }", "String cannot represent a non string value: 1"),
        ("{ b(x: 1, z: BLUE) }", 'Value "BLUE" does not exist in "E" enum in'),
        ('{ b(x: 1, z: "RED") }', 'Enum "E" cannot represent non-enum value: "RED". Did you mean'),
        ("{ b(x: 1, z: true) }", 'Enum "E" cannot represent non-enum value: true in'),
        ("{ b(x: RED) }", "Int cannot represent non-integer value: RED"),
        ("{ b(x: 1, w: {}) }", 'Field "In.i" of required type "Int!" was not provided in'),
        ("{ b(x: 1, w: {i: 1, z: 1}) }", 'Field "z" is not defined by type "In". Did you mean'),
        ("{ b(x: 1, w: {i: 1, i: 1}) }", 'There can be only one input field named "i" in'),
        ("{ b(x: 1, w: RED) }", 'Expected value of type "In", found RED in'),
        ("{ d(o: {}) { a } }", 'OneOf Input Object "One" must specify exactly one key in'),
        ("{ d(o: {p: null}) { a } }", 'Field "One.p" must be non-null in'),
        ("query($v: Int) { d(o: {p: $v}) { a } }", "must be non-nullable to be used for OneOf"),
        ("{ b(x: $v) }", 'Variable "$v" is not defined in'),
        ("query Q { b(x: $v) }", 'Variable "$v" is not defined by operation "Q" in'),
        ("query($v: Int) { a }", 'Variable "$v" is never used in GraphQL'),
        ("query Q($v: Int) { a }", 'Variable "$v" is never used in operation "Q" in'),
        ("query($v: Int) { b(x: $v) }", 'Variable "$v" of type "Int" used in position expecting'),
        ("query($v: [Int]) { b(x: $v) }", 'of type "[Int]" used in position expecting type "Int!"'),
        ("query($v: Nope) { s(v: $v) }", 'Unknown type "Nope"'),
        ("query($v: Query) { a @d(m: $v) }", 'Unknown argument "m" on directive "@d"'),
        ("query($v: U = 1) { a }", 'Expected value of type "U", found 1.'),
        ("query($v: Int!, $v: Int!) { b(x: $v) }", 'Variable "$v" is never used.'),
        ("query($v: Int = null) { b(x: $v) }", "used in position expecting type"),
        ('query($v: Int = "a") { s(v: $v) }', 'Int cannot represent non-integer value: "a" in'),
        ("{ a @nope }", 'Unknown directive "@nope" in'),
        ("{ a @deprecated }", 'Directive "@deprecated" may not be used on FIELD in'),
        ("{ a @skip }", 'Directive "@skip" argument "if" of type "Boolean!" is required'),
        ("{ a @d @d }", 'The directive "@d" can only be used once at this location in'),
        ("{ a @d(m: 1) }", 'Unknown argument "m" on directive "@d". Did you mean "n"?'),
        ("mutation @d { m(in: []) { a } }", 'Directive "@d" may not be used on MUTATION in'),
        ("{ ...F }", 'Unknown fragment "F" in'),
        ("{ a } fragment F on Query { a }", 'Fragment "F" is never used in'),
        ("{ ...F } fragment F on Nope { a }", 'Unknown type "Nope"'),
        ("{ ... on Nope { a } }", 'Unknown type "Nope" in'),
        ("{ ... on E { __typename } }", 'Fragment cannot condition on non composite type "E" in'),
        ("{ ...F } fragment F on In { i }", 'Fragment "F" cannot condition on non composite type'),
        ("{ c { ... on Other { a } } }", 'objects of type "Query" can never be of type "Other" in'),
        ("{ ...F } fragment F on Other { a }", 'Fragment "F" cannot be spread here as objects of'),
        ("{ ...F } fragment F on Query { ...F }", 'Cannot spread fragment "F" within itself in'),
        (
            "{ ...F } fragment F on Query { c { ...G } } fragment G on Query { ...F }",
            'Cannot spread fragment "F" within itself via "G" in',
        ),
        (
            "{ ...F } fragment F on Query { a } fragment F on Query { a }",
            'There can be only one fragment named "F" in',
        ),
        ("query A { a } query A { a }", 'There can be only one operation named "A" in'),
        ("{ a } query A { a }", "This anonymous operation must be the only defined operation in"),
        ("subscription { s t }", "Anonymous Subscription must select only one top level field in"),
        (
            "subscription S { ...F } fragment F on Subscription { s t }",
            'Subscription "S" must select',
        ),
        ("subscription { __typename }", "must not select an introspection top level field in"),
        ("{ a: f a }", 'Fields "a" conflict because "f" and "a" are different fields'),
        ("{ b(x: 1) b(x: 2) }", "because they have differing arguments"),
        ("{ b(x: 1) b(x: 1, z: RED) }", "because they have differing arguments"),
        (
            "{ e { ... on Query { a } ... on Other { a } } }",
            'because they return conflicting types "Int" and "String"',
        ),
        (
            "{ e { ... on Query { x: a } ... on Other { x: n } } }",
            'because they return conflicting types "Int" and "Int!"',
        ),
        (
            "{ c { x: a } c { x: f } }",
            'Fields "c" conflict because subfields "x" conflict because "a" and "f" are different',
        ),
        (
            "{ c { x: a ...F } } fragment F on Query { x: f }",
            'Fields "x" conflict because "a" and "f" are different fields',
        ),
        (
            "{ c { ...F ...G } } fragment F on Query { x: f } fragment G on Query { x: a }",
            'Fields "x" conflict because "f" and "a" are different fields',
        ),
        (
            "{ c { ...F } c { ...G } } fragment F on Query { x: f } fragment G on Query { x: a }",
            'Fields "c" conflict because subfields "x" conflict because',
        ),
        (
            "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }",
            "Maximum introspection depth exceeded in",
        ),
        (
            '{ __type(name: "a") { ...F } } fragment F on __Type { fields { type { ...G } } } '
            "fragment G on __Type { interfaces { possibleTypes { name } } }",
            "Maximum introspection depth exceeded in",
        ),
    ],
)
def test_what_is_wrong_with_a_query(query: str, problem: str) -> None:
    assert is_valid(query, SCHEMA) is False
    assert invoke("graphql.parse_and_verify", query, SCHEMA) == [False, {}, {}]
    with pytest.raises(BuiltinError, match=re.escape(problem)) as caught:
        invoke("graphql.parse", query, SCHEMA)
    assert re.search(r" in GraphQL string at location \d+:\d+$", str(caught.value))


@pytest.mark.parametrize("word", ["query", "mutation", "subscription"])
def test_an_operation_needs_its_root(word: str) -> None:
    with pytest.raises(BuiltinError, match=f'does not support operation type "{word}"'):
        invoke("graphql.parse", f"{word} {{ a }}", "type A { a: Int }")


def test_a_schema_needs_no_queries() -> None:
    schema = "type Mutation { a: Int } schema { mutation: Mutation }"
    assert is_valid("mutation { a }", schema) is True
    assert is_valid("{ a }", schema) is False


def test_each_operation_is_walked_with_its_own_variables() -> None:
    fragment = "fragment F on Query { b(x: $v) }"
    assert is_valid(f"query A($v: Int!) {{ ...F }} {fragment}", SCHEMA) is True
    assert is_valid(f"query A($v: Int!) {{ ...F }} query B {{ ...F }} {fragment}", SCHEMA) is False


def test_the_deadline_is_no_answer() -> None:
    past = Context(Environment(), deadline=time.monotonic() - 1)
    query = "{ " + "a " * 2000 + "}"
    for name in ("graphql.parse_and_verify", "graphql.is_valid"):
        with pytest.raises(EvaluationAborted, match="caller cancelled"):
            invoke(name, query, "type Query { a: Int }", context=past)


def test_fragments_that_nest_too_deeply_are_refused() -> None:
    chain = " ".join(f"fragment f{n} on Query {{ ...f{n + 1} }}" for n in range(1000))
    query = f"{{ ...f0 }} {chain} fragment f1000 on Query {{ a }}"
    with pytest.raises(LimitError, match="nested too deeply"):
        is_valid(query, "type Query { a: Int }")


def test_a_search_that_doubles_at_each_level_ends(monkeypatch: Any) -> None:
    monkeypatch.setattr("doorward.rego.builtins.gqlparser.conflicts.MAX_STEPS", 20_000)
    chain = " ".join(f"fragment f{n} on __Type {{ ...f{n + 1} ...f{n + 1} }}" for n in range(30))
    query = f'{{ __type(name: "a") {{ ...f0 }} }} {chain} fragment f30 on __Type {{ name }}'
    with pytest.raises(LimitError, match="more than 20000 steps of validation"):
        is_valid(query, "type Query { a: Int }")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a or b"),
        (["a", "b", "c"], "a, b, or c"),
        (list("abcdefg"), "a, b, c, d, or e"),
    ],
)
def test_lists_of_names(names: list[str], text: str) -> None:
    assert any_of(names) == text


def test_names_that_may_be_meant() -> None:
    assert similar("name", ["nam", "NAME", "mane", "other", "name"]) == [
        "name",
        "nam",
        "NAME",
        "mane",
    ]
    assert similar("a", ["abcdef"]) == []


def test_values_as_text() -> None:
    query: Any = invoke("graphql.parse_query", '{ a(b: [$x, "é\\n", {c: null, d: [1]}]) }')
    value = query["Operations"][0]["SelectionSet"][0]["Arguments"][0]["Value"]
    assert value_text(from_object("Value", value)) == '[$x,"é\\n",{c:null,d:[1]}]'
    assert value_text(None) == "<nil>"
