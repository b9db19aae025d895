"""METADATA as text, and the tests of the policies in force."""

from __future__ import annotations

import pytest
from tests.console.points import Point
from tests.waiting import PATIENCE

from doorward.console import policy_texts
from doorward.console.policy_texts import notes_of, run_tests

POLICY = """# METADATA
# title: <b>Readers</b>
# description: They read.
# authors: [Ann]
# custom: {owner: ann}
package app

# METADATA
# title: Allow
allow if input.user in data.readers
"""
TESTS = """package app_test

test_ann if data.app.allow with input as {"user": "ann"} with data.readers as ["ann"]

test_bob if data.app.allow with input as {"user": "bob"} with data.readers as ["ann"]
"""


def test_metadata_is_text() -> None:
    package, rule = notes_of(POLICY, "p.rego")
    assert (package["row"], package["scope"], package["title"]) == (1, "package", "<b>Readers</b>")
    assert package["others"]["custom"] == '{"owner": "ann"}'
    assert (rule["scope"], rule["title"]) == ("rule", "Allow")
    assert notes_of("package a\n\n# METADATA\n# title: [", "p.rego") == []
    assert notes_of("package a", "p.rego") == []


def test_tests_of_the_policies_in_force_say_why_they_fail() -> None:
    answer = run_tests(Point(POLICY, TESTS).pdp.snapshot)
    passed, failed = answer["tests"]
    assert (passed["outcome"], passed["why"]) == ("PASS", "")
    assert (failed["outcome"], failed["file"], failed["row"]) == ("FAIL", "1.rego", 5)
    assert "data.app.allow" in failed["why"]


PROPERTIES = """package app_test

never_bob if {
	data.app.allow
	input.user == "bob"
}

never_both if {
	input.user == "ann"
	input.user == "bob"
}

never_sum if {
	input.n + input.k == 7
	input.k + input.n == 8
}
"""


def test_properties_of_the_policies_in_force_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_texts, "SECONDS", PATIENCE)
    allow_all = "package app\n\nallow if input.user\n"
    answer = run_tests(Point(allow_all, PROPERTIES).pdp.snapshot)
    assert (answer["tests"], "error" in answer) == ([], False)
    broken, proved, unknown = answer["properties"]
    assert (broken["outcome"], broken["input"]) == ("counterexample", {"user": "bob"})
    assert (broken["file"], broken["row"]) == ("1.rego", 3)
    assert (proved["outcome"], proved["text"], proved["input"]) == ("none exists", "", None)
    assert "not refuted" in unknown["text"]


def test_properties_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Point(POLICY, PROPERTIES).pdp.snapshot
    times = iter([0.0, policy_texts.SECONDS])
    monkeypatch.setattr(policy_texts, "monotonic", lambda: next(times))
    answer = run_tests(snapshot)
    assert len(answer["properties"]) < 3
    assert "longer than" in answer["error"]


def test_tests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_texts, "MOST", 1)
    answer = run_tests(Point(POLICY, TESTS).pdp.snapshot)
    assert (len(answer["tests"]), answer["more"]) == (1, True)
    monkeypatch.setattr(policy_texts, "SECONDS", 0.0)
    assert "longer than" in run_tests(Point(POLICY, TESTS).pdp.snapshot)["error"]
