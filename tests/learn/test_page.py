"""docs/learn.md is followed from nothing: each command runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
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
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE * 3,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    shown = [block for language, block in blocks if not language]
    assert len(shown) == 7
    for block in shown:
        for line in block.splitlines():
            assert line in done.stdout, f"{line}\n{done.stdout}{done.stderr}"
    counterexamples = [line for line in done.stdout.splitlines() if "counterexample" in line]
    assert not counterexamples
