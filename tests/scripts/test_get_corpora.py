"""OPA's suite is fetched from a repository by git, at the pinned tag, and becomes lines of JSON."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.get_corpora import FOLDER, TAG

SUITE = """---
cases:
  - note: aggregates/count
    query: data.generated.p = x
    modules:
      - |
        package generated

        p contains x if count(data.a, x)
    data: {"a": [1, 2, 3]}
    want_result: [{"x": [3]}]
    sort_bindings: true
  - note: numbers/text
    query: x = 1.50
    want_error_code: eval_type_error
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a suite of two cases at the tag, and something else after it."""
    folder = tmp_path / "opa"
    (folder / FOLDER / "aggregates").mkdir(parents=True)
    (folder / FOLDER / "aggregates/test-count-1.yaml").write_text(SUITE)
    (folder / "main.go").write_text("package main\n")
    commit(folder, "suite")
    git(folder, "tag", TAG)
    (folder / FOLDER / "aggregates/test-later.yaml").write_text(SUITE)
    commit(folder, "later")
    return folder


def commit(folder: Path, subject: str) -> None:
    if not (folder / ".git").is_dir():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    git(folder, *who, "commit", "--quiet", "-m", subject)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


def get(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, "scripts/get_corpora.py", *arguments]
    return subprocess.run(script, cwd=root, capture_output=True, text=True, check=False)


def test_the_suite_at_the_tag_becomes_lines(root: Path, repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "corpora/suite.jsonl.gz"
    done = get(root, "--from", f"file://{repository}", "--to", str(target))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"2 cases of OPA {TAG}")
    first, second = map(json.loads, gzip.decompress(target.read_bytes()).splitlines())
    assert first == {
        "suite": "aggregates",
        "file": "test-count-1",
        "note": "aggregates/count",
        "query": "data.generated.p = x",
        "modules": ["package generated\n\np contains x if count(data.a, x)\n"],
        "data": {"a": [1, 2, 3]},
        "want_result": [{"x": [3]}],
        "sort_bindings": True,
    }
    assert second["want_error_code"] == "eval_type_error"


def test_a_repository_without_the_tag_is_an_error(root: Path, tmp_path: Path) -> None:
    done = get(root, "--from", f"file://{tmp_path}", "--to", str(tmp_path / "suite.jsonl.gz"))
    assert done.returncode != 0
    assert f"could not fetch {TAG}" in done.stderr
    assert not (tmp_path / "suite.jsonl.gz").exists()


def test_a_file_that_was_written_before_is_copied(
    root: Path, repository: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl.gz", tmp_path / "second.jsonl.gz"
    get(root, "--from", f"file://{repository}", "--to", str(first))
    done = get(root, "--from", str(first), "--to", str(second))
    assert done.returncode == 0, done.stderr
    assert gzip.decompress(second.read_bytes()) == gzip.decompress(first.read_bytes())


@pytest.mark.parametrize("content", [b"", b"no gzip", gzip.compress(b'{"note": 1}\n')])
def test_another_file_is_refused(root: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.gz").write_bytes(content)
    target = tmp_path / "suite.jsonl.gz"
    done = get(root, "--from", str(tmp_path / "other.gz"), "--to", str(target))
    assert done.returncode == 1
    assert done.stderr
    assert not target.exists()
