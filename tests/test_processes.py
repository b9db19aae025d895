"""Several processes run the tests that one has collected, and nothing of what they say is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|xfailed|warnings?|errors?)")
SESSION = """
import os, pytest

@pytest.fixture(scope="session")
def number(tmp_path_factory):
    yield os.getpid()
    print("the session of a process ends", file=open(os.environ["ENDS"], "a"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(SESSION)
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str, dict[str, int]]:
    """The exit code, the output, and the number of tests for each outcome."""
    completed = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--disable-plugin-autoload"),
            *("-p", "tests.processes", "--processes=2", *arguments),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "ENDS": str(folder / "ends")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )
    last = completed.stdout.rstrip().splitlines()[-1]
    counts = {word.rstrip("s"): int(count) for count, word in COUNTED.findall(last)}
    return completed.returncode, completed.stdout, counts


def test_each_outcome_is_reported_with_its_text(folder: Path) -> None:
    (folder / "tests/a/test_a.py").write_text("""
import pytest, warnings

def test_passes(number, tmp_path):
    assert tmp_path.parent.name.startswith("process-")

def test_fails():
    print("what it printed")
    assert 1 + 1 == 3

def test_is_skipped():
    pytest.skip("no reason")

@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail():
    raise ValueError

def test_warns():
    warnings.warn("take care")

@pytest.fixture
def broken():
    yield
    raise ValueError("after the test")

def test_cannot_be_torn_down(broken):
    pass
""")
    (folder / "tests/a/test_b.py").write_text("def test_passes(number, tmp_path): pass")
    code, output, counts = run(folder, "-rs")
    assert code == 1
    expected = {"passed": 4, "failed": 1, "skipped": 1, "xfailed": 1, "warning": 1, "error": 1}
    assert counts == expected, output
    for text in (
        "what it printed",
        "assert (1 + 1) == 3",
        "no reason",
        "take care",
        "after the test",
    ):
        assert text in output


def test_fixtures_of_a_module_end_with_it_and_those_of_the_session_with_the_process(
    folder: Path,
) -> None:
    for name in "abcdef":
        (folder / f"tests/a/test_{name}.py").write_text(f"""
import pytest

@pytest.fixture(scope="module")
def module(number):
    yield
    print("{name}", file=open("modules", "a"))

@pytest.mark.parametrize("n", range(3))
def test(module, n): pass
""")
    code, output, counts = run(folder)
    assert (code, counts) == (0, {"passed": 18}), output
    assert sorted((folder / "modules").read_text().split()) == list("abcdef")
    assert 1 <= len((folder / "ends").read_text().splitlines()) <= 2


def test_a_process_that_ends_early_fails_its_test_and_another_runs_the_rest(folder: Path) -> None:
    (folder / "tests/a/test_a.py").write_text("""
import os, signal

def test_before(): pass
def test_is_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_between(): pass
def test_exits(): os._exit(0)
def test_after(): pass
""")
    code, output, counts = run(folder)
    assert (code, counts) == (1, {"passed": 3, "failed": 2}), output
    assert "ended with signal 9 during this test" in output
    assert "ended with exit code 0 during this test" in output
    assert "test_is_killed" in output


def test_a_session_that_cannot_be_torn_down_is_a_failure(folder: Path) -> None:
    (folder / "tests/a/test_a.py").write_text("""
import pytest

@pytest.fixture(scope="session")
def broken():
    yield
    raise ValueError("the daemon does not end")

def test(broken): pass
""")
    code, output, counts = run(folder)
    assert (code, counts) == (1, {"passed": 1, "error": 1}), output
    assert "the daemon does not end" in output


def test_a_run_ends_after_as_many_failures_as_may_be(folder: Path) -> None:
    (folder / "tests/a/test_a.py").write_text("""
import pytest

@pytest.mark.parametrize("n", range(200))
def test(n): assert n != 1
""")
    code, output, counts = run(folder, "-x")
    assert (code, counts) == (1, {"passed": 1, "failed": 1}), output
