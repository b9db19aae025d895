"""The benchmark of commands writes what it measured, and nothing else, into its part of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import commands

PAGE = f"before\n\n{commands.BEGIN}\nstale row\n{commands.END}\n\nafter\n"


def test_the_page_shows_each_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    chosen = ["--only", "empty Python", "--only", "1+1"]
    arguments = ["--opa", "/bin/true", "--rounds", "1", *chosen, "--markdown", str(page)]
    assert commands.main(arguments) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\n\nafter\n")
    assert "stale row" not in text
    said = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in said] == ["| an empty Python", "| `eval 1+1`"]
    assert all(line in text.splitlines() for line in said)


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n")
    with pytest.raises(SystemExit, match="has no"):
        commands.put(page, "row\n")
    assert page.read_text() == "text\n"


def test_a_command_that_cannot_run_ends_the_measurement(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with 1"):
        commands.cost([["false"]], {}, tmp_path)


def test_the_tests_of_each_folder_are_a_command(tmp_path: Path) -> None:
    for name in ("given/a/one", "given/a/two"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "p_test.rego").write_text("package p\n")
    (tmp_path / "made").mkdir()
    options = commands.arguments(["--folders-v0", str(tmp_path / "given")])
    work = list(commands.works(tmp_path / "made", options))[-1]
    assert len(work.ours) == len(work.theirs) == 2
    assert work.theirs[0][1:3] == ["test", "--v0-compatible"]


def test_formatting_is_measured_next_to_our_own_check(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ["--only", "`fmt` of 1,000 other", "--rounds", "1"]
    assert commands.main(chosen) == 0
    (row,) = capsys.readouterr().out.splitlines()
    _, name, ours, check, times, goal, *_ = [cell.strip() for cell in row.split("|")]
    assert "next to our own `check`" in name
    assert float(times.strip("*")) == pytest.approx(float(ours) / float(check), rel=0.2)
    assert goal == "1.3"


def test_figures_of_the_peer_stay_where_it_is_not_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    old = "| `eval 1+1` | 9.000 (99.0 empty Pythons) | 0.010 | 900 | 6 | 37 | 45 |"
    other = "| `test` of a folder | 4.715 | 2.764 | 1.7 | 2 | 140 | 228 |"
    page.write_text(f"{commands.BEGIN}\n{old}\n{other}\n{commands.END}\n")
    chosen = ["--only", "1+1", "--rounds", "1", "--markdown", str(page)]
    assert commands.main(chosen) == 0
    text = page.read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| `eval 1+1`")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2] == "0.010"
    assert float(cells[3].strip("*")) == pytest.approx(float(cells[1]) * 100, abs=1)
    assert "measured earlier" in text
    assert other in text.splitlines()
