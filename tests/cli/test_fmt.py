"""`doorward fmt` on files: what is rewritten, and how."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from doorward.cli.main import run


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


def test_a_difference_can_be_read_by_patch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package a\n\np:=1")
    assert run(["fmt", "-d", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["@@ -1,3 +1,3 @@", " package a", " ", "-p:=1", "+p := 1"]


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
