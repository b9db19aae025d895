"""Our JSON of a tree is OPA's, key by key in OPA's order, with numbers as they were written."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest
from tests.corpora import GOLDEN, rows

from doorward.rego.numbers import Number
from doorward.rego.source import NOWHERE, Source
from doorward.rego.syntax.format import format_tree
from doorward.rego.syntax.nodes import Scalar
from doorward.rego.syntax.opa_json import module_to_json, term_to_json
from doorward.rego.syntax.parser import parse_module, parse_query, parse_term
from doorward.rego.syntax.walk import Node, rewrite


class Text(str):
    """A number as it stands in a JSON text."""


def spelled(value: Any) -> Any:
    """The value with its numbers as texts."""
    match value:
        case dict():
            return {key: spelled(item) for key, item in value.items()}
        case list():
            return [spelled(item) for item in value]
        case None | bool() | str():
            return value
        case _:
            return Text(value)


def test_recorded_trees() -> None:
    differing = []
    decode = json.JSONDecoder(parse_int=Text, parse_float=Text).decode
    for case in rows(GOLDEN / "parse.jsonl.gz", decode):
        flags = case.get("flags", [])
        source = Source("p.rego", case["source"])
        module = parse_module(source, v0="--v0-compatible" in flags, annotations=True)
        actual = module_to_json(module, locations="locations,comments" in flags)
        # As text: the order of keys counts.
        if json.dumps(spelled(actual)) != json.dumps(case["ast"]):
            differing.append(case["id"])
    assert not differing


def test_sets_and_objects_are_sorted_without_repetitions() -> None:
    text = '[{3, "b", 1.0, 1, x, input.a, [1], {1}, {"k": 1}, f(1), true, null, $"a"}]'
    (members,) = term_to_json(parse_term(text))["value"]
    assert [m["type"] for m in members["value"]] == [
        *("null", "boolean", "number", "number", "string", "templatestring", "var", "ref"),
        *("array", "object", "set", "call"),
    ]
    assert str(members["value"][2]["value"]) == "1.0"
    pairs = term_to_json(parse_term('{"b": 1, "a": 2, "b": 3}'))["value"]
    assert [(k["value"], v["value"]) for k, v in pairs] == [("a", 2), ("b", 3)]


def test_comprehensions_and_documents_have_a_place_in_the_order() -> None:
    text = "{{x | x}, [x | x], {x: x | x}, input, data.a}"
    members = term_to_json(parse_term(text))["value"]
    assert [m["type"] for m in members] == [
        *("ref", "ref", "arraycomprehension", "objectcomprehension", "setcomprehension"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "count({[1 | input.a], [1 | input.b]}) == 1",
        "{{x | x := input.a}, {x | x := input.b}}",
        "{{x: 1 | x := input.a}: 1, {x: 1 | x := input.b}: 2}",
        '{$"{input.a}", $"{input.b}", $"{input.a}{input.b}", $"a"}',
        "{[1 | not input.a], [1 | input.a]}",
        "{[1 | input.a[_]], [1 | input.a[_]]}",
        "{1.5, 2.5, input.a}",
    ],
)
def test_members_differ_also_where_the_tree_was_not_parsed(text: str) -> None:
    def change(node: Node) -> Node:
        if isinstance(node, Scalar) and type(node.value) is Number:
            node = replace(node, value=float(node.value))  # type: ignore[arg-type]
        return replace(node, span=NOWHERE) if hasattr(node, "span") else node

    (expr,) = parse_query(Source("", text), v0=False)
    changed = rewrite(expr, change)
    assert format_tree((changed,)) == format_tree((expr,))
    assert format_tree((changed,)).strip() == text


def test_what_newer_versions_brought() -> None:
    module = parse_module(
        Source(
            "p.rego",
            "package p\nimport future.keywords\nimport future.keywords.not\n"
            "p if not { x } or y and z\n"
            "q := $`a{1}{x}`\nr := null",
        )
    )
    logical, template, null = module_to_json(module)["rules"]
    terms = logical["body"][0]["terms"]
    assert terms["type"] == "or"
    assert terms["left"][0]["terms"]["type"] == "not"
    assert terms["right"][0]["terms"]["type"] == "and"
    value = template["head"]["value"]
    assert value["type"] == "templatestring"
    assert value["value"]["multi_line"] is True
    assert [part.get("type") for part in value["value"]["parts"]] == ["string", "number", None]
    assert null["head"]["value"] == {"type": "null", "value": {}}


def test_names_of_two_parts_have_keys_as_in_opa() -> None:
    text = "package p\np.q contains 1\np.q(x) := x if x\np.q(x) := x\np[x] := 1 if x\np.q := 1 if x"
    heads = [r["head"] for r in module_to_json(parse_module(Source("", text)))["rules"]]
    assert [(h.get("name"), h.get("key", {}).get("value")) for h in heads] == [
        *((None, 1), ("p", None), (None, None), ("p", "x"), ("p", None)),
    ]


def test_a_member_without_a_body_has_the_place_of_its_name() -> None:
    module = parse_module(Source("p.rego", "package p\np contains 1"))
    (rule,) = module_to_json(module, locations=True)["rules"]
    assert rule["body"][0]["location"] == {"file": "p.rego", "row": 2, "col": 1, "text": "cA=="}


def test_a_name_alone_has_the_place_of_the_rule() -> None:
    module = parse_module(Source("p.rego", "package p\nq.a.b"), v0=True)
    (rule,) = module_to_json(module, locations=True)["rules"]
    assert rule["body"][0]["location"]["text"] == "cS5hLmI="


def test_schemas_have_their_paths_as_references() -> None:
    text = '# METADATA\n# schemas:\n# - input.a["b"]: schema.c\npackage p'
    (actual,) = module_to_json(parse_module(Source("", text), annotations=True))["annotations"]
    assert actual == {
        "schemas": [
            {
                "path": [
                    {"type": "var", "value": "input"},
                    {"type": "string", "value": "a"},
                    {"type": "string", "value": "b"},
                ],
                "schema": [
                    {"type": "var", "value": "schema"},
                    {"type": "string", "value": "c"},
                ],
            }
        ],
        "scope": "package",
    }


def locations(value: Any) -> list[tuple[int, int, str]]:
    """Row, column and text of all locations below `value`, in order."""
    rows: list[tuple[int, int, str]] = []
    match value:
        case {"row": row, "col": col, "text": text}:
            rows.append((row, col, b64decode(text).decode()))
        case dict():
            rows += [each for item in value.values() for each in locations(item)]
        case list():
            rows += [each for item in value for each in locations(item)]
    return rows


def located(text: str, *, v0: bool = False) -> dict[str, Any]:
    module = parse_module(Source("p.rego", text), v0=v0, annotations=True)
    return module_to_json(module, locations=True)


def test_parts_that_stand_where_something_else_does() -> None:
    (rule,) = located("package p\nq := 1 if x\nelse := 2 if y\n")["rules"]
    assert set(locations(rule["else"]["body"])) == {(3, 1, "else := 2 if y")}
    (rule,) = located("package p\nq := 1 if x\nelse := 2\n")["rules"]
    assert set(locations(rule["else"]["body"])) == {(3, 1, "else := 2")}
    (rule,) = located("package p\nq := 1 if x\nelse := 2 if { y }\n")["rules"]
    assert set(locations(rule["else"]["body"])) == {(3, 16, "y")}
    _, second = located("package p\nf(a) = b { x }\n{ y }\n", v0=True)["rules"]
    assert set(locations([second["head"][key] for key in ("args", "value", "location")])) == {
        (3, 1, "{ y }")
    }
    (rule,) = located("package p\nf(1)\n", v0=True)["rules"]
    assert set(locations([rule["location"], rule["body"], rule["head"]["value"]])) == {(2, 1, "f")}


def test_a_metadata_block_has_its_whole_text() -> None:
    tree = located("#METADATA\n#title: a\n#\n# description: b\npackage p\n#\nq := 1\n")
    text = "# METADATA\n# title: a\n# \n# description: b"
    assert locations(tree["annotations"]) == [(1, 1, text)]
    first, second, *_, last = tree["comments"]
    assert locations([first, second]) == [(1, 1, text), (2, 1, "#title: a")]
    assert last["Text"] is None


def test_paths_of_schemas_are_texts_of_their_own() -> None:
    source = """# METADATA
