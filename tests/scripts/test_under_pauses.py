"""Processes stop together and go on, and the exit code is that of the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from scripts import under_pauses
from scripts.under_pauses import TIMED_OUT, family, run, state_of
from tests.waiting import PATIENCE, pause, wait_until


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_pauses, "RUNS", (0.01, 0.02))
    monkeypatch.setattr(under_pauses, "PAUSES", (0.01,))


PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"


def test_a_command_ends_as_it_does_by_itself(tmp_path: Path) -> None:
    # It ends after it was stopped three times: a stop that ends counts as a signal.
    program = f"""
import signal, threading
stops = threading.Semaphore(0)
signal.signal(signal.SIGCONT, lambda *_: stops.release())
open({str(tmp_path / "ready")!r}, "w").close()
for _ in range(3):
    stops.acquire()
raise SystemExit(7)
"""
    code, count = run([sys.executable, "-c", program], Random(1), PATIENCE)
    assert code == 7
    assert count >= 3


def test_what_a_command_started_is_stopped_as_well_and_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(1e6)"
    command = [sys.executable, "-c", PARENT, program]
    with subprocess.Popen(command) as parent:
        wait_until(lambda: file.exists() and file.read_text())
        assert [*family(parent.pid)] == [parent.pid, int(file.read_text())]
        child = int(file.read_text())
        pause(child)
        under_pauses.pause(family(parent.pid), 0.0)
        assert state_of(child) == "T"  # a test stopped it, and nobody else lets it go on
        under_pauses.send([parent.pid, child], signal.SIGKILL)
    file.unlink()
    code, _ = run(command, Random(1), 1.0)
    assert code == TIMED_OUT
    if file.exists():
        wait_until(lambda: not os.path.exists(f"/proc/{file.read_text()}"))
