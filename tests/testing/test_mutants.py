"""Each mutant differs in one place; what no test notices is shown with the test that would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

from doorward.cli import mutation
from doorward.cli.main import run
from doorward.rego import Options, compile
from doorward.rego.shared import parse_modules
from doorward.testing.mutants import mutants_of

POLICY = """package app

default allow := false

allow if {
	input.method == "GET"
	not input.locked
	input.level > 3
}

never_locked if {
	allow
	input.locked
}
"""
TESTS = """package app_test

test_get if data.app.allow with input as {"method": "GET", "level": 9}

test_put if not data.app.allow with input as {"method": "PUT", "level": 9}
"""


def test_a_mutant_is_the_file_changed_in_one_place() -> None:
    mutants = list(mutants_of(parse_modules({"p.rego": POLICY, "p_test.rego": TESTS}, Options())))
    assert {mutant.file for mutant in mutants} == {"p.rego"}
    texts = {mutant.text for mutant in mutants}
    assert len(texts) == len(mutants)
    assert POLICY not in texts
    for old, new in [("==", "!="), ("not input", "input"), ("> 3", ">= 3"), ("3", "4")]:
        assert POLICY.replace(old, new) in texts
    assert POLICY.replace('"GET"', '"GET~"') in texts
    assert {mutant.rule for mutant in mutants} == {"allow"}
    for text in texts:
        compile({"p.rego": text})


def test_what_no_test_holds_is_shown_with_the_test_to_add(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No test is late on a busy machine.
    monkeypatch.setattr(mutation, "_DEADLINE", PATIENCE)
    (tmp_path / "p.rego").write_text(POLICY)
    (tmp_path / "p_test.rego").write_text(TESTS)
    given = ["test", "--mutate", "--mutate-time", f"{PATIENCE:g}s", str(tmp_path)]
    assert run([*given, "--format", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["tested"] == document["mutants"] - document["refused"]
    shown = {each["change"]: each["test"] for each in document["survivors"]}
    assert "`3`: one more" in shown
    # The property `never_locked` has a counterexample without this condition.
    assert "`not input.locked`: left out" not in shown
    assert document["refuted"] == 1
    assert '`"GET"`: another text' not in shown
    # Nothing here asks for the time.
    assert "time.now_ns" not in str(shown)
    alike = [each["kind"] for each in document["survivors"] if not each["test"]]
    assert document["alike"] == {kind: alike.count(kind) for kind in alike}

    added = "\n\n".join(test for test in shown.values() if test)
    (tmp_path / "p_test.rego").write_text(f"{TESTS}\n{added}\n")
    assert run([*given, "--format", "json"]) == 0
    assert all(not each["test"] for each in json.loads(capsys.readouterr().out)["survivors"])


def test_a_property_that_the_original_breaks_notices_no_mutant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation, "_DEADLINE", PATIENCE)
    # An input with `locked` makes the property true in the original too.
    (tmp_path / "p.rego").write_text(POLICY.replace("\tnot input.locked\n", ""))
    (tmp_path / "p_test.rego").write_text(TESTS)
    arguments = ["test", "--mutate", "--mutate-time", f"{PATIENCE:g}s", "--format", "json"]
    # `doorward test` alone fails for the property; here only the mutants count.
    run([*arguments, str(tmp_path)])
    assert json.loads(capsys.readouterr().out)["refuted"] == 0


def test_the_share_that_nothing_tells_apart_is_given_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation, "_DEADLINE", PATIENCE)
    # That `x` is 1 or 2 is what the next condition says, so that to leave it out changes nothing.
    text = "package app\n\nallow if {\n\tinput.x in [1, 2]\n\tinput.x == 1\n}\n"
    tests = "package app_test\n\ntest_x if data.app.allow with input.x as 1\n"
    tests += "\ntest_y if not data.app.allow with input.x as 2\n"
    (tmp_path / "p.rego").write_text(text)
    (tmp_path / "p_test.rego").write_text(tests)
    run(["test", "--mutate", "--mutate-time", f"{PATIENCE:g}s", str(tmp_path)])
    report = capsys.readouterr().out
    assert "Mutants that neither a test nor a search distinguished: " in report
    assert "1 left out" in report


def test_policies_that_fail_a_test_are_not_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p_test.rego").write_text("package t\n\ntest_a if 1 == 2\n")
    assert run(["test", "--mutate", str(tmp_path)]) == 2
    assert "FAIL" in capsys.readouterr().out
    assert run(["test", "--format", "markdown", str(tmp_path)]) == 1
