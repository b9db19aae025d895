"""What of a definition is its shape, and that its types are those of all of its shape."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.analysis import body_order, dependencies, existence, rule_types
from doorward.rego.analysis.shapes import MIN_SHARED, Reading, Shapes
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


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('p := "N" if { input.x == "N"; startwith(input.y, "N") }', "undefined function startwith"),
        ('p := "N" if { input.x == "N"; startswith("N") }', "startswith: arity mismatch"),
        ('p := "N" if { input.x == "N"; y == "N" }', "var y is unsafe"),
        ('p := "N" if { input.x == "N"; q := print("N") }', "used as value"),
        ('p := "N" if { input.x == "N"; re_match("N", input.x) }', "deprecated built-in"),
        ('p := "N" if { input.x == "N"; p == "N" }', "is recursive"),
    ],
)
def test_each_error_of_definitions_with_one_shape_is_reported(rule: str, message: str) -> None:
    rules = [rule.replace("N", f"v{n}") for n in ROWS]
    other = 'r if input.z == "a"'
    for text in (policy(*rules), policy(other, *rules), policy(*rules, other)):
        with pytest.raises(CompileError) as error:
            Engine({"a.rego": text}, max_errors=100)
        diagnostics = error.value.diagnostics
        assert all(message in each.message for each in diagnostics)
        lines = text.split("\n")
        assert {lines[each.span.row - 1] for each in diagnostics} == set(rules)


def test_deprecated_built_ins_are_reported_by_the_version_of_each_module() -> None:
    rules = [f'p := "v{n}" if re_match("v{n}", input.x)' for n in ROWS]
    text = policy(*rules)
    old = text.replace(" if ", " { ").replace("input.x)", "input.x) }")
    versions = {"old.rego": 0, "new.rego": 1}
    Engine({"old.rego": old}, v0=True)
    with pytest.raises(CompileError, match="deprecated") as error:
        Engine({"old.rego": old, "new.rego": text}, rego_versions=versions, max_errors=100)
    assert {each.span.file for each in error.value.diagnostics} == {"new.rego"}
    assert len(error.value.diagnostics) == MIN_SHARED


@pytest.mark.parametrize(
    ("module", "function", "per_rule"),
    [
        (rule_types, "_check_rule", 1),
        (body_order, "is_rule_in_order", 1),
        (dependencies, "parts_of", 1),
        (existence, "children", 0),
    ],
)
def test_one_definition_of_a_shape_is_checked(
    monkeypatch: pytest.MonkeyPatch, module: Any, function: str, per_rule: int
) -> None:
    calls = []

    def count(*operands: Any) -> Any:
        calls.append(operands)
        return original(*operands)

    original = getattr(module, function)
    monkeypatch.setattr(module, function, count)
    counts = []
    # Two rules of a kind have the cost of one only if there are enough of them.
    for rows in (ROWS, range(2, 2 + 2 * MIN_SHARED), ROWS[1:]):
        calls.clear()
        Engine({"a.rego": policy(*[f'p := {n} if input.x == "v{n}"' for n in rows])})
        counts.append(len(calls))
    assert counts[0] == counts[1] < counts[2]
    if per_rule:
        assert (counts[0], counts[2]) == (1, MIN_SHARED - 1)


def test_definitions_that_are_put_in_order_have_a_shape() -> None:
    rules = [f'p := "v{n}" if {{ y == "v{n}"; y = input.x }}' for n in ROWS]
    engine = Engine({"a.rego": policy(*rules)})
    for n in ROWS:
        assert engine.prepare("data.a.p").value({"x": f"v{n}"}) == f"v{n}"


def test_shapes_are_numbered_by_path_and_shape() -> None:
    kinds = [(name, key) for name in "pq" for key in "xy"]
    rules = [f'{name} := {n} if input.{key} == "v{n}"' for n in ROWS for name, key in kinds]
    text = policy(*rules, "p := 1 if input.z with input.x as 1")
    program = Engine({"a.rego": text}).policies.program
    shapes = Shapes()
    for _ in range(2):
        shapes.add(program.root)
    (module,) = program.modules
    assert [shapes.number(rule) for rule in module.rules] == [*[0, 1, 2, 3] * MIN_SHARED, None]
    assert list(shapes.first(module.rules)) == [*module.rules[:4], module.rules[-1]]


def test_all_types_of_a_place_add_up() -> None:
    rules = [f'p := {n} if input.x == "v{n}"' for n in ROWS]
    text = policy(*rules, 'p := "text" if input.y')
    with pytest.raises(CompileError, match="number"):
        Engine({"a.rego": f"{text}\nq if startswith(p, true)\n"})
    Engine({"a.rego": f'{text}\nq if startswith(p, "t")\n\nr if p > 3\n'})
