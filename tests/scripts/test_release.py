"""A release is of a clean checkout and of a version that nobody released before."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, on a repository of its own with one commit."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    version = tmp_path / "src/doorward/__init__.py"
    version.parent.mkdir(parents=True)
    version.write_text('"""Names."""\n\n__version__ = "0.1.0"\n')
    for command in (
        ["init", "-q"],
        ["config", "user.email", "a@example.org"],
        ["config", "user.name", "a"],
        ["add", "."],
        ["commit", "-qm", "first"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VERSION_FILE", version)
    monkeypatch.setattr(module, "HELP", tmp_path / "help/index.html")
    return module


def test_a_checkout_with_changes_is_refused(release: ModuleType) -> None:
    release.check_checkout("0.2.0")
    release.set_version("0.2.0")
    assert '__version__ = "0.2.0"\n' in release.VERSION_FILE.read_text()
    with pytest.raises(release.ReleaseError, match="the checkout has changes"):
        release.check_checkout("0.2.0")


def test_no_release_is_without_the_pages_of_help(
    release: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main(["0.2.0", "--dry-run"]) == 1
    assert "run `make site`" in capsys.readouterr().err


def test_a_version_is_released_once(release: ModuleType) -> None:
    subprocess.run(["git", "tag", "v0.2.0"], cwd=release.ROOT, check=True)
    with pytest.raises(release.ReleaseError, match=r"version 0\.2\.0 is tagged already"):
        release.check_checkout("0.2.0")


@pytest.mark.parametrize("arguments", [[], ["1"], ["1.2"], ["1.2.3.4"], ["v1.2.3"], ["1.2.3", "4"]])
def test_a_call_without_one_version_explains_itself(
    arguments: list[str], release: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main(arguments) == 2
    assert "usage: python scripts/release.py MAJOR.MINOR.PATCH" in capsys.readouterr().err


def test_the_changelog_lists_each_entry_of_a_fragment(release: ModuleType) -> None:
    assert release.split_entries(
        "Docker: with `owners`, a volume\nhas an owner.\n"
        "It has one label (docs).\n\nA list\n  is sorted.\nA name is kept.\n"
    ) == [
        "Docker: with `owners`, a volume has an owner. It has one label (docs).",
        "A list is sorted.",
        "A name is kept.",
    ]


def test_general_features_come_before_those_of_an_issue(
    release: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = release.ROOT / "changelog.d"
    folder.mkdir()
    monkeypatch.setattr(release, "FRAGMENTS", folder)
    texts = {
        "README.md": "Read.",
        "22.fix.md": "A.\nB.\n",
        "+docker.fix.md": "C.\n",
        "+x.fix.md": "D.\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    release.split_fragments()
    assert {file.name: file.read_text().strip() for file in folder.iterdir()} == {
        "README.md": "Read.",
        "0.fix.1.md": "C.",
        "0.fix.2.md": "D.",
        "22.fix.1.md": "A.",
        "22.fix.2.md": "B.",
    }
