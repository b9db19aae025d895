"""Marked code notes which definitions answered and where others failed, and answers as before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.conformance import suite
from tests.waiting import PATIENCE

from doorward.rego import Engine
from doorward.rego.codegen.marks import MAX_LISTED

POLICY = """package a

default allow := false

allow if {
	input.method == "GET"
	is_owner
}

allow if {
	input.user == "root"
	not input.banned
	every port in input.ports { port > 1024 }
}

is_owner if {
	some owner in data.owners
	owner.name == input.user
}

open if data.open

deny contains message if {
	some x in input.xs
	message := x > 3
}

deny contains "always" if input.always

level := 1 if input.a else := 2 if {
	input.b
	input.c
} else := 3

sum := x if {
	some x in input.xs
	x > 3
}

sum := y if {
	y := input.y
	twice(y)
}

twice(y) if y > 1

by_name[name].size := size if {
	some name, size in input.sizes
	size > 0
}
"""
OWNERS = {"owners": [{"name": "bob"}], "open": True}


def notes(query: str, input: Any, data: Any = OWNERS) -> list[str]:
    """`rule:row`, and the row where it failed."""
    engine = Engine({"a.rego": POLICY}, data, marked=True)
    answer, marks = engine.prepare(query).marked_answer(input)
    assert answer == Engine({"a.rego": POLICY}, data).prepare(query).answer(input)
    return [
        f"{mark.path.removeprefix('data.a.')}:{mark.rule.span.row}"
        + (f" failed {mark.failed}" if mark.failed else "")
        for mark in engine.policies.read_marks(marks)
    ]


@pytest.mark.parametrize(
    ("query", "input", "expected"),
    [
        ("allow", {"method": "GET", "user": "bob"}, ["allow:5", "is_owner:16"]),
        (
            "allow",
            {"method": "GET", "user": "eve"},
            ["allow:5 failed 7", "allow:10 failed 11", "is_owner:16 failed 17"],
        ),
        # What the loop needs is read before it.
        (
            "allow",
            {"method": "GET"},
            ["allow:5 failed 7", "allow:10 failed 11", "is_owner:16 failed 18"],
        ),
        ("allow", {"user": "root", "banned": True}, ["allow:5 failed 6", "allow:10 failed 12"]),
        ("allow", {"user": "root", "ports": [80]}, ["allow:5 failed 6", "allow:10 failed 13"]),
        ("allow", {"user": "root", "ports": [8080]}, ["allow:5 failed 6", "allow:10"]),
        # Depends on data alone.
        ("open", {}, []),
        # Of a set only what answered, and that once.
        ("deny", {"xs": [1, 5, 6]}, ["deny:23"]),
        ("deny", {"always": True}, ["deny:28"]),
        ("deny", {"xs": []}, []),
        ("level", {"a": 1}, ["level:30"]),
        ("level", {"b": 1}, ["level:30 failed 30", "level:30 failed 32", "level:33"]),
        ("sum", {"xs": [1, 5]}, ["sum:35", "sum:40 failed 41"]),
        # A function is noted as the condition that calls it.
        ("sum", {"xs": [], "y": 1}, ["sum:35 failed 36", "sum:40 failed 42"]),
        ("sum", {"xs": [5], "y": 5}, ["sum:35", "sum:40"]),
        ("by_name", {"sizes": {"a": 0, "b": 2}}, ["by_name:47"]),
        ("by_name", {"sizes": {}}, []),
    ],
)
def test_answers_and_failures_are_noted(query: str, input: Any, expected: list[str]) -> None:
    assert notes(f"data.a.{query}", input) == expected


def test_a_with_notes_for_the_whole_evaluation() -> None:
    assert notes('data.a.allow with input.user as "bob"', {"method": "GET"}) == [
        "allow:5",
        "is_owner:16",
    ]


def test_an_evaluation_that_is_repeated_for_an_error_notes_nothing() -> None:
    engine = Engine({"a.rego": "package a\np := 1 if input.x\np := 2 if input.y"}, marked=True)
    query = engine.prepare("data.a.p")
    evaluation = query.evaluation({"x": 1, "y": 1})
    with pytest.raises(Exception, match="complete rules must not produce multiple outputs"):
        query.value_of(evaluation)
    assert engine.policies.read_marks(evaluation.marks) == []


def test_only_marked_code_notes() -> None:
    engine = Engine({"a.rego": POLICY}, OWNERS)
    assert "_marks" not in engine.emit()["a.rego"]
    query = engine.prepare("data.a.level")
    assert query.marked_answer({"a": 1}) == (1, {})
    assert engine.policies.read_marks({}) == []
    traced = Engine({"a.rego": POLICY}, OWNERS, marked=True, traced=True)
    assert "_marks" not in traced.emit()["a.rego"]


def test_strict_errors_and_limits_are_noted_as_well() -> None:
    engine = Engine({"a.rego": POLICY}, OWNERS, marked=True, max_items=1000)
    answer, marks = engine.prepare("data.a.level", deadline=PATIENCE).marked_answer({"a": 1})
    assert (answer, [mark.path for mark in engine.policies.read_marks(marks)]) == (
        1,
        ["data.a.level"],
    )
    exact = engine.prepare("data.a.level", strict_builtin_errors=True)
    assert exact.marked_answer({"a": 1}) == (1, {})


def test_a_large_program_notes_what_it_reaches() -> None:
    rules = [f"p{n} := {n} if input.n == {n}" for n in range(MAX_LISTED + 1)]
    rules += [f'q := "{n}" if input.n == {n}' for n in range(20)]
    engine = Engine({"a.rego": "\n".join(["package a", *rules])}, marked=True)
    query = engine.prepare("[data.a.p7, data.a.q]")
    answer, marks = query.marked_answer({"n": 7})
    assert (answer, len(marks)) == ([7, "7"], 2)
    assert [mark.rule.span.row for mark in engine.policies.read_marks(marks)] == [9, 266]


def test_labels_are_those_of_the_definition_and_of_all_it_stands_in() -> None:
    above = "# METADATA\n# scope: subpackages\n# labels:\n#   team: core\n#   tier: one\npackage a"
    inner = (
        "# METADATA\n# labels:\n#   tier: two\npackage a.b\n\n"
        "# METADATA\n# labels:\n#   severity: low\nallow if input.x\n\nother if input.x"
    )
    engine = Engine({"a.rego": above, "b.rego": inner}, marked=True)
    _, marks = engine.prepare("data.a.b").marked_answer({"x": 1})
    labels = [engine.policies.labels(mark) for mark in engine.policies.read_marks(marks)]
    assert labels == [
        {"severity": "low", "tier": "two", "team": "core"},
        {"tier": "two", "team": "core"},
    ]


def test_metadata_that_is_broken_is_a_comment_without_labels() -> None:
    text = "# METADATA\n# labels:\n#   a: b\n# scope: nowhere\npackage a\nallow if input.x"
    engine = Engine({"a.rego": text}, marked=True)
    _, marks = engine.prepare("data.a.allow").marked_answer({"x": 1})
    assert [engine.policies.labels(mark) for mark in engine.policies.read_marks(marks)] == [{}]


def test_a_branch_has_the_labels_of_its_rule() -> None:
    text = "package a\n# METADATA\n# labels: {a: b}\np := 1 if input.x\nelse := 2"
    engine = Engine({"a.rego": text}, marked=True)
    for _ in range(2):
        _, marks = engine.prepare("data.a.p").marked_answer({})
        noted = engine.policies.read_marks(marks)
        assert [engine.policies.labels(mark) for mark in noted] == [{"a": "b"}] * 2


# One in eleven: all of them run unmarked already.
@pytest.mark.parametrize("case", suite.parameters()[::11])
def test_marked_code_answers_as_the_suite_does(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "Engine", _marked)
    assert suite.fault(case) is None


def _marked(modules: Mapping[str, str], data: Any, *, registry: Any) -> Engine:
    return Engine(modules, data, registry=registry, marked=True)
