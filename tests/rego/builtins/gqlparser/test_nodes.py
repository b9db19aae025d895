"""GraphQL documents that are given as objects."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego import Engine, EvalError, from_python
from doorward.rego.builtins.gqlparser.nodes import from_object, new, to_object
from doorward.rego.errors import BuiltinError, LimitError

parse_query = partial(invoke, "graphql.parse_query")
parse_schema = partial(invoke, "graphql.parse_schema")
is_valid = partial(invoke, "graphql.is_valid")

QUERY = """
query Q($a: [Int!]! = [1, 2], $b: In = {x: "é\\"", y: E, z: null} @d) @d(x: 1.5) {
  alias: field(a: $a, b: null, c: true) @include(if: $b) { y(v: {w: [$b]}) }
}
mutation { m }
fragment F($v: Int) on T @d { z }
"""
SCHEMA = """
"A schema" schema @d { query: Q mutation: M }
"A directive" directive @d(x: Float = 1.5 @d) repeatable on SCHEMA | FIELD
"A type" type Q implements I & J @d { "A field" f("An argument" a: [Int!]! = [1]): String! @d }
interface J implements I { f: String }
union U @d = Q | M
enum E @d { "A value" A @d B }
input In { x: Int = 3 y: [In] }
scalar Date @d
extend type Q { g: Int }
extend schema @d
extend union U = T # end
"""


@pytest.mark.parametrize(
    ("struct", "tree"),
    [("QueryDocument", parse_query(QUERY)), ("SchemaDocument", parse_schema(SCHEMA))],
    ids=["query", "schema"],
)
def test_an_object_is_read_as_it_was_shown(struct: str, tree: Any) -> None:
    assert to_object(from_object(struct, tree)) == tree


def outcome(name: str, *operands: Any) -> str:
    """The code of the error of a call in a policy."""
    call = f"{name}({', '.join(f'input[{n}]' for n in range(len(operands)))})"
    query = Engine().prepare(call, strict_builtin_errors=True)
    with pytest.raises(EvalError) as caught:
        query.value(from_python(list(operands)))
    return caught.value.code


def operation(*selections: Any) -> Any:
    return {"Operations": [{"Operation": "query", "SelectionSet": list(selections)}]}


def test_a_fragment_in_an_object_is_read_as_a_field() -> None:
    """OPA's decoder takes the first form that an object fits, and all objects are fields."""
    schema = "type Query { a: Int }"
    inline: Any = {"TypeCondition": "Query", "SelectionSet": [{"Alias": "a", "Name": "a"}]}
    assert is_valid("{ ... on Query { a } }", schema) is True
    assert is_valid(operation(inline), schema) is False
    assert is_valid(operation({"Name": "a"}), schema) is True


def test_a_selection_that_is_no_field_is_a_spread_or_an_inline_fragment() -> None:
    query = from_object("QueryDocument", operation({"Alias": 1, "Name": "F"}, {"Name": 1}, None))
    selections = query["Operations"][0]["SelectionSet"]
    assert [each.struct for each in selections] == ["FragmentSpread", "InlineFragment", "Field"]


@pytest.mark.parametrize("name", ["NAMEDTYPE", "namedtype", "NamedType"])
def test_names_may_have_another_case(name: str) -> None:
    assert from_object("Type", {name: "A"})["NamedType"] == "A"


def test_names_of_selections_and_operations_may_not() -> None:
    assert from_object("Field", {"NAME": "a", "Comment": 1}) == new("Field")
    assert from_object("OperationDefinition", {"name": "a"}) == new("OperationDefinition")


@pytest.mark.parametrize(
    ("struct", "value"),
    [
        ("QueryDocument", {"Operations": 1}),
        ("QueryDocument", {"Operations": [1]}),
        ("QueryDocument", {"Operations": [None]}),
        ("QueryDocument", operation(1)),
        ("QueryDocument", operation({"Directives": 1})),
        ("OperationDefinition", {"Name": 1}),
        ("OperationDefinition", {"Position": True}),
        ("Value", {"Kind": "1"}),
        ("Value", {"Kind": True}),
        ("Type", {"NonNull": 1, "NamedType": "A"}),
        ("Type", {}),
        ("Type", {"Elem": {}}),
        ("FieldDefinition", {"Name": "a"}),
        ("FieldDefinition", {"Type": None}),
        ("Definition", {"Types": ["A", 1]}),
    ],
    ids=str,
)
def test_what_is_no_document_is_refused(struct: str, value: Any) -> None:
    with pytest.raises(BuiltinError, match=r"^GraphQL AST: "):
        from_object(struct, value)


def test_null_is_an_empty_part() -> None:
    assert from_object("QueryDocument", {"Operations": None}) == new("QueryDocument")
    assert from_object("Definition", {"Types": [None]})["Types"] == [""]


@pytest.mark.parametrize(
    "argument",
    [
        {"Name": "x"},
        {"Name": "x", "Value": {"Kind": 99, "Raw": "1"}},
        {"Name": "x", "Value": {"Kind": 8, "Children": [{"Name": ""}]}},
    ],
)
def test_a_value_that_is_none_is_not_valid(argument: Any) -> None:
    field = {"Alias": "a", "Name": "a", "Arguments": [argument]}
    assert is_valid(operation(field), "type Query { a(x: Int): Int }") is False


@pytest.mark.parametrize(
    ("raw", "kind", "valid"),
    [
        ("+1", 1, True),
        ("1_0", 1, False),
        ("", 1, False),
        ("9223372036854775808", 1, False),
        ("0" * 5000 + "1", 1, True),
        ("1e3", 2, False),
        ("T", 5, False),
    ],
)
def test_the_text_of_a_value_is_read_as_go_reads_it(raw: str, kind: int, valid: bool) -> None:
    argument: Any = {"Name": "x", "Value": {"Kind": kind, "Raw": raw}}
    field = {"Alias": "a", "Name": "a", "Arguments": [argument]}
    assert is_valid(operation(field), "type Query { a(x: Int): Int }") is valid


def test_an_operation_of_another_kind_is_not_valid() -> None:
    query: Any = {"Operations": [{"Operation": "other", "SelectionSet": []}]}
    assert is_valid(query, "type Query { a: Int }") is False


@pytest.mark.parametrize("query", ["{", {"Operations": 1}])
def test_a_query_that_is_none_comes_before_a_schema_of_another_kind(query: Any) -> None:
    assert outcome("graphql.parse", query, None) == "eval_builtin_error"
    assert outcome("graphql.parse", {}, None) == "eval_type_error"


def test_a_deep_object_is_refused() -> None:
    deep: Any = {"Alias": "a", "Name": "a"}
    for _ in range(2000):
        deep = {"Alias": "a", "Name": "a", "SelectionSet": [deep]}
    with pytest.raises(LimitError, match="nested too deeply"):
        is_valid(operation(deep), "type Query { a: Query }")
