"""`doorward fmt` on files: what is rewritten, and how."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.cli.test_golden import said
from tests.corpora import GOLDEN, rows
from tests.differences import KINDS, load

from doorward.cli.main import run

SETS = ("fmt", "fmt-more")
DIFFERENCES = load("format")


@pytest.mark.long
@pytest.mark.parametrize("name", SETS)
def test_layouts_and_refusals_are_those_of_opa(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.rego"
    ids, differing = set(), {}
    for row in rows(GOLDEN / f"{name}.jsonl.gz"):
        ids.add(row["id"])
        path.write_text(row["source"])
        code = run(["fmt", *row.get("flags", ()), "p.rego"])
        out, err = capsys.readouterr()
        mine = (code, out, said(err, False))
        want = (row.get("exit", 0), row.get("formatted", ""), said(row.get("error", ""), False))
        if mine != want:
            differing[row["id"]] = mine
    listed = {each for difference in DIFFERENCES for each in difference.ids}
    assert set(differing) == listed & ids, differing


def test_every_difference_is_of_an_allowed_kind() -> None:
    assert {difference.kind for difference in DIFFERENCES} <= KINDS.keys()


def test_a_rewritten_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    real = tmp_path / "real.rego"
    real.write_text("package a\n\n\np:=1\n")
    real.chmod(0o640)
    link = tmp_path / "link.rego"
    link.symlink_to(real)
    assert run(["fmt", "-w", str(link)]) == 0
    assert real.read_text() == "package a\n\np := 1\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.rego", "real.rego"]


def test_no_file_is_written_through_a_link_out_of_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside.rego"
    outside.write_text("package a\n\n\np:=1\n")
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "link.rego").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    (folder / "z.rego").write_text("package z\np:=1")
    assert run(["fmt", "-w", str(folder)]) == 2
    assert "the link leads out of" in capsys.readouterr().err
    assert run(["fmt", "-w", str(folder / "link.rego")]) == 2
    assert outside.read_text() == "package a\n\n\np:=1\n"
    assert (folder / "z.rego").read_text() == "package z\n\np := 1\n"


@pytest.mark.parametrize("call", ["os.replace", "os.fsync", "os.fchmod"])
def test_a_fault_while_writing_leaves_the_old_file_and_nothing_else(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.rego"
    path.write_text("package a\n\n\np:=1\n")

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(call, fail)
    assert run(["fmt", "-w", str(path)]) == 2
    assert "no space left on device" in capsys.readouterr().err
    assert path.read_text() == "package a\n\n\np:=1\n"
    assert [each.name for each in tmp_path.iterdir()] == ["p.rego"]


def test_broken_files_are_named_after_the_good_ones_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.rego").write_text("package a\np :=")
    (tmp_path / "b.rego").write_text("package b\np:=1")
    (tmp_path / "c.rego").write_text("package c\nq := [")
    (tmp_path / "d.rego").write_text("package d\np:=1")
    assert run(["fmt", "-w", str(tmp_path)]) == 2
    assert (tmp_path / "b.rego").read_text() == "package b\n\np := 1\n"
    assert (tmp_path / "d.rego").read_text() == "package d\n\np := 1\n"
    said = capsys.readouterr().err
    assert said.count("failed to format Rego source file") == 2
    assert said.index("a.rego") < said.index("c.rego")


def test_both_versions_at_once_can_be_written_from_v1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.rego"
    path.write_text("package a\n\np if input.x\n")
    assert run(["fmt", "--v0-v1", "--v1-compatible", str(path)]) == 0
    assert "import rego.v1\n" in capsys.readouterr().out


def test_a_difference_can_be_read_by_patch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package a\n\np:=1")
    assert run(["fmt", "-d", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["@@ -1,3 +1,3 @@", " package a", " ", "-p:=1", "+p := 1"]


def test_a_difference_is_one_of_lines_whatever_stands_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package a\n\n# x\fy\u2028z\np:=1\n", encoding="utf-8")
    assert run(["fmt", "-d", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[2:] == [
        "@@ -1,4 +1,4 @@",
        " package a",
        " ",
        " # x\fy\u2028z",
        "-p:=1",
        "+p := 1",
        "",
    ]


def test_what_is_no_utf8_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.rego").write_bytes(b'package a\n\np := "\xff"')
    assert run(["fmt", "-w", str(tmp_path)]) == 2
    assert "policy is not UTF-8 at byte 17" in capsys.readouterr().err


def test_what_is_too_long_is_refused_and_never_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("doorward.cli.fmt._MAX_BYTES", 20)
    text = "package a\n\np := 1\n\nq := 2\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["fmt"]) == 1
    path = tmp_path / "p.rego"
    path.write_text(text)
    assert run(["fmt", "-w", str(path)]) == 2
    assert path.read_text() == text
    assert capsys.readouterr().out == ""
