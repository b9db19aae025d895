"""The two filters that are compared have the same conditions, or the benchmark fails.

The library of OPA is a runtime of its own with its own signals, so it is loaded in another process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.waiting import PATIENCE

from benchmarks.filters_against_opa import POLICIES, SIZES

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def test_both_make_a_filter_of_the_same_conditions() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.filters_against_opa", "--rounds", "1"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[1:]
    assert len(rows) == len(POLICIES) * len(SIZES)
    assert all(float(row.split()[-2]) > 0 for row in rows)
