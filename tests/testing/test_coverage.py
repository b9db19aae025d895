"""Coverage: heads that held and expressions that were asked are covered, by row."""

from __future__ import annotations

import json

import pytest

from doorward.bundles.loader import Loaded
from doorward.testing import Coverage, Suite, run
from doorward.testing.coverage import lines_of

POLICY = """package p

http := input.http

allow if {
    http.method == "GET"
    some role in input.roles
    role == "reader"
}

allow if {
    input.admin
    not input.banned
}

default limit := 1
"""


def measured(test: str) -> tuple[Coverage, Suite]:
    suite = Suite(Loaded({"p.rego": POLICY, "t.rego": f"package t\n\ntest_it if {test}\n"}))
    coverage = Coverage()
    list(run(suite, tracer=coverage))
    return coverage, suite


def covered(test: str) -> set[int]:
    return {row for file, row in measured(test)[0].hits if file == "p.rego"}


def test_rows_are_those_on_which_rules_and_expressions_begin() -> None:
    _, suite = measured("true")
    assert lines_of(suite.trees["p.rego"]) == {3, 5, 6, 7, 8, 11, 12, 13, 16}


def test_a_rule_that_failed_covers_what_it_asked_but_not_its_head() -> None:
    assert covered('not data.p.allow with input as {"http": {"method": "POST"}}') == {3, 6}
    assert covered('not data.p.allow with input as {"admin": true, "banned": 1}') == {6, 12, 13}


def test_a_rule_that_held_covers_its_head() -> None:
    assert covered('data.p.allow with input as {"admin": true}') == {6, 11, 12, 13}
    assert covered("data.p.limit == 1") == {16}


def test_the_report_joins_rows_that_follow_each_other() -> None:
    coverage, suite = measured('data.p.allow with input as {"admin": true}')
    document = json.loads(coverage.report(suite.trees))
    assert document["files"]["p.rego"]["covered"] == [
        {"start": {"row": 6}, "end": {"row": 6}},
        {"start": {"row": 11}, "end": {"row": 13}},
    ]
    assert document["files"]["p.rego"]["not_covered_lines"] == 4
    assert document["coverage"] == pytest.approx(500 / 9)
    assert coverage.percent(suite.trees) == document["coverage"]


def test_calls_and_references_count_in_their_own_rows() -> None:
    policy = """package p

document := {
    "name": upper(
        input.name,
    ),
    "list": [lower(x) |
        x := input.list[_]
        startswith(
            x,
            input.prefix,
        )
    ],
    "fixed": [
        1,
    ],
}
"""
    suite = Suite(
        Loaded(
            {
                "p.rego": policy,
                "t.rego": """package t

test_it if {
    document := data.p.document with input as {
        "name": "a",
        "list": ["b"],
        "prefix": "b",
    }
    document.name == "A"
}
""",
            }
        )
    )
    coverage = Coverage()
    list(run(suite, tracer=coverage))
    assert {row for file, row in coverage.hits if file == "p.rego"} == {3, 4, 5, 7, 8, 9, 11}
    assert {row for file, row in coverage.hits if file == "t.rego"} == {3, 4, 9}
