"""What is wrong, for machines: SARIF, GitHub's annotations and JUnit, of `check` and of `test`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from doorward.cli.findings import github, junit, sarif
from doorward.cli.main import run
from doorward.rego import Diagnostic
from doorward.rego.shared import Source, Span

WRONG = Diagnostic(
    "rego_unsafe_var_error", "var x is unsafe", Span(Source("a,b.rego", "p if x"), 5, 6, 1, 6)
)
LOST = Diagnostic("load_error", "stat x: no such file\nor 100% gone")


def test_sarif_places_each_result() -> None:
    (document,) = json.loads(sarif([WRONG, LOST]))["runs"]
    first, second = document["results"]
    assert first["ruleId"] == "rego_unsafe_var_error"
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a,b.rego"},
        "region": {"startLine": 1, "startColumn": 6},
    }
    assert "locations" not in second
    assert {rule["id"] for rule in document["tool"]["driver"]["rules"]} == {WRONG.code, LOST.code}


def test_annotations_escape_what_github_reads_as_its_own() -> None:
    assert github([WRONG, LOST]) == (
        "::error title=rego_unsafe_var_error,file=a%2Cb.rego,line=1,col=6::var x is unsafe\n"
        "::error title=load_error::stat x: no such file%0Aor 100%25 gone\n"
    )


def test_junit_names_every_file() -> None:
    root = ET.fromstring(junit(["good.rego"], [WRONG]))
    assert {case.get("name"): len(case) for case in root.iter("testcase")} == {
        "a,b.rego": 1,
        "good.rego": 0,
    }


@pytest.mark.parametrize("style", ["sarif", "github", "junit"])
def test_check_writes_each_of_them(
    style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.rego"
    path.write_text("package a\n\np if x\n")
    assert run(["check", "-f", style, str(path)]) == 1
    assert "var x is unsafe" in capsys.readouterr().out
    path.write_text("package a\n")
    assert run(["check", "-f", style, str(path)]) == 0


@pytest.mark.parametrize("style", ["sarif", "github", "junit"])
def test_a_failed_test_is_a_finding_with_its_reason(
    style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p_test.rego"
    path.write_text("package a\n\ntest_x if 1 > data.limit\n")
    assert run(["test", "-f", style, str(path)]) == 2
    assert "data.limit: undefined" in capsys.readouterr().out
