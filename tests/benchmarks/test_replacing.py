"""The benchmark of changes: Checks are timed until the new version answers."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from benchmarks import replacing
from benchmarks.replacing import Meanwhile, bundle, replaced


def test_checks_are_timed_until_the_new_version_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "PAUSE", 0.0)
    monkeypatch.setattr(replacing, "AFTERWARDS", 0.0)
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(bundle({"data.json": b"{}"}, 1))
    checks: list[None] = []
    versions = iter([1, 1, 2])
    content = bundle({"data.json": b"{}"}, 2)
    change = replaced(path, content, lambda: checks.append(None), lambda: next(versions), 2)
    assert path.read_bytes() == content
    assert not list(tmp_path.glob("*.new"))
    assert len(change.times) == len(checks) == 30
    assert change.seconds > 0
    with tarfile.open(path) as archive:
        assert sorted(archive.getnames()) == ["data.json", "version.rego"]


def test_a_row_has_the_percentile_and_the_worst() -> None:
    row = Meanwhile([float(n) for n in range(1, 201)], 1.5).row()
    assert row.split() == ["100.50", "199.0", "200.0", "1.50", "(200", "Checks)"]


def test_a_version_that_never_comes_ends_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "LATEST", 0.0)
    with pytest.raises(SystemExit, match="is not replaced"):
        replaced(tmp_path / "bundle.tar.gz", b"", lambda: None, lambda: 0, 1)
