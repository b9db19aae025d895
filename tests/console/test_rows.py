"""A row holds what a list shows, and no credential."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.points import PEOPLE, Point

from doorward.console.rows import note_for_log, request, row_of
from doorward.pdp.decision import Answered
from doorward.search.tokens import Token


@pytest.mark.parametrize(
    ("input", "text"),
    [
        ({"method": "GET", "path": "/a?token=x"}, "GET /a"),
        ({"method": "GET", "path": ["a", "b", 1]}, "GET /a/b"),
        ({"Method": "POST", "Path": "/v1/x"}, "POST /v1/x"),
        ({"attributes": {"request": {"http": {"method": "PUT", "path": "/p"}}}}, "PUT /p"),
        ({"action": {"name": "read"}, "resource": {"type": "doc", "id": "1"}}, "read doc 1"),
        ({"action": "read", "resource": "doc"}, "read doc"),
        ({"action": "read"}, "read"),
        ({"method": 1}, ""),
        (None, ""),
    ],
)
def test_a_request_is_one_line(input: Any, text: str) -> None:
    assert request(input) == text


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ('{"allowed": false, "reason": "no role"}', "no role"),
        ('{"allow": false, "message": "closed"}', "closed"),
        ('{"allow": false, "deny": {"b", "a"}}', "a; b"),
        ('{"allow": false, "reasons": ["x", "y"]}', "x; y"),
        ('{"allow": false, "reason": ""}', ""),
        ('{"allow": true, "reason": "none"}', ""),
    ],
)
def test_a_reason_that_the_policy_gives_comes_first(result: str, reason: str) -> None:
    point = Point(f"package app\n\nanswer := {result}")
    assert row_of(point.decide({}, "app/answer"))["reason"] == reason


def test_a_row_is_made_once() -> None:
    entry = Point("package app\n\nallow if input.x").decide({})
    assert row_of(entry) is row_of(entry)


def test_an_error_is_its_own_reason() -> None:
    point = Point("package app\n\nallow := true\n\nallow := false if input.x")
    row = row_of(point.decide({"x": 1}))
    assert row["verdict"] == "error"
    assert "conflict" in row["reason"] or "complete rules" in row["reason"]


def test_a_note_for_the_log_is_what_the_row_says() -> None:
    point = Point(PEOPLE)
    token = Token("Bearer ", {"sub": "bob", "role": "guest"}).signed("secret")
    input: Any = {"method": "DELETE", "headers": {"authorization": token}}
    entry = point.decide(input)
    answered = Answered(entry.decision, input, entry.snapshot)
    row, note = row_of(entry), note_for_log(answered, input, entry.decision.result)
    assert note == {name: row[name] for name in ("user", "role", "reason", "revision")}
    assert (note["user"], note["role"]) == ("bob?", "guest?")
    # Of what a mask policy took away, nothing is known.
    assert note_for_log(answered, None, None) == {
        name: row[name] for name in ("reason", "revision")
    }


def test_a_note_for_the_log_has_the_reason_that_a_mask_left() -> None:
    point = Point('package app\n\nanswer := {"allowed": false, "reason": input.why}')
    entry = point.decide({"why": "ann is ill"}, "app/answer")
    answered = Answered(entry.decision, {}, entry.snapshot)
    left = {"allowed": False, "reason": "hidden"}
    assert note_for_log(answered, {}, left)["reason"] == "hidden"
