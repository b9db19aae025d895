"""Which definitions answered, and which conditions failed last."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import Engine, explain
from doorward.rego.explanation.trail import MAX_LOCATIONS
from doorward.rego.shared import Trail, trail_of

POLICY = """package authz

default allow := false

allow if {
	input.method == "GET"
	is_reader
}

allow if {
	input.method == "POST"
	is_writer
}

is_reader if input.role in {"reader", "writer"}

is_writer if {
	input.role == "writer"
	input.token != "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
}

everyone if input.user

open if not allow
"""


def trail(query: str, input: Any) -> Trail:
    return trail_of(explain(Engine({"p.rego": POLICY}), query, input).recorder)


def test_a_definition_stands_before_those_that_it_asked() -> None:
    answered = trail("data.authz.allow", {"method": "GET", "role": "reader"}).answered
    assert list(map(str, answered)) == [
        "p.rego:5 data.authz.allow",
        "p.rego:15 data.authz.is_reader",
    ]
    assert answered[0].text == 'allow if input.method == "GET"; is_reader'


@pytest.mark.parametrize(
    ("input", "failed"),
    [
        ({"method": "POST", "role": "x"}, [(18, 'input.role == "writer"')]),
        ({"method": "GET"}, [(15, 'input.role in {"reader", "writer"}')]),
        ({}, [(6, 'input.method == "GET"'), (11, 'input.method == "POST"')]),
    ],
)
def test_the_last_condition_is_found_below_the_rule_that_got_furthest(
    input: Any, failed: list[tuple[int, str]]
) -> None:
    shown = trail("data.authz.allow", input)
    assert shown.answered == ()
    assert [(location.row, location.text) for location in shown.failed] == failed


def test_a_credential_in_a_policy_is_not_shown() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
    given = {"method": "POST", "role": "writer", "token": token}
    assert "eyJ" not in str(trail("data.authz.allow", given))


def test_no_more_locations_are_listed_than_the_limit_allows() -> None:
    rules = "\n".join(f"p contains {n} if input.x" for n in range(MAX_LOCATIONS + 9))
    shared = "\nq if { r; s }\n\nr if t\n\ns if t\n\nt if input.x\n"
    engine = Engine({"p.rego": f"package a\n\n{rules}{shared}"})

    def answered(query: str) -> list[int]:
        locations = trail_of(explain(engine, query, {"x": True}).recorder).answered
        return [location.row - MAX_LOCATIONS - 9 for location in locations]

    assert len(answered("data.a.p")) == MAX_LOCATIONS
    assert answered("data.a.q") == [3, 5, 9, 7]


def test_an_answer_that_does_not_refuse_has_no_failed_condition() -> None:
    assert trail("data.authz.open", {}).failed == ()
    assert trail("1", {}) == Trail((), ())
