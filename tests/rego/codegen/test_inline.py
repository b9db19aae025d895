"""Built-ins that are written out in generated code answer as the built-ins themselves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego import UNDEFINED, Engine, EvalError, Query
from doorward.rego.builtins import REGISTRY
from doorward.rego.codegen.inline import WRITTEN
from doorward.rego.errors import BuiltinError
from doorward.rego.values import Number, equal, make_set, to_rego

TEXTS = ["", "a", "b.a", "ab", "ÀÉ", "Straße", "a.b.c", "  a ", "ab" * 50_000]
OTHERS: list[Any] = [
    None,
    True,
    0,
    3,
    -1,
    [],
    ["a", "b"],
    ["a", 1],
    {"a": 1, "b": 2},
    make_set(["a", "b"]),
    make_set([]),
]
VALUES = TEXTS + OTHERS
FIXED: dict[str, list[Any]] = {
    "concat": [["a", "b"], make_set(["b", "a"]), []],
    "object.get": ["a", "x", 0],
    "substring": [0, 1, 7, -1],
}


def expected(name: str, operands: tuple[Any, ...]) -> Any:
    try:
        return invoke(name, *operands)
    except BuiltinError:
        return UNDEFINED


def agree(query: Query, name: str, operands: tuple[Any, ...], given: list[Any]) -> None:
    wanted, value = expected(name, operands), query.value(given)
    if wanted is UNDEFINED or value is UNDEFINED:
        assert value is wanted, (operands, value, wanted)
    else:
        assert equal(value, wanted), (operands, value, wanted)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_operands_of_every_kind(name: str) -> None:
    arity = len(REGISTRY[name].signature.args)
    call = f"{name}({', '.join(f'input[{n}]' for n in range(arity))})"
    query = Engine().prepare(call)
    several = VALUES if arity < 3 else VALUES[1:4] + OTHERS
    for operands in itertools.product(several, repeat=arity):
        agree(query, name, operands, list(operands))


@pytest.mark.parametrize("name", sorted(n for n in WRITTEN if len(REGISTRY[n].signature.args) > 1))
def test_operands_that_stand_in_the_policy(name: str) -> None:
    arity = len(REGISTRY[name].signature.args)
    for rest in itertools.product(FIXED.get(name, ["", "a", "."]), repeat=arity - 1):
        text = f"{name}(input, {', '.join(map(to_rego, rest))})"
        query = Engine().prepare(text)
        for value in VALUES:
            agree(query, name, (value, *rest), value)


def test_texts_side_by_side_are_joined() -> None:
    query = Engine().prepare('concat("-", [input[0], "x", input[1]])')
    for first, second in itertools.product(VALUES, repeat=2):
        agree(query, "concat", ("-", [first, "x", second]), [first, second])


@pytest.mark.parametrize("text", ['concat("", [a, b])', '$"{a}{b}"', 'sprintf("%s%s", [a, b])'])
def test_bytes_side_by_side_become_a_character(text: str) -> None:
    """A string of Go is bytes: two of them may be one character."""
    policy = f"""package t

p := [{text}, count({text})] if {{
	a := base64.decode(input[0])
	b := base64.decode(input[1])
}}
"""
    query = Engine({"t.rego": policy}).prepare("data.t.p")
    assert query.value(["ww==", "qQ=="]) == ["\N{LATIN SMALL LETTER E WITH ACUTE}", 1]
    assert query.value(["ww==", "QQ=="])[1] == 2


def test_numbers_side_by_side_are_marshalled() -> None:
    query = Engine().prepare("json.marshal([input[0], input[1]])")
    numbers = [*OTHERS, 10**30, Number("1.0"), Number("1e3"), "x"]
    for first, second in itertools.product(numbers, repeat=2):
        agree(query, "json.marshal", ([first, second],), [first, second])


def test_what_fails_says_where_when_errors_are_strict() -> None:
    policy = "package a\n\np if {\n\tnot startswith(input.x, input.y)\n}\n"
    engine = Engine({"p.rego": policy})
    assert engine.prepare("data.a.p").value({"x": 1, "y": "a"}) is True
    strict = engine.prepare("data.a.p", strict_builtin_errors=True)
    with pytest.raises(EvalError) as caught:
        strict.value({"x": 1, "y": "a"})
    assert caught.value.message == "startswith: operand 1 must be string but got number"
    assert (caught.value.span.file, caught.value.span.row) == ("p.rego", 4)


@pytest.mark.parametrize(
    ("body", "input", "wanted"),
    [
        ('startswith("ab", "a") with startswith as contains_all', {}, False),
        ("count(input.x) == 3", {"x": "abc"}, True),
        ("not count(input.x) == 3", {"x": 5}, False),
        ("not count(input.x) == 3", {"x": "abcd"}, True),
        ("lower(input.x) == upper(input.x)", {"x": "1"}, True),
    ],
)
def test_conditions(body: str, input: Any, wanted: bool) -> None:
    policy = (
        f"package a\n\ncontains_all(_, _) := false\n\ndefault p := false\n\np if {{\n\t{body}\n}}\n"
    )
    assert Engine({"p.rego": policy}).prepare("data.a.p").value(input) is wanted
