"""Tests in several processes have the outcomes that they have in one, and one that dies fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent
MANY = """
import os
import pytest

@pytest.fixture(scope="module")
def once():
    print("once", __name__, os.getpid())
    yield os.getpid()
    print("over", __name__)

@pytest.mark.parametrize("n", range(20))
def test_many(once, n, tmp_path):
    assert once == os.getpid()
    assert not list(tmp_path.iterdir())
    (tmp_path / "x").touch()
    print("said", n)
    assert n != {wrong}

def test_skipped():
    pytest.skip("no such thing")

@pytest.mark.xfail(reason="known")
def test_known():
    assert False

@pytest.fixture
def broken():
    raise ValueError("is broken")

def test_error(broken):
    pass

@pytest.fixture
def unclean():
    yield
    raise ValueError("does not end")

def test_unclean(unclean):
    pass

def test_warning():
    import warnings
    warnings.warn("beware of {wrong}")
"""


def start(folder: Path, files: dict[str, str], *options: str) -> subprocess.Popen[str]:
    for name, text in files.items():
        path = folder / "checks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "--disable-plugin-autoload", "-p", "tests.processes"]
    return subprocess.Popen(
        [*command, "-p", "no:cacheprovider", "--basetemp", str(folder / "t"), *options, "checks"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, files: dict[str, str], *options: str) -> tuple[int, str]:
    with start(folder, files, *options) as process:
        text = process.communicate(timeout=PATIENCE)[0]
        return process.returncode, text


def essence(text: str) -> list[str]:
    """What a run says, whatever the order of its tests."""
    text = re.sub(r" in [0-9.]+s|once \S+ \d+", "", text)
    lines = [line.strip("=_ ") for line in text.splitlines() if "%]" not in line]
    return sorted(filter(None, lines))


def test_a_run_says_what_one_process_says(tmp_path: Path) -> None:
    files = {f"test_{name}.py": MANY.format(wrong=name) for name in (3, 5, 7)}
    _, alone = run(tmp_path, files, "-rA", "--tb=short")
    code, together = run(tmp_path, files, "-rA", "--tb=short", "--processes", "2")
    assert code == 1
    assert essence(together) == essence(alone)
    assert "3 failed, 63 passed, 3 skipped, 3 xfailed, 3 warnings, 6 errors" in together


def test_each_process_ends_what_it_began(tmp_path: Path) -> None:
    conftest = """
import atexit, os, pathlib, pytest

@pytest.fixture(scope="session", autouse=True)
def session():
    pathlib.Path(f"begun-{os.getpid()}").touch()
    atexit.register(pathlib.Path(f"exited-{os.getpid()}").touch)
    yield
    pathlib.Path(f"ended-{os.getpid()}").touch()
"""
    test = "def test(): pass"
    files = {"conftest.py": conftest, "test_a.py": test, "test_b.py": test, "test_c.py": test}
    code, text = run(tmp_path, files, "--processes", "3")
    assert code == 0, text
    names = {state: {*tmp_path.glob(f"{state}-*")} for state in ("begun", "ended", "exited")}
    assert 1 <= len(names["begun"]) <= 3
    assert len({len(each) for each in names.values()}) == 1


def test_a_test_whose_process_dies_has_failed_and_others_run(tmp_path: Path) -> None:
    dies = """
import os, signal
def test_before(): pass
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_behind(): pass
"""
    files = {"test_dies.py": dies, "test_other.py": "def test(): pass"}
    code, text = run(tmp_path, files, "--processes", "1")
    assert code == 1
    assert "FAILED checks/test_dies.py::test_dies - the process of the test ended with -9" in text
    assert "1 failed, 3 passed" in text


def test_no_test_begins_behind_one_that_fails_where_that_is_asked(tmp_path: Path) -> None:
    test = "import pytest\n@pytest.mark.parametrize('n', range(99))\ndef test(n): assert n != 7\n"
    code, text = run(tmp_path, {"test_a.py": test}, "-x", "--processes", "1")
    assert code == 1
    assert "1 failed, 7 passed" in text
    assert "stopping after 1 failures" in text


def test_an_end_that_pytest_does_not_expect_is_a_failure(tmp_path: Path) -> None:
    test = "import pytest\ndef test(): pytest.exit('enough')\n"
    code, text = run(tmp_path, {"test_a.py": test}, "--processes", "1")
    assert code == 1
    assert "Exit: enough" in text
    assert "1 failed" in text


def test_fixtures_end_where_a_run_is_interrupted(tmp_path: Path) -> None:
    test = """
import pathlib, pytest, threading

@pytest.fixture
def lasting():
    yield
    pathlib.Path("ended").touch()

def test(lasting):
    pathlib.Path("begun").touch()
    threading.Event().wait()
"""
    with start(tmp_path, {"test_a.py": test}, "--processes", "1") as process:
        wait_until((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert (tmp_path / "ended").exists()


def test_what_cannot_be_collected_ends_a_run(tmp_path: Path) -> None:
    files = {"test_a.py": "import nothing_of_this_name"}
    code, text = run(tmp_path, files, "--processes", "2")
    assert code == 2
    assert "1 error" in text


def test_no_module_may_start_a_thread(tmp_path: Path) -> None:
    test = """
import threading
threading.Thread(target=threading.Event().wait, name="lasting", daemon=True).start()
def test(): pass
"""
    code, text = run(tmp_path, {"test_a.py": test}, "--processes", "2")
    assert code == 4
    assert "starts a thread: MainThread, lasting" in text
