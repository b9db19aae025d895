"""A row holds what a list shows, and no credential."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.points import Point

from doorward.console.rows import request, row_of


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
