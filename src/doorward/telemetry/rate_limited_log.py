"""Log lines that clients can cause are limited to one per interval and reason, with a count of the
others.

Clients must not be able to fill the log, nor to hide other lines in it.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Final

__all__ = ["INTERVAL", "RateLimitedLog"]

INTERVAL: Final = 1.0
"""Seconds between two lines with the same reason."""

MAX_REASONS: Final = 1_000


class RateLimitedLog:
    """Decides if a log line may be written now: one for each reason in an interval. Safe in any
    number of threads.
    """

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._reasons: dict[str, tuple[float, int]] = {}

    def suppressed(self, reason: str) -> int | None:
        """Return None if a line about `reason` must not be written now; else the number of lines
        that were suppressed since the last one. With more than `MAX_REASONS` reasons all of them
        are forgotten.
        """
        now = monotonic()
        with self._lock:
            until, hushed = self._reasons.get(reason, (0.0, 0))
            if now < until:
                self._reasons[reason] = (until, hushed + 1)
                return None
            # Reasons may contain what a client sent: without a limit they would fill the memory.
            if len(self._reasons) >= MAX_REASONS:
                self._reasons.clear()
            self._reasons[reason] = (now + self._interval, 0)
            return hushed
