"""The benchmark next to OPA: every recorded case can be asked, and the page shows each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import against_opa
from benchmarks.cases import CASES


def test_a_case_of_ours_is_the_benchmarks_own() -> None:
    names = [row["name"] for row in json.loads(against_opa.RECORDED.read_text())["rows"]]
    assert len(names) == 194
    own = [name.removeprefix(against_opa.OWN) for name in names if name.startswith("own ")]
    assert set(own) == set(CASES)


def test_the_page_and_its_plot_show_each_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    arguments = ["--rounds", "1", "--only", "percentage check", "--markdown", str(page)]
    assert against_opa.main(arguments) == 0
    assert "percentage check (3 ops)" in capsys.readouterr().out
    text = page.read_text()
    assert "| percentage check (3 ops) |" in text
    assert "fmt of 142 files" in text
    assert "percentage check" in (tmp_path / against_opa.PICTURE).read_text()


def test_a_program_that_cannot_answer_has_no_figure() -> None:
    question = next(against_opa.questions())
    assert against_opa.benched(question, "false") != against_opa.benched(question, "false")
