"""METADATA as text, and the tests of the policies in force."""

from __future__ import annotations

import base64
import hmac
import json
import re
from typing import Any

import pytest
from tests.console.points import SETTINGS, Point
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.console import playground, policy_texts
from doorward.console.playground import answer
from doorward.console.policy_texts import notes_of, run_tests
from doorward.console.views import change_of
from doorward.pdp.snapshot import build
from doorward.rego import to_python
from doorward.testing import properties
from doorward.testing.properties import check_properties

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


SIGNED = """package app

allow if {
	[true, _, claims] = io.jwt.decode_verify(input.token, {"secret": data.hidden.jwt})
	claims.role in {"guest", "auditor"}
}

allow if input.note == data.secrets.note
"""
NEVER = """package app_test

never_auditor if {
	data.app.allow
	not input.note
}

never_note if {
	data.app.allow
	not input.token
}
"""
HIDDEN: Any = {"hidden": {"jwt": "quarterdeck-lantern"}, "secrets": {"note": "marmalade"}}


def credentials_in(text: str) -> list[str]:
    """The secrets of `HIDDEN`, and texts that are signed with one, in an answer."""
    secrets = ["quarterdeck-lantern", "marmalade"]
    jwt = r"([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)"
    tokens = [
        match[0]
        for match in re.finditer(jwt, text)
        if match[2] == signature_of(match[1], "quarterdeck-lantern")
    ]
    return [each for each in secrets if each in text] + tokens


def signature_of(text: str, key: str) -> str:
    digest = hmac.digest(key.encode(), text.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def test_no_page_displays_a_credential_that_the_search_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy_texts, "SECONDS", PATIENCE)
    monkeypatch.setattr(properties, "SECONDS", 5.0)
    texts = {"app.rego": SIGNED, "app_test.rego": NEVER}
    # The search makes them: the answers below have something to hide.
    findings = [each.finding for each in check_properties(Loaded(texts, HIDDEN))]
    raw = json.dumps([each and to_python(each.input) for each in findings])
    assert len(credentials_in(raw)) == 2
    point = Point()
    point.pdp.replace(build(Loaded(texts, HIDDEN), SETTINGS))
    pages = [run_tests(point.pdp.snapshot)]
    played: Any = {"files": texts, "data": HIDDEN, "query": "data.app.allow", "input": {}}
    monkeypatch.setattr(playground, "PROVING", PATIENCE)
    pages.append(answer("prove", {**played, "file": "app_test.rego"}))
    pages.append(change_of(point.decide({})))
    for page in pages:
        assert not credentials_in(json.dumps(page))
    for page in pages[:2]:
        outcomes = [each["outcome"] for each in page["properties"]]
        assert outcomes == ["counterexample"] * 2
        by_name = {each["name"].rpartition(".")[2]: each["input"] for each in page["properties"]}
        assert "a caller cannot sign it" in by_name["never_auditor"]["token"]
        assert by_name["never_note"]["note"] == "[masked]"
