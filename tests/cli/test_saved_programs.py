"""A second run with policies that did not change takes what the first has left, and no more."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from doorward.cli import check, eval, saved_programs, test
from doorward.rego import policies as compiler
from doorward.rego.saved.keys import LEAST_TEXT

POLICY = "package a\n\nallow if input.user == data.owner\n\n" + "#" * LEAST_TEXT + "\n"
TESTS = 'package a_test\n\ntest_owner if data.a.allow with input.user as "ann"\n'
COMMANDS = {"check": check.command, "eval": eval.command, "test": test.command}


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "a.rego").write_text(POLICY)
    (folder / "a_test.rego").write_text(TESTS)
    (folder / "data.json").write_text('{"owner": "ann"}')
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv(saved_programs.VARIABLE, str(path))
    return path


Compilations = Callable[[], int]


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Compilations:
    """Return how often modules were checked since the last call."""
    count = 0

    def counting(original: Callable[..., object]) -> Callable[..., object]:
        def checked(*args: object, **options: object) -> object:
            nonlocal count
            count += 1
            return original(*args, **options)

        return checked

    monkeypatch.setattr(compiler, "check", counting(compiler.check))  # type: ignore[attr-defined]
    monkeypatch.setattr(check, "check", counting(check.check))  # type: ignore[attr-defined]

    def since() -> int:
        nonlocal count
        seen, count = count, 0
        return seen

    return since


def run(name: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        COMMANDS[name], arguments, catch_exceptions=False, standalone_mode=False
    )


def arguments(name: str, policies: Path) -> list[str]:
    return {
        "check": [str(policies)],
        "eval": ["-d", str(policies), "-f", "raw", "data.a_test.test_owner"],
        "test": ["-p", "1", str(policies)],
    }[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_run_compiles_nothing(
    name: str, policies: Path, folder: Path, compilations: Compilations
) -> None:
    first = run(name, *arguments(name, policies))
    assert compilations() == 1
    second = run(name, *arguments(name, policies))
    assert compilations() == 0
    assert first.return_value == second.return_value == 0
    assert first.output.split("(")[0] == second.output.split("(")[0]
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_without_the_cache_nothing_is_read_or_written(
    name: str, policies: Path, folder: Path, compilations: Compilations
) -> None:
    for _ in range(2):
        assert run(name, "--no-cache", *arguments(name, policies)).return_value == 0
        assert compilations() == 1
    assert not folder.exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_change_is_seen(name: str, policies: Path, folder: Path) -> None:
    assert run(name, *arguments(name, policies)).return_value == 0
    (policies / "a.rego").write_text(POLICY.replace("== data.owner", "== owner"))
    done = run(name, *arguments(name, policies))
    assert done.return_value != 0
    assert "owner is unsafe" in done.output


def test_data_is_not_part_of_what_is_saved(policies: Path, folder: Path) -> None:
    assert "PASS: 1/1" in run("test", *arguments("test", policies)).output
    (policies / "data.json").write_text('{"owner": "bob"}')
    assert "FAIL: 1/1" in run("test", *arguments("test", policies)).output


def test_coverage_reads_the_policies_that_were_saved(policies: Path, folder: Path) -> None:
    first, second = (run("test", "--coverage", *arguments("test", policies)) for _ in range(2))
    assert first.output == second.output
    assert '"coverage": 100' in second.output


def test_each_run_has_the_same_timers(policies: Path, folder: Path) -> None:
    arguments = ["--metrics", "-d", str(policies), "data.a.allow"]
    first, second = (json.loads(run("eval", *arguments).output)["metrics"] for _ in range(2))
    assert first.keys() == second.keys()


def test_errors_are_reported_by_each_run(policies: Path, folder: Path) -> None:
    (policies / "a.rego").write_text(POLICY + "\nx := y\n")
    first, second = (run("check", str(policies)) for _ in range(2))
    assert first.return_value == second.return_value == 1
    assert first.output == second.output


def test_strict_mode_is_checked_by_itself(policies: Path, folder: Path) -> None:
    (policies / "a.rego").write_text(POLICY.replace("\n\nallow", "\n\nimport data.b\n\nallow"))
    assert run("check", str(policies)).return_value == 0
    assert run("check", "--strict", str(policies)).return_value == 1
    assert run("check", "--strict", str(policies)).return_value == 1


def chosen(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Path | None:
    for name in (saved_programs.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with click.Context(check.command):
        folder = saved_programs.saved_folder()
    return None if folder is None else folder.path


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert chosen(monkeypatch, HOME=str(home)) == home / ".cache" / "doorward"
    base = tmp_path / "base"
    assert chosen(monkeypatch, XDG_CACHE_HOME=str(base)) == base / "doorward"
    assert chosen(monkeypatch, HOME=str(home), XDG_CACHE_HOME="relative") == (
        home / ".cache" / "doorward"
    )
    assert chosen(monkeypatch, DOORWARD_CACHE_DIR="/x/y") == Path("/x/y")
    assert chosen(monkeypatch, DOORWARD_CACHE_DIR="") is None
    assert chosen(monkeypatch, HOME=str(tmp_path / "none" / "none")) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_home_of_somebody_else_gets_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.chown(tmp_path, 65534, 65534)
    assert chosen(monkeypatch, HOME=str(tmp_path)) is None
