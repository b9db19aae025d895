"""Why a decision is what it is, as a tree: rules, definitions, conditions, and rows of policies."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.points import PEOPLE, Point

from doorward.console import why
from doorward.console.views import change_of, detail

GUEST = {"role": "guest", "active": True}


def test_conditions_held_failed_or_were_not_reached() -> None:
    shown = detail(Point(PEOPLE).decide({"method": "POST", "user": GUEST}))
    (allow,) = shown["tree"]
    assert (allow["rule"], allow["answer"]) == ("app.allow", "false")
    (definition, default) = sorted(allow["definitions"], key=lambda each: each["default"])
    assert (definition["state"], default["state"]) == ("failed", "held")
    assert [each["state"] for each in definition["conditions"]] == ["held", "failed"]
    (is_allowed,) = definition["conditions"][1]["rules"]
    first, second = is_allowed["definitions"]
    assert [each["state"] for each in first["conditions"]] == ["failed", "unreached"]
    assert first["conditions"][0]["values"] == {"input.method": '"POST"'}
    assert [each["text"] for each in second["conditions"]] == [
        'input.method == "POST"',
        'role == "admin"',
    ]


def test_rows_of_the_policy_have_their_state() -> None:
    shown = detail(Point(PEOPLE).decide({"method": "POST", "user": GUEST}))
    ((name, source),) = shown["sources"].items()
    assert (name, source["text"]) == ("0.rego", PEOPLE)
    states = source["rows"]
    assert (states[6], states[7], states[12], states[17]) == (
        "held",
        "failed",
        "unreached",
        "failed",
    )
    assert "/srv" not in str(shown["why"])


def test_credentials_are_nowhere_in_the_tree() -> None:
    text = PEOPLE.replace("not input.cut", 'input.password == "swordfish"')
    shown = detail(Point(text).decide({"password": "hunter2hunter2", "method": "GET"}))
    tree = str(shown["tree"])
    assert "hunter2" not in tree
    assert "input.password" in tree


def test_a_tree_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "NODES", 2)
    shown = detail(Point(PEOPLE).decide({"method": "POST", "user": GUEST}))
    assert shown["cut"] is True
    assert str(shown["tree"]).count("'text'") <= 4


def test_the_smallest_change_allows_it() -> None:
    answer = change_of(Point(PEOPLE).decide({"method": "GET", "user": {**GUEST, "role": "x"}}))
    (edit,) = answer["edits"]
    assert (edit["path"], edit["value"]) == (["user", "role"], "guest")


@pytest.mark.parametrize("input", [{"method": "GET", "user": GUEST}])
def test_what_is_allowed_needs_no_change(input: Any) -> None:
    assert "only for a refused decision" in change_of(Point(PEOPLE).decide(input))["error"]
