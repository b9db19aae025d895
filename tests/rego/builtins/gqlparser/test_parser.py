"""GraphQL texts and the documents that they become, in the forms that OPA's library has."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins.gqlparser.parser import parse_query, parse_schema
from doorward.rego.errors import BuiltinError, LimitError

query_object = partial(invoke, "graphql.parse_query")
schema_object = partial(invoke, "graphql.parse_schema")
is_valid = partial(invoke, "graphql.is_valid")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ('"d" query { x }', 'Unexpected String "d" in GraphQL string at location 1:2'),
        ('"a\\"b" query { x }', 'Unexpected String "a\\"b" in GraphQL string at location 1:2'),
        ('"" { x }', "Unexpected String in GraphQL string at location 1:2"),
        ('"""d""" { x }', 'Unexpected BlockString "d" in GraphQL string at location 1:4'),
        ('\n "d" fragment F on Q { x }', 'Unexpected String "d" in GraphQL string at location 2:3'),
        ('query("d" $a: Int) { x }', "Expected $, found String in GraphQL string at location 1:8"),
        ("query($a: Int = $b) { x }", "Unexpected $ in GraphQL string at location 1:17"),
        ('{ x "a" }', "Expected Name, found String in GraphQL string at location 1:6"),
        ('{ x """a""" }', "Expected Name, found BlockString in GraphQL string at location 1:8"),
        (
            "fragment F T { x }",
            'Expected "on", found Name "T" in GraphQL string at location 1:12',
        ),
        ("fragment on on T { x }", 'Unexpected Name "on" in GraphQL string at location 1:10'),
        ("query Q 1 { x }", "Expected {, found Int in GraphQL string at location 1:9"),
        ("query ($a b) { x }", "Expected :, found Name in GraphQL string at location 1:11"),
        ("{}", "expected at least one definition, found } in GraphQL string at location 1:2"),
        ("{ a() }", "expected at least one definition, found ) in GraphQL string at location 1:5"),
        ("type A { a: Int }", 'Unexpected Name "type" in GraphQL string at location 1:1'),
        ("\r\n{ a", "Expected Name, found <EOF> in GraphQL string at location 2:5"),
        ("{ a(b: 01) }", "Unexpected <Invalid> in GraphQL string at location 1:9"),
        ("{ a(b: 1.) }", "Unexpected <Invalid> in GraphQL string at location 1:10"),
        ("{ a(b: 1e+) }", "Unexpected <Invalid> in GraphQL string at location 1:11"),
        ("{ a(b: -) }", "Unexpected <Invalid> in GraphQL string at location 1:9"),
        ('{ a(b: "\\x") }', "Unexpected <Invalid> in GraphQL string at location 1:10"),
        ('{ a(b: "a\nb") }', "Unexpected <Invalid> in GraphQL string at location 1:10"),
        ('{ a(b: "\\u00', "Unexpected <Invalid> in GraphQL string at location 1:10"),
        ('{ a(b: "\\u0041', "Unexpected <Invalid> in GraphQL string at location 1:10"),
        ('{ a(b: """\n\x00""") }', "Unexpected <Invalid> in GraphQL string at location 2:1"),
        ("{ a .. }", "Expected Name, found <Invalid> in GraphQL string at location 1:5"),
        ("{ é }", "Expected Name, found <Invalid> in GraphQL string at location 1:3"),
    ],
)
def test_what_is_not_a_query_is_refused_in_opas_words(query: str, problem: str) -> None:
    with pytest.raises(BuiltinError, match=f"^{re.escape(problem)}$"):
        query_object(query)
    assert is_valid(query, "type Query { x: Int }") is False


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{ a }", "Unexpected { in GraphQL string at location 1:1"),
        ('"d" extend type A { a: Int }', 'Unexpected String "d" in GraphQL string at location 1:2'),
        ("extend type A", "Unexpected <EOF> in GraphQL string at location 1:14"),
        ("extend interface A implements B", 'Unexpected Name "implements"'),
        ("extend schema", "Unexpected <EOF> in GraphQL string at location 1:14"),
        ("extend query", 'Unexpected Name "query" in GraphQL string at location 1:8'),
        ("directive @d on NOPE", 'Unexpected Name "NOPE" in GraphQL string at location 1:17'),
        ("type A @d(x: $y)", "Unexpected $ in GraphQL string at location 1:14"),
        ("schema { a: B }", 'Unexpected Name "a" in GraphQL string at location 1:10'),
        ("type A {}", "expected at least one definition, found }"),
    ],
)
def test_what_is_not_a_schema_is_refused_in_opas_words(schema: str, problem: str) -> None:
    with pytest.raises(BuiltinError, match=f"^{re.escape(problem)}"):
        schema_object(schema)
    assert invoke("graphql.schema_is_valid", schema) is False


def value_of(text: str) -> Any:
    query: Any = query_object(f"{{ a(b: {text}) }}")
    return query["Operations"][0]["SelectionSet"][0]["Arguments"][0]["Value"]


@pytest.mark.parametrize(
    ("text", "kind", "raw"),
    [
        ("$x", 0, "x"),
        ("-0", 1, "-0"),
        ("1e3", 2, "1e3"),
        ("1.5E-3", 2, "1.5E-3"),
        ('"é\\u00e9\\n\\/"', 3, "éé\n/"),
        ('"\\ud83d"', 3, "\ufffd"),
        ('""', 3, ""),
        ('"""\n  a\n    b\n"""', 4, "a\n  b"),
        ('"""  a\n   b"""', 4, "  a\n b"),
        ('"""\\""""""', 4, '"""'),
        ('"""a\\n"b""c""""', 4, 'a\\n"b""c"'),
        ('"""\r\n\ta\r\n\t b\r"""', 4, "a\n b"),
        ("true", 5, "true"),
        ("null", 6, "null"),
        ("on", 7, "on"),
        ("[]", 8, ""),
        ("{}", 9, ""),
    ],
)
def test_values(text: str, kind: int, raw: str) -> None:
    assert value_of(text) == {"Kind": kind, "Raw": raw, "ExpectedTypeHasDefault": False}


def test_a_number_ends_where_no_digit_follows() -> None:
    query: Any = query_object("{ a(b: [1a 0x1]) }")
    items = query["Operations"][0]["SelectionSet"][0]["Arguments"][0]["Value"]["Children"]
    assert [item["Value"]["Raw"] for item in items] == ["1", "a", "0", "x1"]


def test_a_string_may_stand_for_some_keywords() -> None:
    assert query_object('{ ... "on" T { a } }') == query_object("{ ... on T { a } }")
    assert schema_object('type A "implements" B') == schema_object("type A implements B")
    assert schema_object('schema { "query": Q }') == schema_object("schema { query: Q }")


def comments(*texts: str) -> Any:
    return {"List": [{"Value": text} for text in texts]}


def test_comments_stay_with_the_token_behind_them() -> None:
    text = "# a\n# b\nquery(# c\n$v: Int) { # d\nx(# e\ny: # f\n[1]) # g\n... { z } # h\n}"
    query: Any = query_object(text)
    operation = query["Operations"][0]
    field, fragment = operation["SelectionSet"]
    argument = field["Arguments"][0]
    assert operation["Comment"] == comments("# a", "# b")
    assert operation["VariableDefinitions"][0]["Comment"] == comments("# c")
    assert field["Comment"] == comments("# d")
    assert argument["Comment"] == comments("# e")
    assert argument["Value"]["Comment"] == comments("# f")
    assert fragment["Comment"] == comments("# g")
    assert "Comment" not in query_object("# a\n{ x }")["Operations"][0]


def test_comments_of_schemas_are_before_and_behind_descriptions() -> None:
    schema: Any = schema_object('# a\n"d"# b\ntype T {# c\n"e"# d\nf: Int # e\n}# f\n')
    definition = schema["Definitions"][0]
    assert schema["Comment"] == comments("# f")
    assert definition["BeforeDescriptionComment"] == comments("# a")
    assert definition["AfterDescriptionComment"] == comments("# b")
    assert definition["EndOfDefinitionComment"] == comments("# e")
    field = definition["Fields"][0]
    assert field["BeforeDescriptionComment"] == comments("# c")
    assert field["AfterDescriptionComment"] == comments("# d")


def test_a_fragment_may_have_variables() -> None:
    query: Any = query_object("fragment F($a: [Int!]! = [1] @d) on T { a }")
    variable = query["Fragments"][0]["VariableDefinition"][0]
    assert variable["Variable"] == "a"
    assert variable["Directives"] == [{"Name": "d", "Location": ""}]


def test_positions_are_those_of_the_library() -> None:
    query = parse_query('{ a\r\n  b(x: "é", y: 1) }', 100)
    first, second = query["Operations"][0]["SelectionSet"]
    assert (first.position, second.position) == ((1, 3), (2, 4))
    assert [argument["Value"].position for argument in second["Arguments"]] == [(2, 10), (2, 17)]
    assert parse_schema("type A { b: Int }", 100)["Definitions"][0].position == (1, 6)


def test_long_and_deep_texts_are_refused() -> None:
    with pytest.raises(LimitError, match="longer than"):
        query_object("#" * (512 * 1024 + 1))
    with pytest.raises(LimitError, match="10000"):
        query_object("{ " + "a " * 10_000 + "}")
    with pytest.raises(LimitError, match="10000"):
        query_object("#\n" * 10_001)
    with pytest.raises(LimitError, match="nested too deeply"):
        query_object("{ a" * 4000 + "}" * 4000)
    with pytest.raises(LimitError, match="nested too deeply"):
        schema_object("type A { a: " + "[" * 5000)


def test_many_quotes_and_backslashes_take_linear_time() -> None:
    assert value_of('"""' + '""\\' * 30_000 + 'x"""')["Kind"] == 4
    assert value_of('"' + "\\\\" * 30_000 + '"')["Kind"] == 3
