"""A forked command prints, reads and ends as a command in a new process does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forking import run_command
from tests.waiting import PATIENCE

CALLS = (
    ["eval", "-f", "raw", "1 + 1"],
    ["eval", "-f", "raw", "-I", "input.x"],
    ["eval", "-d", "policy.rego", "-f", "raw", "data.a.p"],
    ["eval", "1 + 1"],
    ["eval", "x"],
    ["envoy", "redirect", "--help"],
    ["nonsense"],
)


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
def test_it_is_the_same_as_in_a_new_process(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "policy.rego").write_text("package a\n\np := 1\n")
    environment = {**os.environ, "DOORWARD_EVAL_FORMAT": "json"}
    new = subprocess.run(
        [sys.executable, "-m", "doorward", *arguments],
        cwd=tmp_path,
        env=environment,
        input='{"x": "ä"}',
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    forked = run_command(arguments, folder=tmp_path, environment=environment, input='{"x": "ä"}')
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        new.returncode,
        new.stdout,
        new.stderr,
    )


def test_no_command_sees_what_another_one_left(tmp_path: Path) -> None:
    environment = {**os.environ, "DOORWARD_EVAL_FORMAT": "raw"}
    assert run_command(["eval", "1 + 1"], environment=environment).stdout == "2\n"
    assert run_command(["eval", "1 + 1"]).stdout.startswith("{")
    (tmp_path / "policy.rego").write_text("package a\n\np := 1\n")
    call = ["eval", "-f", "raw", "-d", "policy.rego", "data.a.p"]
    assert run_command(call, folder=tmp_path).stdout == "1\n"
    assert run_command(call).returncode != 0
