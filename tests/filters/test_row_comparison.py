"""Lists hold what decisions allow: random policies, inputs and rows, through each way in.

`DOORWARD_ROW_COMPARISONS` is the number of policies, by default as many as take half a minute; by
hand for an hour: `python -m tests.filters.row_comparison --seconds 3600 --postgresql URL …`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.waiting import PATIENCE

ROOT: Final = Path(__file__).resolve().parent.parent.parent
POLICIES: Final = int(os.environ.get("DOORWARD_ROW_COMPARISONS", "100"))


def test_lists_hold_the_rows_that_are_allowed_one_by_one(postgresql: str, mariadb: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.filters.row_comparison", "--policies", str(POLICIES),
         "--postgresql", postgresql, "--mariadb", str(mariadb)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, timeout=PATIENCE * 10,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["policies"] == POLICIES
    assert summary["with_filter"] * 2 >= POLICIES
    assert len(summary["by_way"]) == 12
    assert min(summary["by_way"].values()) > POLICIES / 10


def test_hard_values_in_any_connection_are_listed_as_they_are_decided(
    postgresql: str, mariadb: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.filters.hard_comparison", "--policies", str(POLICIES * 3),
         "--postgresql", postgresql, "--mariadb", str(mariadb)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, timeout=PATIENCE * 10,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["lists"] * 2 >= POLICIES * 3
    assert len(summary["by_way"]) == 6
    assert min(summary["by_way"].values()) > POLICIES / 10