# schemas:
#   - data.acl["x-y"].b: schema["a b"]
#   - input: schema
package a
"""
    module = parse_module(Source("a.rego", source), annotations=True)
    (block,) = module_to_json(module, locations=True)["annotations"]
    first, second = block["schemas"]
    assert [(p["value"], p["location"]["file"], *places(p)) for p in first["path"]] == [
        ("data", "", 1, 1, "data"),
        ("acl", "", 1, 6, "acl"),
        ("x-y", "", 1, 10, '"x-y"'),
        ("b", "", 1, 17, "b"),
    ]
    assert [places(part) for part in first["schema"]] == [(1, 1, "schema"), (1, 8, '"a b"')]
    assert [places(part) for part in second["path"]] == [(1, 1, "input")]
    assert second["schema"] == [{"type": "var", "value": "schema"}]


def places(part: Any) -> tuple[int, int, str]:
    ((row, col, text),) = locations(part)
    return row, col, text


def test_the_second_body_of_a_head_has_the_key_of_the_first() -> None:
    text = 'package a\n\nf["s"] := x { x := 1 } { x := 2 }\n'
    first, second = module_to_json(parse_module(Source("p.rego", text), v0=True))["rules"]
    assert second["head"] == first["head"]
    assert second["head"]["key"] == {"type": "string", "value": "s"}
