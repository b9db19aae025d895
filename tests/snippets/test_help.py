"""Every example of every `--help` runs in a clean folder, or is counted as one that cannot."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from tests.snippets.test_snippets import SERVERS, environment, ran, served

from doorward.cli.main import cli, run

HELP: dict[str, Any] = tomllib.loads((Path(__file__).parent / "help.toml").read_text())
NOT_RUN: dict[str, str] = HELP["not_run"]
_EXAMPLES = re.compile(r"^ *Examples?[^\n]*:\n((?:    .*\n?)+)", re.MULTILINE)

_FOR_A_SHELL = re.compile(r"[|<>$]|^doorward bench")
"""Also what measures, and would count what the tests hold."""


def commands(
    command: click.Command, context: click.Context, name: str
) -> Iterator[tuple[str, str]]:
    """Each command with its help."""
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            below = command.get_command(context, inner)
            assert below is not None
            child = click.Context(below, parent=context, info_name=inner)
            yield from commands(below, child, f"{name} {inner}")


def examples(text: str) -> list[str]:
    """The examples of a help, each on one line and without what is said of it."""
    shown = _EXAMPLES.search(text)
    lines = shown[1].replace("\\\n", " ").splitlines() if shown else []
    return [re.sub(r"  +# .*", "", line).strip() for line in lines]


ALL = {
    name: examples(text)
    for name, text in commands(cli, click.Context(cli, info_name="doorward"), "doorward")
}


def test_what_is_not_run_is_an_example_with_a_reason() -> None:
    every = {each for shown in ALL.values() for each in shown}
    assert set(NOT_RUN) <= every
    assert all(NOT_RUN.values())
    assert set(HELP["instead"]) <= {
        part for each in every for part in HELP["instead"] if part in each
    }


def test_commands_without_examples_are_counted() -> None:
    assert [name for name, shown in ALL.items() if not shown] == HELP["without"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples find."""
    folder = tmp_path_factory.mktemp("help")
    for file, content in HELP["files"].items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content.removeprefix("\n"))
    before = ["bash", "-ec", HELP["before"]]
    subprocess.run(before, cwd=folder, env=environment(forks=True), check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", [name for name, shown in ALL.items() if shown])
def test_the_examples_of_a_command_run_in_a_clean_folder(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for example in ALL[name]:
        if example not in NOT_RUN:
            for old, new in HELP["instead"].items():
                example = example.replace(old, new)
            if example.startswith(SERVERS):
                served(example, tmp_path)
            elif _FOR_A_SHELL.search(example):
                ran(example, tmp_path)
            else:
                assert run(shlex.split(example)[1:]) == 0, example
