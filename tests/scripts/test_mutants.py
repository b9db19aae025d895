"""Faults are put into functions, and a test that misses one is told from a test that notices it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import mutants
from scripts.mutants import KILLED, SURVIVED, draw_faults
from tests.waiting import PATIENCE

SOURCE = '''
LIMIT = 3


def is_small(number):
    """How small?"""
    return number < LIMIT


class Door:
    @property
    def is_open(self):
        if self.closed:
            return False
        return True

    def pass_through(self, times=1):
        if times > 0:
            times -= 1


def never_called(value: int = 7):
    raise ValueError(f"text {1 + 1}")
'''

TESTS = """
import doors


def test_small():
    assert doors.is_small(2) and not doors.is_small(3)


def test_door():
    door = doors.Door()
    door.closed = False
    assert door.is_open
    door.pass_through()
"""

FREEZING = """
import gc


def pytest_collection_finish(session):
    gc.freeze()
"""


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "doors.py").write_text(SOURCE)
    (tmp_path / "test_doors.py").write_text(TESTS)
    # As the tests of the project do, whose objects are a gigabyte.
    (tmp_path / "conftest.py").write_text(FREEZING)
    (tmp_path / "mutants.toml").write_text(
        f'[doors]\nmodules = ["doors"]\ntests = ["{tmp_path}/test_doors.py"]\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("doors", None)


def test_faults_stand_in_bodies_of_functions_only(doors: Path) -> None:
    faults = draw_faults(["doors"], 100)
    assert {(fault.before, fault.after) for fault in faults} >= {
        ("number < LIMIT", "number <= LIMIT"),
        ("True", "False"),
        ("times > 0", "times >= 0"),
    }
    # No constant of the module, no default, no docstring, no text of an error.
    lines = {fault.line for fault in faults}
    assert lines == {7, 13, 14, 15, 18, 19, 23}
    assert draw_faults(["doors"], 3) == faults[:3]


def test_faults_that_no_test_notices_are_reported(doors: Path) -> None:
    # A process of its own: faults are put into forks of it.
    script = f"""
import json, sys
sys.path[:0] = [{str(doors)!r}, {str(mutants.ROOT)!r}]
from pathlib import Path
from scripts import mutants
mutants.TABLE = Path({str(doors / "mutants.toml")!r})
print(json.dumps(mutants.run_room("doors", 100, 3600)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    answer = json.loads(done.stdout)
    assert answer["problem"] == ""
    outcomes = {(each["line"], each["after"]): each["outcome"] for each in answer["results"]}
    assert outcomes[7, "number <= LIMIT"] == KILLED
    assert outcomes[15, "False"] == KILLED
    assert outcomes[14, "True"] == SURVIVED  # No test has a closed door.
    assert outcomes[23, "pass"] == SURVIVED  # Nobody calls it.
