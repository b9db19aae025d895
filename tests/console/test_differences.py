"""What a revision changed: its lines, and the kept decisions that are different now."""

from __future__ import annotations

import pytest
from tests.console.points import PEOPLE, Point

from doorward.console import differences
from doorward.console.differences import compare

GUEST = {"role": "guest", "active": True}


def test_lines_and_decisions_that_differ() -> None:
    point = Point(PEOPLE)
    for method in ("GET", "PUT", "POST"):
        point.decide({"method": method, "user": GUEST})
    point.replace(PEOPLE.replace('"GET"', '"PUT"'))
    point.decide({"method": "GET", "user": GUEST})
    newest, oldest = point.ring.versions()
    answer = compare(oldest, point.pdp.snapshot, point.ring.newest())
    assert (answer["from"], answer["to"]) == (oldest.revision, newest.revision)
    assert '+\tinput.method == "PUT"' in answer["lines"]
    assert (answer["compared"], answer["different"]) == (3, 2)
    assert [(each["was"], each["is"]) for each in answer["changed"]] == [
        ("false", "true"),
        ("true", "false"),
    ]


def test_the_same_policies_change_nothing() -> None:
    point = Point(PEOPLE)
    point.decide({"method": "GET"})
    (version,) = point.ring.versions()
    answer = compare(version, point.pdp.snapshot, point.ring.newest())
    assert (answer["lines"], answer["compared"], answer["different"]) == ([], 1, 0)


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "MOST", 2)
    monkeypatch.setattr(differences, "SHOWN", 1)
    point = Point(PEOPLE)
    for _ in range(4):
        point.decide({"method": "GET", "user": GUEST})
    point.replace("package app\n\ndefault allow := false")
    (version,) = point.ring.versions()
    answer = compare(version, point.pdp.snapshot, point.ring.newest())
    assert (answer["compared"], answer["different"], len(answer["changed"])) == (2, 2, 1)


def test_results_are_masked() -> None:
    rule = 'package app\n\nanswer := {"password": "marmalade-one", "count": 1}\n'
    point = Point(rule)
    point.decide({}, "app/answer")
    point.replace(rule.replace("one", "two").replace("1", "2"))
    version = next(each for each in point.ring.versions() if "one" in str(each.files))
    (changed,) = compare(version, point.pdp.snapshot, point.ring.newest())["changed"]
    assert "marmalade" not in changed["was"] + changed["is"]
    assert (changed["was"], changed["is"]) == ('{"count":1}', '{"count":2}')
