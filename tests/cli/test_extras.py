"""Without its extra, a command says in one line what to install."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.parsing import parsed

from doorward.cli.extras import EXTRAS
from doorward.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = {
    "click": "click",
    "cryptography": "cryptography",
    "google-re2": "re2",
    "httpx": "httpx",
    "PyYAML": "yaml",
    "tzdata": "tzdata",
}
"""The modules of the dependencies that are always there."""

WITHOUT = """
import sys


class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Without())
from doorward.cli.main import main

main()
"""


def without(modules: set[str], *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(modules=modules), *arguments],
        cwd=folder,
        env={**os.environ, "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.rego").write_text("package a\n\np := 1\n\ntest_p if p == 1\n")
    (tmp_path / "check.json").write_text('{"attributes": {}}')
    return tmp_path


def test_every_module_of_an_extra_is_known() -> None:
    assert {re.split(r"[>=]", each)[0] for each in PROJECT["dependencies"]} == set(BASE)
    imported = set()
    for path in (ROOT / "src/doorward").rglob("*.py"):
        # What plugins of pytest and coverage.py import is there when they are asked for.
        if "plugin" in path.stem and path.parent.name == "testing":
            continue
        for node in ast.walk(parsed(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    # Those that `jsonschema` and `httpx` bring.
    brought = {"referencing", "httpcore"}
    known = {*sys.stdlib_module_names, *BASE.values(), *brought, "doorward"}
    assert imported - known == set(EXTRAS)
    assert set(EXTRAS.values()) <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["run", "--server", "p.rego"], "server"),
        (["eval", "--request", "envoy", "-i", "check.json", "input"], "server"),
        (["input", "envoy", "check.json"], "server"),
        (["lsp"], "lsp"),
        (["docker", "doctor"], "docker"),
    ],
)
def test_a_missing_extra_is_one_clear_line(arguments: list[str], extra: str, folder: Path) -> None:
    done = without(set(EXTRAS), *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        rf"Error: `doorward {arguments[0]}` needs the extra `{extra}` \(\w+ is not installed\): "
        rf"pip install 'doorward\[{extra}\]'\n",
        done.stderr,
    )


@pytest.mark.parametrize("name", sorted(cli.list_commands(None)))  # type: ignore[arg-type]  # the names need no context
def test_no_command_shows_a_traceback(name: str, folder: Path) -> None:
    done = without(set(EXTRAS), name, "--help", folder=folder)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or "pip install" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["eval", "1"],
        ["eval", "--metrics", "--profile", "-d", "p.rego", "data.a.p"],
        ["eval", "--why", "-d", "p.rego", "data.a.p"],
        ["check", "p.rego"],
        ["test", "-c", "p.rego"],
        ["deps", "-d", "p.rego", "data.a.p"],
        ["emit", "p.rego"],
        ["fmt", "p.rego"],
        ["parse", "p.rego"],
        ["run", "p.rego"],
        ["capabilities"],
        ["completion", "bash"],
        ["token", "--secret", "s"],
        ["version"],
    ],
    ids=" ".join,
)
def test_what_authors_need_is_there_without_extras(arguments: list[str], folder: Path) -> None:
    done = without(set(EXTRAS), *arguments, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_that_no_extra_brings_is_not_explained_away(folder: Path) -> None:
    done = without({"click"}, "version", folder=folder)
    assert done.returncode == 1
    assert "No module named 'click'" in done.stderr


def test_the_plugin_needs_no_more_than_its_extra(folder: Path) -> None:
    brought = {re.split(r"[>=]", each)[0] for each in PROJECT["optional-dependencies"]["docker"]}
    done = without(set(EXTRAS) - brought, "docker", "--help", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
