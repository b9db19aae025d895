"""A forked command prints, reads and ends as a command in a new process does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from tests.forking import command_folder, run_command
from tests.waiting import PATIENCE, wait_until

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


def in_shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{command_folder()}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_commands_of_a_shell_run_at_once_and_see_the_ends_of_their_pipes(tmp_path: Path) -> None:
    many = "doorward eval -f raw 'numbers.range(1, 50000)'"
    done = in_shell(f"{many} | doorward eval -f raw -I 'count(input)'", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "50000\n", "")


def test_a_command_of_a_shell_ends_with_its_code(tmp_path: Path) -> None:
    done = in_shell("doorward nonsense || doorward eval --fail 'input.x'; echo $?", tmp_path)
    assert done.stdout.endswith("1\n")
    assert "unknown command 'nonsense'" in done.stderr


def test_a_command_of_a_shell_imports_from_its_own_folders(tmp_path: Path) -> None:
    text = "from doorward.rego import Registry\n\nregistry = Registry()\n"
    (tmp_path / "mine.py").write_text(text)
    command = "doorward lsp --builtins mine:registry </dev/null"
    assert in_shell(command, tmp_path, PYTHONPATH=str(tmp_path)).returncode == 0
    assert "no module `mine`" in in_shell(command, tmp_path).stderr
    command = "doorward lsp --builtins benchmarks.x:registry </dev/null"
    assert "no module `benchmarks`" in in_shell(command, tmp_path).stderr


def test_a_command_ends_with_its_caller() -> None:
    reader, writer = os.pipe()
    with open(writer, "wb", buffering=0) as pipe:
        command = [str(command_folder() / "doorward"), "eval", "-I", "input"]
        with subprocess.Popen(command, stdin=reader) as process:
            os.close(reader)
            pipe.write(b" ")
            process.terminate()
        wait_until(lambda: is_broken(pipe))


def is_broken(pipe: IO[bytes]) -> bool:
    """Return True if nobody reads it any more."""
    try:
        pipe.write(b" ")
    except BrokenPipeError:
        return True
    return False
