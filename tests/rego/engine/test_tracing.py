"""Traced code reports what it asks, and answers as plain code does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.conformance import suite

from doorward.rego import UNDEFINED, Engine
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.syntax.nodes import Expr, Rule

POLICY = """package a

default allow := false

http := input.http

allow if {
    http.method == "GET"
    some role in input.roles
    not refused(role)
}

refused(role) if role == "guest"
"""


class Journal:
    """A tracer that writes down what it hears."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        self.lines.append(" ".join(["enter", name, *map(str, operands)]))

    def leave(self, name: str, answer: Any) -> None:
        self.lines.append(f"leave {name} {answer}")

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        kind = type(node).__name__.lower()
        self.lines.append(f"{kind} {node.span.row} {'holds' if holds else 'asked'} {bound or ''}")


def journal(input: Any) -> list[str]:
    query = Engine({"a.rego": POLICY}, traced=True).prepare("data.a.allow")
    evaluation = query.evaluation(input)
    evaluation.tracer = actual = Journal()
    query.value_of(evaluation)
    return [line.strip() for line in actual.lines]


def test_every_rule_and_expression_on_the_way_is_reported() -> None:
    assert journal({"http": {"method": "GET"}, "roles": ["guest"]}) == [
        "enter data.a.allow",
        "rule 7 asked",
        "expr 8 asked",
        "enter data.a.http",
        "rule 5 asked",
        "rule 5 holds",
        "leave data.a.http {'method': 'GET'}",
        "expr 8 holds",
        "expr 9 asked",
        "expr 9 holds {'role@1': 'guest'}",
        "expr 10 asked {'role@1': 'guest'}",
        "expr 10 asked {'role@1': 'guest'}",
        "enter data.a.refused guest",
        "rule 13 asked",
        "expr 13 asked {'role@2': 'guest'}",
        "expr 13 holds {'role@2': 'guest'}",
        "rule 13 holds {'role@2': 'guest'}",
        "leave data.a.refused True",
        "expr 10 holds {'role@1': 'guest'}",
        "rule 3 holds",
        "leave data.a.allow False",
    ]


def test_what_is_behind_a_failed_condition_is_not_asked() -> None:
    assert "expr 9 asked" not in journal({"http": {"method": "POST"}})


def test_an_engine_that_is_traced_needs_no_tracer() -> None:
    query = Engine({"a.rego": POLICY}, traced=True).prepare("data.a.allow")
    assert query.value({"http": {"method": "GET"}, "roles": ["admin"]}) is True
    assert query.value(UNDEFINED) is False


# One in seven: all of them run untraced already, and take a minute.
@pytest.mark.parametrize("case", suite.parameters()[::7])
def test_traced_code_answers_as_the_suite_does(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "Engine", TracedEngine)
    assert suite.fault(case) is None


def TracedEngine(modules: Any, data: Any, registry: Any) -> Engine:
    return Engine(modules, data, registry=registry, traced=True)
