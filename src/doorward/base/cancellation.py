"""Work that somebody waits for, and that ends early when nobody does any more.

The side that knows of the client calls `cancel`, from any thread. The thread that works looks at
`is_stopped()` where it looks at the clock. Nothing here knows what the work is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["Cancellation", "is_stopped"]


class _Work(threading.local):
    """The work of each thread."""

    is_stopped = False


_WORK: Final = _Work()
_LOCK: Final = threading.Lock()
"""Of all cancellations: a thread must not be stopped when it has gone on to other work."""


def is_stopped() -> bool:
    """Return True if nobody waits for what this thread works on."""
    return _WORK.is_stopped


class Cancellation:
    """Return True if the client of some work has left."""

    __slots__ = ("_thread", "is_cancelled")

    def __init__(self) -> None:
        self.is_cancelled = False
        self._thread: dict[str, Any] | None = None
        """The attributes of the `_WORK` of the thread that works."""

    def cancel(self) -> None:
        """Stop the work soon if it runs, or prevent its start."""
        with _LOCK:
            self.is_cancelled = True
            if self._thread is not None:
                self._thread["is_stopped"] = True

    @contextmanager
    def working(self) -> Iterator[None]:
        """Context manager around the work, in its thread; `cancel` interrupts it."""
        with _LOCK:
            self._thread = vars(_WORK)
            self._thread["is_stopped"] = self.is_cancelled
        try:
            yield
        finally:
            with _LOCK:
                self._thread["is_stopped"] = False
                self._thread = None
