"""METADATA as text, and the tests of the policies in force."""

from __future__ import annotations

import pytest
from tests.console.points import Point

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


def test_tests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_texts, "MOST", 1)
    answer = run_tests(Point(POLICY, TESTS).pdp.snapshot)
    assert (len(answer["tests"]), answer["more"]) == (1, True)
    monkeypatch.setattr(policy_texts, "SECONDS", 0.0)
    assert "longer than" in run_tests(Point(POLICY, TESTS).pdp.snapshot)["error"]
