"""Shell completion, and the hooks for repositories of policies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from doorward.cli.main import cli, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_script_asks_doorward_itself(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"_DOORWARD_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [("doorward che", "check"), ("doorward test --thr", "--threshold")],
)
def test_commands_and_flags_are_completed(words: str, expected: str) -> None:
    question = {
        "_DOORWARD_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from doorward.cli.main import main; main([])"],
        env={**os.environ, **question},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [f"plain,{expected}"]


def test_every_hook_calls_a_command_that_exists() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for hook in hooks:
        program, name, *flags = hook["entry"].split()
        command = cli.get_command(cli.make_context("doorward", [name]), name)
        assert program == "doorward"
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(flags) <= known
