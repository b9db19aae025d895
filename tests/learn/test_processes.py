"""The number of processes does not change a file, and a Ray cluster gives the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.learn.logs import line, text_of


def learn(log: Path, out: Path, *more: str) -> dict[str, str]:
    command = [sys.executable, "-m", "doorward", "learn", str(log), "-o", str(out), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_text() for path in out.iterdir()}


def test_one_process_several_and_a_cluster_write_the_same_files(tmp_path: Path) -> None:
    lines = [line(f"u{n % 9}", f"/papers/{n}", number=n) for n in range(9_000)]
    log = tmp_path / "log.jsonl"
    log.write_text(text_of(lines))
    assert log.stat().st_size > 1 << 20  # more than a chunk
    one = learn(log, tmp_path / "one", "--parallel", "1")
    assert learn(log, tmp_path / "two", "--parallel", "2") == one
    assert learn(log, tmp_path / "ray", "--ray", "local", "--parallel", "1") == one
