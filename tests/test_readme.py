"""What the README shows works as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
POLICY = """package envoy.authz

allow if input.user == "ann"
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    shown = [line for line in lines if line.startswith("doorward ")]
    # What serves, or changes the machine, has tests of its own.
    return [line for line in shown if line.split()[1] not in {"run", "docker"}]


@pytest.mark.parametrize("block", blocks("python"))
def test_the_python_in_the_readme_runs(block: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", commands())
def test_the_commands_in_the_readme_run(command: str, tmp_path: Path) -> None:
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "input.json").write_text('{"user": "ann"}')
    (tmp_path / "check.json").write_text('{"attributes": {}}')
    (tmp_path / "old.rego").write_text(POLICY.replace("ann", "bob"))
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/policy_test.rego").write_text("package t\n\ntest_it if true\n")
    words = shlex.split(command.split(">")[0], comments=True)
    program = str(Path(sys.executable).parent / words[0])
    done = subprocess.run(
        [program, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout or words[1] in {"check", "fmt"}
