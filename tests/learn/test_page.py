"""docs/learn.md is followed from nothing: each command runs, and prints what the page shows."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.ports import free_port
from tests.waiting import PATIENCE

PAGE = Path(__file__).parents[2] / "docs/learn.md"
BIN = Path(sys.executable).parent


def test_the_page_is_followed_from_nothing(tmp_path: Path) -> None:
    text = PAGE.read_text().partition("## From nothing")[2]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    script = "set -e\n" + "\n".join([block for language, block in blocks if language == "sh"])
    script = script.replace("127.0.0.1:28181", f"127.0.0.1:{free_port()}")
    # On a busy machine the candidate may have no time for a decision before it is dropped.
    wait = f"echo '  max_age_seconds: {PATIENCE:.0f}' >> doorward.yaml\n"
    script = script.replace("> doorward.yaml\n", f"> doorward.yaml\n{wait}")
    assert wait in script
    code, out, err = run(script, tmp_path)
    assert code == 0, f"{out}{err}"
    shown = [block for language, block in blocks if not language]
    assert len(shown) == 7
    for block in shown:
        for line in block.splitlines():
            assert line in out, f"{line}\n{out}{err}"
    counterexamples = [line for line in out.splitlines() if "counterexample" in line]
    assert not counterexamples


def run(script: str, folder: Path) -> tuple[int, str, str]:
    """The exit code of a script and what it prints; what it started ends with it."""
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            out, err = process.communicate(timeout=PATIENCE * 3)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err
