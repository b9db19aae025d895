"""The process that sends requests for the parent, as that sees it.

The parent of these tests is a process of its own: this one has threads, and may not fork.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PARENT = """
import os, signal
from doorward.server.asking import AskingProcess
from tests.waiting import pause, wait_until

asking = AskingProcess()
asking.start()
pid = asking._pid
pause(pid)
real_kill = os.kill
os.kill = lambda pid, number: None  # as the kernel, where a process waits for a disk
asking.close()
os.kill = real_kill
assert os.path.exists(f"/proc/{pid}")
os.kill(pid, signal.SIGKILL)
wait_until(lambda: open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z")
asking.start()
assert not os.path.exists(f"/proc/{pid}")
asking.close()
print("closed")
"""


def test_a_process_that_sigkill_does_not_end_holds_up_nobody_and_is_reaped_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARENT],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("closed\n", "")
