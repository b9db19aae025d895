"""Generated code cannot reach Python, whatever a policy calls its things and whatever it says."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doorward.rego import Engine
from doorward.rego.codegen.state import STATE_NAMES
from doorward.rego.runtime.exports import EXPORTS

ATTRIBUTES = {
    *STATE_NAMES,
    *("add", "append", "get", "join"),
    *("child", "children", "document_at", "document_of", "node_at", "with_children"),
    *("insert", "insert_at", "insert_member_at"),
    *("failed", "mock", "mocks", "print", "replace", "trace"),
    *("call_builtin", "checked_items", "count_items", "count_size", "count_step"),
    *("items", "related", "values"),
    *("answer", "cached_call", "caches_calls", "count_call", "keep", "printing_call"),
}
"""What generated code may ask of the evaluation, of a set, a list or a text."""

STATEMENTS = (
    *(ast.FunctionDef, ast.Assign, ast.Expr, ast.If, ast.For, ast.Try, ast.Return),
    *(ast.Break, ast.Pass, ast.Nonlocal),
)

HOSTILE = [
    *("__import__", "__class__", "__builtins__", "__globals__", "__dict__", "__name__", "__code__"),
    *("lambda", "class", "def", "return", "yield", "None", "True", "False", "nonlocal", "async"),
    "__debug__",
    *("ctx", "out", "answer", "rule", "span", "arg0", "rest", "chain", "_0", "_5", "k", "at"),
    *("eval", "exec", "open", "getattr", "type", "len", "str", "rt", "fn", "body", "self"),
    *("_cache", "_constants", "globals", "format", "path", "table"),
]
BUILTINS = ["count", "startswith", "sum", "concat", "lower", "sprintf", "walk", "abs", "trim"]
TEXTS = [
    *("'", '"', "\\", "\n", "{x}", "{{}}", "${x}", "%s", "\0", "é", "名", "\u202e", "a.b", "a#0"),
    *("rt.type", "data.a.p", "__import__('os')", "{ctx}", "']; import os; ['", "\U0001f600"),
    *("__class__", "__globals__", "{0.__class__}", "%(__class__)s", "${input.__class__}"),
]

POLICY = """package a.NAME

NAME := {"NAME": input.NAME}

other(NAME) := [NAME, y] if y := {NAME | some NAME in [7]}

set contains NAME if some NAME in input.items

object[NAME] := x if some NAME, x in input.object

holds if every NAME in input.items { NAME > 0 }

nested := [x | some x in input.items; not missing(x)]

missing(NAME) if NAME < 2

text := $"{input.NAME}-NAME"

replaced := x if x := data.a.NAME.NAME with input.NAME as 7

called := other(1)
"""
"""One policy, with NAME in every place that a name may have."""


def check_code(engine: Engine) -> None:
    """The generated code is made of what its generator writes, and of nothing else."""
    code = engine.policies.whole_code()
    namespace = code.linked.namespace
    assert namespace["__builtins__"] == engine.policies.code.linked.namespace["__builtins__"] == {}
    for unit in code.units:
        local = set(locals_of(unit.tree))
        for node in ast.walk(unit.tree):
            if isinstance(node, ast.stmt):
                assert isinstance(node, STATEMENTS)
            if isinstance(node, ast.Attribute):
                assert node.attr in ATTRIBUTES
            if isinstance(node, ast.Name):
                assert node.id in local or node.id in namespace
                assert node.id in EXPORTS or not node.id.startswith("rt.")


def locals_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Store()) | ast.arg(name) | ast.FunctionDef(name):
                yield name
            case ast.ExceptHandler(_, str(name)):
                yield name


def answers(name: str) -> Any:
    text = POLICY.replace("NAME", name)
    engine = Engine({"a.rego": text})
    check_code(engine)
    data = {name: "v", "items": [1, 2, 3], "object": {"b": 1, "c": 2}}
    return engine.prepare("x := data.a").results(data)[0]["x"][name]


EXPECTED = answers("plain")


@pytest.mark.parametrize("name", [*HOSTILE, *BUILTINS])
def test_any_name_is_only_a_name(name: str) -> None:
    assert answers(name) == json.loads(json.dumps(EXPECTED).replace("plain", name))


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(TEXTS) | st.text(max_size=20).filter(lambda t: t.isprintable()))
def test_texts_are_values(text: str) -> None:
    said = json.dumps(text)
    policy = (
        f"package a[{said}]\n\np[{said}] := {said}\n\n"
        f"q := x if x := input[{said}]\n\nr := sprintf({said}, [])\n\n"
        f"s contains {said} if input[{said}] == {said}\n\n"
        f"f({said}) := [{said}]\n\nt := f({said})\n"
    )
    engine = Engine({"a.rego": policy})
    check_code(engine)
    query = engine.prepare("data.a[input.text]")
    value = query.value({"text": text, text: text})
    assert value["p"] == {text: text}
    assert value["q"] == text
    assert value["s"] == frozenset({text})
    assert value["t"] == [text]


@pytest.mark.parametrize(
    "expression",
    [
        "input.__class__",
        "input.x.__class__.__mro__",
        'input["__class__"]',
        "input.x.append",
        "input.text.format",
        'sprintf("%v", [input.__dict__])',
        "data.__builtins__",
        "data.a.__globals__",
        "opa.runtime().__class__",
        'object.get(input, ["x", "__class__"], null) == 1',
        'json.filter(input, ["__class__"]).x',
        '[x | walk(input, [["__class__"], x])][0]',
    ],
)
def test_no_attribute_of_python_is_found(expression: str) -> None:
    query = Engine({"a.rego": "package a\n\nb := 1\n"}).prepare(expression)
    assert query.results({"x": [], "text": "x"}) == []
