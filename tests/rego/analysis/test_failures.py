"""What may fail is neither left out nor evaluated out of order: its error is OPA's."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import REGISTRY, UNDEFINED, Engine, EvalError, Registry
from doorward.rego.analysis.failures import Failures, has_one_answer
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module
from doorward.rego.types import string

TWO = "two := 1 if input.a\n\ntwo := 2 if input.b\n"
"""A rule that fails where the input has `a` and `b`."""


def failures_of(policy: str, mocked: str = "", registry: Registry = REGISTRY) -> set[str]:
    """The rules of `policy` that may fail."""
    engine = Engine({"t.rego": f"package t\n\n{policy}\n"}, registry=registry)
    program = engine.policies.program
    replaced = frozenset([mocked] if mocked else [])
    failures = Failures(program.callees, program.graph, replaced, prints=True)
    nodes = [node for node in program.root.walk() if node.definitions]
    return {str(node.path[-1]) for node in nodes if failures.node(node)}


@pytest.mark.parametrize(
    "policy",
    [
        "p := 1 if input.a\n\np := 2 if input.b",
        "p := x if some x in input.xs",
        "p := 1 if input.a else := x if some x in input.xs",
        "p(x) := x if input.a\n\np(_) := 1",
        "p[x] := y if some x, y in input.xs",
        'p["a"] := 1\n\np["a"] := 2 if input.b',
        "p := {x: y | some y, x in input.xs}",
        "p if { input.a with input.b as 1 }",
        'p if { print("x") }',
        'p if http.send({"method": "get", "url": input.url}).status_code == 200',
    ],
)
def test_rules_that_may_fail(policy: str) -> None:
    assert failures_of(policy) != set()


@pytest.mark.parametrize(
    "policy",
    [
        "p if input.a\n\np if input.b",
        "p := 1 if some x in input.xs",
        "p := {1} if input.a else := {1} if input.b",
        "p := input.x",
        "p(x) := x",
        "p contains x if some x in input.xs",
        "p := count([x | some x in input.xs])",
        'p if startswith(input.a, "x")',
        "default p := 1",
    ],
)
def test_rules_that_cannot_fail(policy: str) -> None:
    assert failures_of(policy) == set()


def test_what_asks_a_rule_that_may_fail_may_fail() -> None:
    policy = f"{TWO}\n\np if q == 1\n\nq := two\n\nr if f(two)\n\nf(1)\n\ns if input.s"
    assert failures_of(policy) == {"two", "p", "q", "r"}


def test_what_somebody_replaces_may_fail() -> None:
    assert failures_of("p if count(input.a) == 1", mocked="count") == {"p"}


def test_a_built_in_of_others_may_fail() -> None:
    registry = Registry(REGISTRY)

    @registry.builtin("own.name", string, returns=string)
    def own_name(x: str) -> str:
        return x

    assert failures_of("p := own.name(input.x)", registry=registry) == {"p"}


def test_answers_are_one_only_where_all_branches_say_it() -> None:
    def one(policy: str) -> bool:
        return has_one_answer(parse_module(Source("t.rego", f"package t\n\n{policy}")).rules)

    assert one("p if input.a\n\np := true if input.b")
    assert one("p := [1] if input.a else := [1.0]")
    assert not one("p := 1 if input.a else := 2")
    assert not one("p := input.a")


def answer(policy: str, input: Any, query: str = "data.t.p") -> Any:
    """The value, UNDEFINED, or the code of the error."""
    prepared = Engine({"t.rego": f"package t\n\n{TWO}\n\n{policy}\n"}).prepare(query)
    try:
        return prepared.value(input)
    except EvalError as error:
        return error.code


BOTH = {"a": 1, "b": 2}
REPORTED = {
    "in a key behind a path that is not there": "p if input.c.b[[x | x := two]]",
    "in an operand behind one that is missing": "p if { x := [input.c[input.a], f(two)] }\n\nf(1)",
    "in the definition that the index meets first": "p := 7 if input.a == 1\n\np := 7 if two",
    "behind the document itself": "p := 7 if input\n\np := 7 if two",
    "in one of many definitions": "\n\n".join(
        [f'p contains {n} if {{ two == {n}; input.c == {{"x": {n}}} }}' for n in range(9)]
    ),
    "behind the first answer, if there are others": (
        "p := 7 if { some x in [1, 2]; f(x) } else := 8\n\nf(1)\n\nf(2) if two"
    ),
}


@pytest.mark.parametrize("policy", REPORTED.values(), ids=REPORTED)
def test_an_error_that_opa_reports_is_reported(policy: str) -> None:
    assert answer(policy, BOTH) == "eval_conflict_error"


def test_an_error_in_a_query_is_reported() -> None:
    assert answer("", BOTH, "input.c.b[[x | x := data.t.two]]") == "eval_conflict_error"


NOT_REACHED = {
    "behind the answer of a definition that the index meets first": (
        "p := 7 if input.d == 1\n\np := 7 if { two; input.d == 1 }"
    ),
    "behind a comparison of one of many definitions": "\n\n".join(
        [f"p := 7 if {{ input.d == {n}; two == {n} }}" for n in range(2, 11)]
        + ["p := 7 if input.d == 1"]
    ),
}


@pytest.mark.parametrize("policy", NOT_REACHED.values(), ids=NOT_REACHED)
def test_what_opa_does_not_reach_does_not_fail(policy: str) -> None:
    assert answer(policy, {**BOTH, "d": 1}) == 7


@pytest.mark.long
def test_many_definitions_that_may_fail_are_not_compared_one_by_one() -> None:
    rules = [f"p := 7 if {{ input.x[{n}] == 1; two }}" for n in range(200)]
    assert answer("\n\n".join(rules), {"x": [1], "a": 1}) == 7
    assert answer("\n\n".join(rules), {"x": [1, 1], **BOTH}) == "eval_conflict_error"
    assert answer("\n\n".join(rules), {"x": []}) is UNDEFINED
