"""How the time of a call grows with its argument, whatever else runs on the machine.

Time is the processor's, of this thread, and the least of some runs. Noise can only make a linear
call look bad, so one good answer is enough.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["cost", "grows", "slowness"]

T = TypeVar("T")

TOO_FAST: Final = 64.0
"""For an argument 16 times as long: linear is 16 times the time, quadratic 256 times.

What is linear may take 30 times as long on a busy machine, whose caches hold the short one alone.
"""
TRIES: Final = 5


def cost(call: Callable[[T], object], argument: T, *, runs: int = 1) -> float:
    """Seconds of the processor's time, of the fastest of some runs.

    Nothing is collected meanwhile: that takes as long as all tests before have left objects.
    """
    least = float("inf")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(runs):
            begin = time.thread_time()
            call(argument)
            least = min(least, time.thread_time() - begin)
    finally:
        if was_enabled:
            gc.enable()
    return least


def grows(call: Callable[[T], object], make: Callable[[int], T], length: int) -> bool:
    """Whether time grows far faster than the argument, from a quarter of `length` to four times."""
    short, long = make(max(1, length // 4)), make(4 * length)
    after = float("inf")
    for _ in range(TRIES):
        before, after = cost(call, short, runs=3), min(after, cost(call, long))
        # What takes no time that could be measured has not grown.
        if after < 0.001 or after < TOO_FAST * before:
            return False
    return True


_ROUNDS: Final = 200_000
_USUAL: Final = 0.01
"""Seconds that the rounds take where the bounds of the tests were written."""


def slowness() -> float:
    """How many times slower than there this machine computes now; at least 1.

    For bounds that are a number of seconds by their nature: how late a deadline may be noticed.
    """
    return max(1.0, cost(lambda rounds: [n + 1 for n in range(rounds)], _ROUNDS) / _USUAL)
