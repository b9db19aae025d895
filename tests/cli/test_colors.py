"""Reports have colors on a terminal, and nowhere else; nothing else of them changes."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.waiting import PATIENCE

from doorward.cli.colors import is_colored, paint
from doorward.cli.waiting import waiting

REPORTS = {
    "errors": "1 error occurred:\np.rego:3:10: rego_unsafe_var_error: var x is unsafe\n"
    " 3 | allow if x > 1\n   |          ^\nhint: assign `x`\n",
    "tests": "p_test.rego:\ndata.t.test_a: FAIL (1ms)\ndata.t.test_b: SKIPPED\n"
    "PASS: 1/3\nFAIL: 1/3\n",
    "properties": "data.a.never_x (p.rego:7): counterexample\n  curl\n"
    "PROPERTIES: 1 counterexample, 2 none exists\n",
    "why": "data.a.allow is false\n  p.rego:3: `input.x` does not hold\nit is true with\n",
    "diff": "1. new-allow: data.a.allow was false, is true\n   `x` holds (p.rego:1)\n   # `x`\n",
}


COLOR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", REPORTS)
def test_color_changes_no_character(kind: str) -> None:
    painted = paint(REPORTS[kind], "tests" if kind == "properties" else kind)
    assert painted != REPORTS[kind]
    assert click.unstyle(painted) == REPORTS[kind]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("it is true with", click.style("it is true with", bold=True)),
        ("data.a.allow is true", f"data.a.allow{click.style(' is true', fg='green')}"),
        ("  `x` does not hold", f"  `x`{click.style(' does not hold', fg='red')}"),
        ("  `x` holds", f"  `x`{click.style(' holds', fg='green')}"),
        ("  input.x = 1", "  input.x = 1"),
    ],
)
def test_outcomes_are_colored_and_the_heading_of_changes_is_bold(line: str, expected: str) -> None:
    assert paint(line, "why") == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_user_turns_colors_off(environment: dict[str, str], expected: bool) -> None:
    assert is_colored(Terminal(), environment) is expected
    assert is_colored(io.StringIO(), environment) is False


def on_terminal(*arguments: str, **environment: str) -> str:
    """What a command writes to a terminal."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "doorward", *arguments]
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables |= {"TERM": "xterm", **environment}
    subprocess.run(
        command, stdout=other, stderr=other, check=False, timeout=PATIENCE, env=variables
    )
    os.close(other)
    written = b""
    try:
        while part := os.read(main, 65_536):
            written += part
    except OSError:
        pass  # the terminal is closed
    os.close(main)
    return written.decode()


@pytest.mark.parametrize("command", ["check", "test", "eval", "diff"])
def test_commands_are_colored_on_a_terminal(command: str, tmp_path: Path) -> None:
    policy = tmp_path / "p_test.rego"
    text = "x > 1" if command == "check" else "input.x"
    policy.write_text(f"package a\n\nallow if {text}\n\ntest_it if allow\n")
    arguments = [command, str(policy)]
    if command == "eval":
        arguments = [command, "-d", str(policy), "--why", "data.a.allow"]
    if command == "diff":
        other = tmp_path / "other.rego"
        other.write_text("package a\n\nallow if not input.x\n")
        arguments = [command, str(policy), str(other), "--query", "data.a.allow"]
    # Of a command that takes long there is a sign of life as well, which has no color.
    assert COLOR.search(on_terminal(*arguments))
    assert not COLOR.search(on_terminal(*arguments, NO_COLOR="1"))


def test_a_sign_of_life_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doorward.cli.waiting.FIRST", 0.0)
    quiet, terminal = io.StringIO(), Terminal()
    with waiting("working", quiet):
        pass
    with waiting("working", terminal):
        while "working, 0 s" not in terminal.getvalue():
            pass
    assert quiet.getvalue() == ""
    assert terminal.getvalue().endswith("\r\x1b[K")
