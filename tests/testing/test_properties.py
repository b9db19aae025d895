"""`doorward test` and pytest run `never_` rules: a counterexample is a failed test."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.testing.test_pytest_plugin import run as run_pytest

from doorward.cli.main import run

pytest_plugins = "pytester"

POLICY = """package app

default allow := false

allow if input.role == "admin"

allow if {
	input.method == "GET"
	input.role == "guest"
}
"""
PROVED = "never_stranger if { allow; not input.role in {`admin`, `guest`} }\n"
BROKEN = 'never_write if { allow; input.method != "GET" }\n'
UNKNOWN = "never_sum if { allow; input.n + input.k == 7; input.k + input.n == 8 }\n"
HEAD = "package app_test\n\nimport data.app.allow\n\n"


def write(folder: Path, *rules: str) -> str:
    (folder / "app.rego").write_text(POLICY)
    (folder / "app_test.rego").write_text(HEAD + "\n".join(rules))
    return str(folder)


def test_a_counterexample_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = 'test_admin if allow with input as {"role": "admin"}\n'
    assert run(["test", write(tmp_path, rule, PROVED, BROKEN)]) == 2
    out = capsys.readouterr().out
    assert "PASS: 1/1\n" in out
    assert "data.app_test.never_write" in out
    assert "counterexample" in out
    assert out.endswith("PROPERTIES: 1 none exists, 1 counterexample\n")


def test_what_is_not_known_is_said_and_is_not_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["test", write(tmp_path, PROVED, UNKNOWN)]) == 0
    out = capsys.readouterr().out
    assert "data.app_test.never_sum" in out
    assert "not refuted" in out
    assert "never_stranger" not in out


def test_a_pattern_chooses_properties_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["test", "-r", "stranger", write(tmp_path, PROVED, BROKEN)]) == 0
    assert capsys.readouterr().out == "PROPERTIES: 1 none exists\n"


def test_json_names_the_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["test", "--format", "json", write(tmp_path, PROVED, BROKEN)]) == 2
    proved, broken = json.loads(capsys.readouterr().out)
    assert (proved["name"], proved["property"]) == ("never_stranger", "none exists")
    assert "fail" not in proved
    assert (broken["package"], broken["property"]) == ("data.app_test", "counterexample")
    assert broken["fail"] is True


def test_junit_has_failures_and_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["test", "--format", "junit", write(tmp_path, PROVED, BROKEN, UNKNOWN)]) == 2
    root = ElementTree.fromstring(capsys.readouterr().out)
    suite = root.find("testsuite")
    assert suite is not None
    for counts in (root, suite):  # CI systems read either
        assert [counts.get(each) for each in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    assert [child.tag for case in suite for child in case] == ["failure", "skipped", "system-out"]


def test_junit_is_written_beside_the_report_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = 'test_admin if allow with input as {"role": "admin"}\n'
    xml = tmp_path / "report.xml"
    assert run(["test", "--junit", str(xml), write(tmp_path, rule, BROKEN)]) == 2
    assert "PROPERTIES: 1 counterexample" in capsys.readouterr().out
    root = ElementTree.parse(xml).getroot()
    assert [root.get(each) for each in ("tests", "failures")] == ["2", "1"]
    names = [case.get("name") for case in root.iter("testcase")]
    assert names == ["test_admin", "never_write"]


@pytest.mark.parametrize("flag", ["--bench", "--mutate"])
def test_junit_is_for_tests_only(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    xml = tmp_path / "report.xml"
    assert run(["test", flag, "--junit", str(xml), write(tmp_path, PROVED)]) == 1
    assert "--junit" in capsys.readouterr().err
    assert not xml.exists()


def test_a_report_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    xml = tmp_path / "missing" / "report.xml"
    assert run(["test", "--junit", str(xml), write(tmp_path, PROVED)]) == 1
    assert f"{xml}: no such file or directory" in capsys.readouterr().err


def test_a_counterexample_fails_a_run_with_coverage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = 'test_admin if allow with input as {"role": "admin"}\n'
    folder = write(tmp_path, rule, PROVED)
    assert run(["test", "--coverage", folder]) == 0
    covered = capsys.readouterr()
    assert json.loads(covered.out)["coverage"] > 0
    assert covered.err == "PROPERTIES: 1 none exists\n"
    write(tmp_path, rule, BROKEN)
    assert run(["test", "--coverage", folder]) == 2
    assert "counterexample" in capsys.readouterr().err


def test_policies_with_properties_only_are_not_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, PROVED)
    assert run(["test", "--fail-on-empty", folder]) == 0
    assert run(["test", "--fail-on-empty", "-r", "nothing", folder]) == 1
    assert "no tests were run" in capsys.readouterr().err


def test_github_names_the_row_of_a_broken_property(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["test", "--format", "github", write(tmp_path, BROKEN)]) == 2
    assert "app_test.rego,line=5,col=1::data.app_test.never_write" in capsys.readouterr().out


def test_policies_without_properties_report_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["test", write(tmp_path, "test_a if true")]) == 0
    assert capsys.readouterr().out == "PASS: 1/1\n"


def test_pytest_fails_for_a_counterexample_and_skips_the_unknown(
    pytester: pytest.Pytester,
) -> None:
    write(pytester.path, PROVED, BROKEN, UNKNOWN)
    result = run_pytest(pytester, "-rs")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*never_write*counterexample*", "*not refuted*"])
