"""Lines that somebody outside can cause become one per interval and reason, with a count.

Senders of requests must not be able to fill the log, nor to hide in it what they cause.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Final

__all__ = ["INTERVAL", "RateLimitedLog"]

INTERVAL: Final = 1.0
"""Seconds between two lines about the same reason."""

MAX_REASONS: Final = 1_000


class RateLimitedLog:
    """Says when a line may be written; safe in any number of threads."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._reasons: dict[str, tuple[float, int]] = {}

    def suppressed(self, reason: str) -> int | None:
        """Return how many lines about `reason` were left out since the last; None: this one is,
        too."""
        now = monotonic()
        with self._lock:
            until, hushed = self._reasons.get(reason, (0.0, 0))
            if now < until:
                self._reasons[reason] = (until, hushed + 1)
                return None
            if len(self._reasons) >= MAX_REASONS:
                self._reasons.clear()
            self._reasons[reason] = (now + self._interval, 0)
            return hushed
