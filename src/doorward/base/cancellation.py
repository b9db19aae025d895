"""Cancellation of work whose client may leave before it is done.

The side that knows the client calls `cancel`, from any thread. The working thread checks
`is_stopped()` when it checks its deadline. The kind of work is not known here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["Cancellation", "is_stopped"]


class _Work(threading.local):
    """The state of each thread: `is_stopped` is True if its present work was cancelled."""

    is_stopped = False


_WORK: Final = _Work()
_LOCK: Final = threading.Lock()
"""Shared by all cancellations: a thread must not be stopped when it has gone on to other work."""


def is_stopped() -> bool:
    """Return True if the work of this thread was cancelled."""
    return _WORK.is_stopped


class Cancellation:
    """The cancellation of one piece of work; `is_cancelled` is True after `cancel`. Safe in any
    number of threads.
    """

    __slots__ = ("_thread", "is_cancelled")

    def __init__(self) -> None:
        self.is_cancelled = False
        self._thread: dict[str, Any] | None = None
        """The attributes of `_WORK` in the working thread; None while nothing runs."""

    def cancel(self) -> None:
        """Let `is_stopped()` return True in the working thread. If the work has not begun, it is
        stopped when it begins.
        """
        with _LOCK:
            self.is_cancelled = True
            if self._thread is not None:
                self._thread["is_stopped"] = True

    @contextmanager
    def working(self) -> Iterator[None]:
        """Context manager that the working thread enters for the time of the work: only inside of
        it does `cancel` make `is_stopped()` return True in this thread.
        """
        with _LOCK:
            self._thread = vars(_WORK)
            self._thread["is_stopped"] = self.is_cancelled
        try:
            yield
        finally:
            with _LOCK:
                self._thread["is_stopped"] = False
                self._thread = None
