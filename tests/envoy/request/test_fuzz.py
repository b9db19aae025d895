"""The fuzzers of requests, for some thousand requests that are always the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", ["request.py --requests 3000", "multipart.py --bodies 3000"])
def test_the_fuzzers_find_nothing(script: str) -> None:
    name, *options = script.split()
    done = subprocess.run(
        [sys.executable, f"fuzz/{name}", "--seed", "1", "--seconds", "600", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "3000 " in done.stdout
