"""The process that sends requests for the parent, as that sees it.

The parent of these tests is a process of its own: this one has threads, and may not fork.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from errno import EMFILE
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socketpair
from types import SimpleNamespace
from typing import NoReturn

import pytest
from tests.waiting import PATIENCE

from doorward.config.services import Service
from doorward.control.answers import ServiceError
from doorward.control.rounds import Ask
from doorward.server.asking import _answer, _receive

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


class Refused:
    """A client whose service does not answer."""

    service = Service("s", "http://s")

    def request(self, method: str, path: str, **_more: object) -> NoReturn:
        raise ServiceError(f"{method} {path}: refused")


@pytest.mark.parametrize("function", ["memfd_create", "write"])
def test_an_outcome_that_cannot_be_sent_ends_the_process(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> NoReturn:
        raise OSError(EMFILE, "too many")

    parent, end = socketpair(AF_UNIX, SOCK_SEQPACKET)
    with parent, end:
        monkeypatch.setattr(os, function, fail)
        clients = SimpleNamespace(of=lambda _service: Refused())
        _answer(clients, end, threading.Lock(), 1, Ask(Refused(), "p"))  # type: ignore[arg-type]  # all that it uses
        monkeypatch.undo()
        parent.settimeout(PATIENCE)
        assert _receive(parent) == b""
        assert _receive(end) == b""


def test_a_message_whose_descriptor_does_not_arrive_is_an_error() -> None:
    one, other = socketpair(AF_UNIX, SOCK_SEQPACKET)
    with one, other:
        one.send(b".")
        with pytest.raises(OSError, match="Too many open files"):
            _receive(other)
