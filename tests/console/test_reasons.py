"""A refusal has a reason: the conditions that failed, below the rules that read them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.points import PEOPLE, Point

from doorward.console import reasons
from doorward.console.reasons import Reader, short_names
from doorward.console.rows import row_of

USER: dict[Any, Any] = {"role": "guest", "active": True}


@pytest.mark.parametrize(
    ("input", "reason", "rows"),
    [
        ({"method": "GET", "user": USER}, "", []),
        ({"cut": True}, "allow: not input.cut", [6]),
        ({"method": "GET"}, "role: input.user.active", [20]),
        ({"method": "POST", "user": USER}, 'is_allowed: role == "admin"', [17]),
        (
            {"method": "PUT", "user": USER},
            'is_allowed: input.method == "GET" or input.method == "POST"',
            [11, 16],
        ),
    ],
)
def test_the_reason_is_the_condition_that_failed_last(
    input: Any, reason: str, rows: list[int]
) -> None:
    row = row_of(Point(PEOPLE).decide(input))
    assert (row["reason"], [each["row"] for each in row["failed"]]) == (reason, rows)
    assert all(each["file"] == "0.rego" for each in row["failed"])


def test_rules_that_answered_are_named() -> None:
    row = row_of(Point(PEOPLE).decide({"method": "GET", "user": USER}))
    assert sorted(row["rules"]) == ["app.allow", "app.is_allowed", "app.role"]


def test_rules_that_read_each_other_in_other_files_are_followed() -> None:
    point = Point("package a\n\nallow if data.b.ok", "package b\n\nok if input.x == 1")
    assert row_of(point.decide({"x": 2}, "a/allow"))["reason"] == "ok: input.x == 1"


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        ("some each in input.grants\n\teach == input.action", "; each == input.action"),
        ("some each in input.grants\n\tinput.x\n\teach == input.y", "; each == input.y"),
        ("some [_, each] in input.grants\n\teach.action in {1}", "; each.action in {1}"),
        ("some each in input.absent\n\tinput.x", ""),
    ],
)
def test_a_loop_fails_with_the_conditions_that_read_its_variables(loop: str, reason: str) -> None:
    document = {"grants": [["a", "b"]], "action": "c", "x": 1, "y": 2}
    row = row_of(Point(f"package app\n\nallow if {{\n\t{loop}\n}}").decide(document))
    declared = loop.partition("\n")[0]
    assert row["reason"] == f"allow: {declared}{reason}"


def test_a_package_is_explained_by_the_rules_below_it() -> None:
    point = Point("package app\n\nallow if input.x == 1")
    decision = point.pdp.decide("app", {"x": 2})
    noted = Reader().read("app", decision.marks)
    assert noted.reason == "allow: input.x == 1"


def test_patterns_are_bounded_and_other_policies_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reasons, "PATTERNS", 1)
    point, reader = Point(PEOPLE), Reader()
    for method in ("GET", "POST", "PUT"):
        decision = point.pdp.decide("app/allow", {"method": method, "user": USER})
        reader.read("app/allow", decision.marks)
    assert len(reader._patterns) <= 2
    point.replace("package app\n\nallow if input.x")
    decision = point.pdp.decide("app/allow", {})
    noted = reader.read("app/allow", decision.marks)
    assert (noted.reason, len(reader._patterns)) == ("allow: input.x", 1)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["/a/b/p.rego"], ["p.rego"]),
        (["/a/b/p.rego", "/a/b/q/r.rego"], ["p.rego", "q/r.rego"]),
        (["/a/p.rego", "/b/p.rego"], ["a/p.rego", "b/p.rego"]),
        (["p.rego"], ["p.rego"]),
    ],
)
def test_names_of_files_leave_out_the_folders_that_all_are_in(
    files: list[str], names: list[str]
) -> None:
    class Policies:
        modules = dict.fromkeys(files)

    assert list(short_names(Policies()).values()) == names  # type: ignore[arg-type]
