"""The choice among many definitions by itself: by what, and which are left for a value."""

from __future__ import annotations

import pytest
from tests.rego.codegen.writing import program_of

from doorward.rego.analysis.tree import Definition
from doorward.rego.codegen.choice import Choice
from doorward.rego.codegen.index import FEWEST, MOST_ENTRIES, choose
from doorward.rego.codegen.plan import Plan
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module


def definitions(*rules: str) -> list[Definition]:
    module = parse_module(Source("t.rego", "package t\n\n" + "\n\n".join(rules)))
    return [Definition(rule, (), module) for rule in module.rules]


def chosen(definitions: list[Definition]) -> Choice | None:
    return choose(definitions, Plan(program_of().callees).failures)


def many(rule: str, count: int = FEWEST) -> list[Definition]:
    return definitions(*[rule.format(n=n) for n in range(count)])


def test_few_definitions_are_tried_one_after_the_other() -> None:
    assert chosen(many("p := {n} if input.a == {n}", FEWEST - 1)) is None


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        ("p := {n} if input.a == {n}", ("a",)),
        ("p := {n} if {{ input.b; input.a.b = {n} }}", ("a", "b")),
        ("p := {n} if input.a in {{{n}, 100}}", None),
        ("f({n}, _) := {n}", 0),
        ("f(_, {n}) := {n}", 1),
    ],
)
def test_definitions_are_chosen_by_what_most_of_them_test(
    rule: str, source: tuple[str, ...] | int | None
) -> None:
    choice = chosen(many(rule))
    assert (None if choice is None else choice.source) == source


def test_a_value_leaves_its_own_definitions_and_those_without_a_test() -> None:
    rules = [f"p := {n} if input.a == {n % 4}" for n in range(8)]
    choice = chosen(definitions(*rules, "p := 9 if input.b"))
    assert choice == Choice(("a",), {n: (n, n + 4, 8) for n in range(4)}, (8,))


@pytest.mark.parametrize(
    "rule",
    [
        "p := {n} if not input.a == {n}",
        "p := {n} if input.a != {n}",
        "p := {n} if input.a == {n} with input.b as 1",
        "p := {n} if input[x] == {n}",
        "p := {n} if data.a == {n}",
        "p := {n} if {{ input.a == {n} }} else := 1",
    ],
)
def test_what_does_not_decide_alone_chooses_nothing(rule: str) -> None:
    assert chosen(many(rule)) is None


@pytest.mark.parametrize("always", [0, 40, 150])
def test_a_table_holds_a_hundred_positions_for_each_definition_at_most(always: int) -> None:
    rules = [f"p := {n} if input.a == {n}" for n in range(300)]
    others = [f"q := {n} if input.b" for n in range(always)]
    choice = chosen(definitions(*rules, *others))
    if always == 150:
        assert choice is None
    else:
        assert choice is not None
        entries = sum(map(len, choice.candidates.values()))
        assert entries == 300 * (1 + always)
        assert entries <= MOST_ENTRIES * (300 + always)
