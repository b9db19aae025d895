"""How long the calls of one kind took: whether they may run on an event loop, or need a thread.

A slow call on the loop delays every other connection; a thread costs more than a usual call. So
calls are timed, and go to threads while the moving average of their kind is above `SLOW` seconds.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SLOW", "STALL", "History"]

SLOW: Final = 0.001
"""Seconds from which on calls are slow."""
FAST: Final = 0.0005
"""Seconds below which they are fast again: two thresholds, so that they do not alternate."""
WEIGHT: Final = 1 / 16
"""Weight of the newest call in the average."""
STALL: Final = 0.008
LONG: Final = 0.1
"""Seconds of a call that count at most, unless it took longer than `LONG`: where the system gives
the processor to another process, a fast call looks slow."""


class History:
    """How long the calls of one kind took. `assumed`: what nobody has measured yet."""

    __slots__ = ("_average", "is_slow")

    def __init__(self, assumed: float = 0.0) -> None:
        self._average = assumed
        self.is_slow = assumed > FAST

    def note(self, elapsed: float) -> None:
        if STALL < elapsed < LONG:
            elapsed = STALL
        average = self._average = self._average + (elapsed - self._average) * WEIGHT
        self.is_slow = average > (FAST if self.is_slow else SLOW)
