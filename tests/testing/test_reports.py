"""Reports: the summary for people, JSON, and JUnit XML that a parser can read."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from doorward.bundles.loader import Loaded
from doorward.testing import Suite, run
from doorward.testing.reports import _duration, json_report, junit_report, pretty

TESTS = """package t

test_good if true

test_bad if 1 < 0

todo_test_later if false

test_odd if data.t.two

test_loud if print("<&\\u0007>")

two := 1

two := 2
"""


def suite() -> Suite:
    return Suite(Loaded({"t.rego": TESTS}))


def test_the_summary_counts_and_shows_what_did_not_pass() -> None:
    shown = pretty(list(run(suite())))
    assert "test_good" not in shown
    assert "data.t.todo_test_later: SKIPPED" in shown
    assert "  t.rego:15: eval_conflict_error: complete rules must not produce" in shown
    assert shown.endswith("PASS: 2/5\nFAIL: 1/5\nSKIPPED: 1/5\nERROR: 1/5\n")


def test_failures_come_first_with_their_reason() -> None:
    shown = pretty(list(run(suite())), why=lambda result: "because")
    assert shown.startswith("FAILURES\n")
    assert "\n  because\n\nSUMMARY\n" in shown


def test_json_says_only_what_is_so() -> None:
    document = {each["name"]: each for each in json.loads(json_report(run(suite())))}
    assert document["test_bad"]["fail"] is True
    assert document["todo_test_later"]["skip"] is True
    assert document["test_odd"]["error"]["code"] == "eval_conflict_error"
    assert set(document["test_good"]) == {"location", "package", "name", "duration"}


def test_junit_is_xml_whatever_a_test_prints() -> None:
    root = ET.fromstring(junit_report(list(run(suite())), lambda result: "1 < 0 & so on"))
    (file,) = root
    assert (file.get("name"), file.get("tests"), file.get("failures")) == ("t.rego", "5", "1")
    cases = {case.get("name"): case for case in file}
    assert cases["test_bad"][0].text == "1 < 0 & so on"
    assert [child.tag for child in cases["todo_test_later"]] == ["skipped"]
    assert [child.tag for child in cases["test_odd"]] == ["error"]
    assert cases["test_loud"][0].text == "<&�>\n"
    assert cases["test_good"].get("classname") == "data.t"
    assert cases["test_good"].get("line") == "3"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (999, "999ns"),
        (1_234, "1.23µs"),
        (999_499, "999µs"),
        (999_600, "1ms"),
        (12_345_678, "12.3ms"),
        (59_960_000_000, "60s"),
        (1_234_567_000_000, "1235s"),
    ],
)
def test_a_duration_has_three_digits_and_no_exponent(nanoseconds: int, text: str) -> None:
    assert _duration(nanoseconds) == text
