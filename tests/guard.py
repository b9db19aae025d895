"""Fails a unit test that reaches beyond its process, with the line that did.

The tier of a test is read from what its module and fixtures name (`tests.tiers`); code under test
can do what its test does not name. So the functions that do it are replaced (`CALLS`): a test of
another tier than `system` that binds or connects a socket, or starts a process, fails. A module
that has to do that says `pytestmark = pytest.mark.system`. The interpreter's audit events would see
code in C as well, but a hook is called for each `id()`: policies took 9 percent longer to compile.

A thread may be started, as each application does, but not left behind: the tests that follow would
share their process with it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from tests.waiting import PATIENCE

__all__ = ["Guard"]

CALLS: Final = (
    (os, "fork"),
    (os, "forkpty"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
    (subprocess.Popen, "_execute_child"),
    (socket.socket, "bind"),
    (socket.socket, "connect"),
    (socket.socket, "connect_ex"),
)
"""The functions through which Python code leaves its process. Not the making of a socket: an event
loop wakes itself through a pair of them. Not threads either, which are counted.
"""
_FRAMES: Final = 12


class Guard:
    """Watches one test after the other, from `watch` to `release`."""

    def __init__(self) -> None:
        self._seen: list[str] | None = None
        self._others: frozenset[int] = frozenset()
        self._threads: frozenset[threading.Thread] | None = None

        for owner, name in CALLS:  # for the life of the process
            event = f"{owner.__name__}.{name}"
            setattr(owner, name, self._noted(getattr(owner, name), event))

    def _noted(self, call: Callable[..., Any], event: str) -> Callable[..., Any]:
        """Return a function that notes the event and then makes the call."""

        @wraps(call)
        def noted(*args: Any, **options: Any) -> Any:
            self._note(event)
            return call(*args, **options)

        return noted

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
