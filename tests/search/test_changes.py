"""The smallest change of an input that is allowed: each works, and none is larger than needed."""

from __future__ import annotations

from itertools import count
from time import thread_time
from typing import Any

import pytest

from doorward.rego import UNDEFINED, Engine
from doorward.search.changes import TIMES, Edit, apply, edits_between, smallest_change

NOW_NS = 1_790_000_000_000_000_000
POLICY = """package app

default allow := false

allow if {
	input.method == "GET"
	startswith(input.path, "/public/")
}

allow if {
	input.method in {"PUT", "DELETE"}
	input.owner == input.user.name
	not input.user.suspended
}

allow if {
	[true, _, claims] = io.jwt.decode_verify(input.token, {"secret": data.secret, "alg": "HS256"})
	claims.role == "admin"
}

allow if input.password == data.users[input.login].password

open if time.now_ns() < 5
"""
DATA: Any = {"secret": "s3cret", "users": {"ann": {"password": "hunter2"}}}
ENGINE = Engine({"app.rego": POLICY}, DATA)


def change(input: Any, name: str = "allow") -> Any:
    # A clock of its own: what it gives does not depend on how fast a machine is.
    ticks = count()
    return smallest_change(
        ENGINE, ["app", name], input, now_ns=NOW_NS, seconds=25, clock=lambda: next(ticks)
    )


@pytest.mark.parametrize(
    ("input", "edits"),
    [
        (
            {"method": "PUT", "path": "/public/a"},
            [Edit(("method",), "PUT", "GET")],
        ),
        (
            {"method": "PUT", "owner": "ann", "user": {"name": "bob", "suspended": False}},
            [Edit(("owner",), "ann", "bob")],
        ),
        (
            {"method": "PUT", "owner": "bob", "user": {"name": "bob", "suspended": True}},
            [Edit(("user", "suspended"), True, False)],
        ),
    ],
)
def test_one_edit_is_found(input: Any, edits: list[Edit]) -> None:
    answer = change(input)
    assert len(answer.edits) == 1
    assert answer.edits[0].path == edits[0].path or answer.edits[0].path[0] in ("user", "owner")
    assert ENGINE.prepare("data.app.allow").value(answer.input) is True
    assert apply(input, answer.edits) == answer.input


def test_what_needs_a_signature_is_said_and_no_token_is_displayed() -> None:
    answer = change({"token": "x"})
    signed = [edit for edit in answer.edits if edit.is_signed]
    if signed:
        assert "it needs a signature" in answer.text()
        assert signed[0].new not in answer.text()
        assert signed[0].new not in str(answer.document())


def test_secrets_of_the_data_are_not_displayed() -> None:
    answer = change({"login": "ann", "password": "x"})
    assert "hunter2" not in answer.text()
    assert "hunter2" not in str(answer.document())


def test_time_is_not_changed() -> None:
    answer = change({}, "open")
    assert not answer.is_found
    assert answer.text().startswith("none of ")
    assert answer.document() == {"found": False, "edits": [], "tried": answer.tried}


@pytest.mark.parametrize(
    "conditions",
    [
        "input.a + input.b > 1e308; input.a - input.b < 9.5e307",
        "input.a * input.b > 1e308; input.a < 9.5e307",
        f"input.a + input.b > {10**400}; input.a - input.b < 5",
        f"input.a / input.b > {10**400}; input.b > 3",
        "input.a > 1e400; input.b + input.a < 1e-400",
    ],
)
def test_a_change_of_numbers_that_floats_cannot_hold_is_searched(conditions: str) -> None:
    engine = Engine({"app.rego": f"package app\n\nallow if {{ {conditions} }}\n"})
    ticks = count()
    result = smallest_change(
        engine, ["app", "allow"], {}, now_ns=NOW_NS, seconds=25, clock=lambda: next(ticks)
    )
    if result.is_found:
        assert engine.prepare("data.app.allow").value(result.input) is True


def test_a_division_by_zero_does_not_end_the_search() -> None:
    conditions = "input.a / input.b > 5; input.b < 3; input.b > -1"
    engine = Engine({"app.rego": f"package app\n\nallow if {{ {conditions} }}\n"})
    ticks = count()
    result = smallest_change(
        engine, ["app", "allow"], {}, now_ns=NOW_NS, seconds=25, clock=lambda: next(ticks)
    )
    assert engine.prepare("data.app.allow").value(result.input) is True


def test_edits_are_at_the_deepest_objects() -> None:
    old, new = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1.5}, "e": [1]}
    edits = list(edits_between(old, new))
    assert edits == [
        Edit(("a", "b"), 1, 1.5),
        Edit(("a", "c"), 2, UNDEFINED),
        Edit(("d",), 3, UNDEFINED),
        Edit(("e",), UNDEFINED, [1]),
    ]
    assert apply(old, edits) == new


def test_a_time_that_a_caller_can_only_wait_for_is_stated() -> None:
    later = NOW_NS + 2 * 3600 * 10**9
    policy = f"package app\n\nallow if {{\n\ttime.now_ns() >= {later}\n\tinput.x == 1\n}}\n"
    engine = Engine({"app.rego": policy})
    change = smallest_change(
        engine, ["app", "allow"], {"x": 1}, now_ns=NOW_NS, seconds=5, clock=thread_time
    )
    assert change.at_ns == later
    assert not change.edits
    assert "another time, such as 2026-09-21T16:13:20Z" in change.text()
    assert change.document()["at_ns"] == later
    never = smallest_change(
        engine, ["app", "allow"], {"x": 2}, now_ns=NOW_NS, seconds=0.2, clock=thread_time
    )
    assert never.at_ns is None
    assert "at_ns" not in never.document()


def test_other_times_are_tried_for_a_second_only() -> None:
    times: list[float] = []

    def clock() -> float:
        times.append(len(times) * 0.4)
        return times[-1]

    engine = Engine({"app.rego": "package app\n\nallow if time.now_ns() < 0\n"})
    change = smallest_change(engine, ["app", "allow"], {}, now_ns=NOW_NS, seconds=1, clock=clock)
    assert change.at_ns is None
    assert times[-1] < 1 + TIMES + 2
