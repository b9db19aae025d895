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

__all__ = ["waiting"]

FIRST: Final = 1.0
"""Seconds before anything is displayed."""
EACH: Final = 0.2
_SIGNS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@contextmanager
def waiting(work: str, stream: TextIO | None = None) -> Iterator[None]:
    """Say on a terminal, at standard error, what is done and for how long; erased at the end."""
    terminal = sys.stderr if stream is None else stream
    if not terminal.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(work, terminal, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(work: str, terminal: TextIO, ended: threading.Event) -> None:
    began = time.monotonic()
    if ended.wait(FIRST):
        return
    number = 0
    while not ended.is_set():
        passed = time.monotonic() - began
        terminal.write(f"\r{_SIGNS[number % len(_SIGNS)]} {work}, {passed:.0f} s\x1b[K")
        terminal.flush()
        number += 1
        ended.wait(EACH)
    terminal.write("\r\x1b[K")
    terminal.flush()
