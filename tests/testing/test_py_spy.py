"""py-spy, which looks at a running process from outside, sees rules under their names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

POLICY = """\
package authz

allow if {
	some n in numbers.range(1, 100)
	slow(n) == input.x
}

slow(n) := count([m | some m in numbers.range(1, 400); m * n > 3])
"""
PROGRAM = """\
import time
from doorward.rego import Engine

query = Engine({"policy.rego": open("policy.rego").read()}).prepare("data.authz.allow")
while time.process_time() < 2:  # of the processor: it may have little of it
    query.value({"x": -1})
"""


def spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.is_file() else shutil.which("py-spy")
    if program is None:
        pytest.skip("py-spy is not installed")
    return program


def test_a_rule_is_seen_under_its_name_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [spy(), "record", "--rate=50", "--format=raw", "--output=seen.txt"]
    done = subprocess.run(
        [*command, "--", sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    said = done.stdout + done.stderr
    if "ermission" in said or "Operation not permitted" in said:
        pytest.skip("this system lets no process look at another one")
    seen = (tmp_path / "seen.txt").read_text()
    assert "data.authz.allow (policy.rego:5);data.authz.slow (policy.rego:8)" in seen, said
