"""Fails a unit test that reaches beyond its process, with the line that did.

The tier of a test is read from what its module and fixtures name (`tests.tiers`); code under test
can do what its test does not name. So the interpreter's own audit events are watched: a test of
another tier than `system` that binds or connects a socket, or starts a process, fails. A module
that has to do that says `pytestmark = pytest.mark.system`.

A thread may be started, as each application does, but not left behind: the tests that follow would
share their process with it.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import Final

from tests.waiting import PATIENCE

__all__ = ["Guard"]

EVENTS: Final = frozenset(
    {
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "socket.bind",
        "socket.connect",
        "subprocess.Popen",
    }
)
"""Not `socket.__new__`: an event loop wakes itself through a pair of sockets. Not threads either,
which Python 3.11 does not report."""
_FRAMES: Final = 12


class Guard:
    """Watches one test after the other, from `watch` to `release`."""

    def __init__(self) -> None:
        self._seen: list[str] | None = None
        self._others: frozenset[int] = frozenset()
        self._threads: frozenset[threading.Thread] | None = None

        # A plain function: each `id()` and each import of a process is an event as well, and a
        # method takes five times as long to say that it is not one of `EVENTS`.
        def note(event: str, _: object, events: frozenset[str] = EVENTS) -> None:
            if event in events:
                self._note(event)

        sys.addaudithook(note)  # for the life of the process: a hook cannot be removed

    def watch(self) -> None:
        """What threads do that an earlier test left behind is not this test's doing."""
        self._others = frozenset(sys._current_frames()) - {threading.get_ident()}
        self._threads = frozenset(threading.enumerate())
        self._seen = []

    def release(self) -> list[str]:
        """Return what the test did beyond its process, each with the lines that led there."""
        seen, self._seen = self._seen or [], None
        return seen

    def left(self, within: float = PATIENCE) -> list[str]:
        """Return the names of the threads that began in the test and go on; those that are about to
        end may do so."""
        before, self._threads = self._threads, None
        if before is None:
            return []
        begun = [each for each in threading.enumerate() if each not in before]
        deadline = time.monotonic() + within
        for thread in begun:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [f"thread {each.name}" for each in begun if each.is_alive()]

    def _note(self, event: str) -> None:
        if self._seen is None or threading.get_ident() in self._others:
            return
        frames = traceback.extract_stack(limit=_FRAMES)[:-2]
        lines = [f"  {frame.filename}:{frame.lineno} {frame.line}" for frame in frames]
        self._seen.append("\n".join([event, *lines]))
