"""Commands end at the time that they are given, whatever multiplies."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from doorward.cli import eval, exec, test

BOUND: Final = 3.0 if sys.gettrace() is None else 30.0
"""Seconds of CPU time, of which most is to load what a command needs."""
COMMANDS: Final = {"eval": eval.command, "exec": exec.command, "test": test.command}
ROWS: Final = "some x in numbers.range(1, 4000000); some y in numbers.range(1, 4000000)"
SHARED: Final = "\n".join([f"d{n} := [{', '.join([f'd{n - 1}'] * 8)}]" for n in range(1, 20)])
POLICY: Final = f"package p\n\nd0 := [1, 1]\n\n{SHARED}\n\nslow if {{ {ROWS}; x + y < 0 }}\n"
TESTS: Final = "package p_test\n\ntest_slow if data.p.slow\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["eval", "--timeout", "50ms", ROWS],
        ["eval", "--timeout", "50ms", "--format", "pretty", f"{ROWS}; x == -y"],
        ["eval", "--timeout", "50ms", "-d", "p.rego", "data.p.d19"],
        ["eval", "--timeout", "50ms", "-d", "p.rego", "--format", "pretty", "x := data.p.d19"],
        ["eval", "--timeout", "50ms", "-d", "p.rego", "--format", "raw", "data.p.d19"],
        ["eval", "--timeout", "50ms", "-d", "p.rego", "--explain", "full", "data.p.slow"],
        ["eval", "--timeout", "50ms", "-d", "p.rego", "--coverage", "data.p.slow"],
        ["eval", "--timeout", "50ms", "-d", "p.rego", "--profile", "data.p.slow"],
        ["eval", "--timeout", "50ms", "-d", "p.rego", "--partial", f"{ROWS}; input.x == y"],
        ["exec", "--timeout", "50ms", "-b", ".", "--decision", "p/slow", "input.json"],
        ["exec", "--timeout", "50ms", "-b", ".", "--decision", "p/d19", "input.json"],
        ["test", "--timeout", "50ms", "p.rego", "p_test.rego"],
    ],
    ids=lambda arguments: " ".join(arguments)[:70],
)
def test_a_command_ends_at_its_timeout(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"p.rego": POLICY, "p_test.rego": TESTS, "input.json": "{}"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    began = time.process_time()
    result = CliRunner().invoke(COMMANDS[arguments[0]], arguments[1:], standalone_mode=False)
    assert time.process_time() - began < BOUND
    # As in OPA, `exec` reports an input that takes too long in its place, and goes on.
    assert result.return_value != 0 or arguments[0] == "exec"
    words = "cancelled", "deadline exceeded", "timeout", "too long"
    assert any(word in result.output for word in words), result.output
