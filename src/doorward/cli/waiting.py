"""A sign of life on a terminal while a command works for longer than a second.

with waiting("searching"): …        ⠹ searching, 3 s
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from doorward.edge import Edge, loop_thread

__all__ = ["waiting"]

FIRST: Final = 1.0
"""Seconds before anything is shown."""
EACH: Final = 0.2
_SIGNS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_EDGE: Final = Edge("waiting", "the progress line cannot be drawn; the work goes on")


@contextmanager
def waiting(work: str, stream: TextIO | None = None) -> Iterator[None]:
    """Context manager: after a second show on a terminal what is being done and for how long.

    The line is erased at the end. Nothing is shown if `stream` (standard error by default) is not a
    terminal.
    """
    terminal = sys.stderr if stream is None else stream
    if not terminal.isatty():
        yield
        return
    ended = threading.Event()
    sign = _Sign(work, terminal, ended)
    thread = loop_thread(sign.show, _EDGE, name="sign-of-life", stop=ended)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # Before the line is erased, or the thread could draw it once more.
        thread.join()
        sign.erase()


class _Sign:
    """The line that shows the work and its duration on a terminal."""

    def __init__(self, work: str, terminal: TextIO, ended: threading.Event) -> None:
        self._work = work
        self._terminal = terminal
        self._ended = ended
        self._began = time.monotonic()
        self._number = 0

    def show(self) -> bool:
        """Wait, `FIRST` seconds in the first call and `EACH` in later ones, and draw the line;
        return False, and draw nothing, once the work has ended.
        """
        if self._ended.wait(EACH if self._number else FIRST):
            return False
        sign = _SIGNS[self._number % len(_SIGNS)]
        self._number += 1
        passed = time.monotonic() - self._began
        self._terminal.write(f"\r{sign} {self._work}, {passed:.0f} s\x1b[K")
        self._terminal.flush()
        return True

    def erase(self) -> None:
        """Erase the line if it was drawn."""
        if self._number:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()
