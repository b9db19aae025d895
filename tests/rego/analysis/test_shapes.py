"""What of a definition is its shape, and that its types are those of all of its shape."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.analysis import rule_types
from doorward.rego.analysis.shapes import MIN_SHARED, Reading
from doorward.rego.syntax.nodes import Call, Scalar

ROWS = range(2, 2 + MIN_SHARED)


def policy(*rules: str) -> str:
    return "package a\n\n" + "\n".join(rules) + "\n"


def reading(rule: str, *, opens_all: bool = True) -> Reading:
    def takes_any(_: Call) -> bool:
        return opens_all

    program = Engine({"a.rego": policy(rule)}).policies.program
    (definition,) = program.root.children["a"].children["p"].definitions
    return Reading(definition, takes_any)


def test_constants_of_calls_and_heads_are_no_part_of_the_shape() -> None:
    first = reading('p contains "a" if { some x in input.xs; x.name == "b"; x.size > 2 }')
    second = reading('p contains "c" if { some x in input.xs; x.name == "d"; x.size > 3 }')
    assert first.shape() == second.shape()
    assert first.constants == [Scalar("a"), Scalar("b"), Scalar(2)]
    assert second.constants == [Scalar("c"), Scalar("d"), Scalar(3)]
    assert len(first.spans) == len(second.spans)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('p if input.x == "a"', 'p if input.y == "a"'),
        ('p if input.x == "a"', "p if input.x == 2"),
        ('p if input.x == "a"', 'p if input.x != "a"'),
        ('p if input.x == "a"', 'p if not input.x == "a"'),
        ('p if input.x == "a"', 'p contains "b" if input.x == "a"'),
        ('p if input.x in {"a"}', 'p if input.x in {"b"}'),
        ("p if input.x == 2", "p if input.x == 1"),
        ('p := "x" if input.x == 1', 'p := "x" if input.x == true'),
        ('p if input.x == ["a", input.y]', 'p if input.x == ["b", input.y]'),
    ],
)
def test_other_constants_are_part_of_the_shape(one: str, other: str) -> None:
    shapes = []
    for rule in (one, other):
        # A constant in the head, so that each has a shape.
        rule = rule.replace("p if", 'p := "k" if')
        shapes.append(reading(rule).shape())
    assert shapes[0] != shapes[1]


def test_what_a_call_does_not_take_is_part_of_the_shape() -> None:
    one, other = (f'p := "x" if startswith(input.x, "{text}")' for text in "ab")
    assert reading(one).shape() == reading(other).shape()
    assert reading(one, opens_all=False).shape() != reading(other, opens_all=False).shape()


def test_each_type_error_is_reported_where_it_is() -> None:
    wrong = [f'p if {{ input.x == "v{n}"; startswith({n}, "a") }}' for n in ROWS]
    with pytest.raises(CompileError) as error:
        Engine({"a.rego": policy(*wrong)}, max_errors=100)
    rows = [each.span.row for each in error.value.diagnostics]
    assert rows == [n + 1 for n in ROWS]


def test_an_error_behind_many_correct_definitions_is_reported() -> None:
    rules = [f'p if {{ x := "v{n}"; startswith(input.x, x) }}' for n in ROWS]
    with pytest.raises(CompileError, match="startswith: invalid argument") as error:
        Engine({"a.rego": policy(*rules, "p if { x := 2; startswith(input.x, x) }")})
    assert [each.span.row for each in error.value.diagnostics] == [3 + MIN_SHARED]


def test_the_types_of_a_shape_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred = []

    def count(*operands: Any) -> Any:
        inferred.append(operands)
        return original(*operands)

    original = rule_types._check_rule
    monkeypatch.setattr(rule_types, "_check_rule", count)
    Engine({"a.rego": policy(*[f'p := {n} if input.x == "v{n}"' for n in ROWS])})
    assert len(inferred) == 1
    Engine({"a.rego": policy(*[f'p := {n} if input.x == "v{n}"' for n in ROWS[1:]])})
    assert len(inferred) == MIN_SHARED


def test_all_types_of_a_place_add_up() -> None:
    rules = [f'p := {n} if input.x == "v{n}"' for n in ROWS]
    text = policy(*rules, 'p := "text" if input.y')
    with pytest.raises(CompileError, match="number"):
        Engine({"a.rego": f"{text}\nq if startswith(p, true)\n"})
    Engine({"a.rego": f'{text}\nq if startswith(p, "t")\n\nr if p > 3\n'})
