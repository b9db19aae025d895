"""Where a method runs: on the loop, or, while it is known to be slow, in a few threads.

A slow method on the loop delays every other connection. So each inline call is timed, and while the
moving average is above `SLOW` seconds, calls go to a small pool. They are timed there too, so that
a policy that becomes fast again returns to the loop. docs/design.md has the figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, thread_time
from typing import Final

from doorward.transport.grpc.methods import Method, call_method
from doorward.transport.grpc.status import GrpcError, Status

__all__ = ["AdaptiveRunner"]

SLOW: Final = 0.001
"""Seconds from which on a method is slow."""
FAST: Final = 0.0005
"""Seconds below which it is fast again: two thresholds, so that it does not alternate."""
WEIGHT: Final = 1 / 16
"""Weight of the newest call in the average."""
MAX_QUEUED: Final = 1_024
"""Calls that run or wait in the pool; further ones are refused with RESOURCE_EXHAUSTED."""


class AdaptiveRunner:
    """Runs methods for one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="check")
        self._average = 0.0
        self._is_slow = False
        self._queued = 0

    @property
    def queued(self) -> int:
        """Calls in the pool."""
        return self._queued

    def run(
        self,
        method: Method,
        message: bytes,
        done: Callable[[bytes | GrpcError], None],
        is_wanted: Callable[[], bool],
    ) -> bytes | GrpcError | None:
        """The answer of a fast method; None for a slow one, whose answer `done` gets."""
        if not self._is_slow:
            started = perf_counter()
            answer = call_method(method, message)
            self._note(perf_counter() - started)
            return answer
        if self._queued >= MAX_QUEUED:
            return GrpcError(Status.RESOURCE_EXHAUSTED, "too many calls wait")
        self._queued += 1
        self._pool.submit(self._run, method, message, done, is_wanted)
        return None

    def _run(
        self,
        method: Method,
        message: bytes,
        done: Callable[[bytes | GrpcError], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        """In a thread of the pool."""
        answer: bytes | GrpcError = b""
        elapsed: float | None = None
        if is_wanted():
            started = thread_time()
            answer = call_method(method, message)
            elapsed = thread_time() - started
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish, answer, elapsed, done)

    def _finish(
        self,
        answer: bytes | GrpcError,
        elapsed: float | None,
        done: Callable[[bytes | GrpcError], None],
    ) -> None:
        self._queued -= 1
        if elapsed is not None:
            self._note(elapsed)
            done(answer)

    def _note(self, elapsed: float) -> None:
        average = self._average = self._average + (elapsed - self._average) * WEIGHT
        self._is_slow = average > (FAST if self._is_slow else SLOW)

    def close(self) -> None:
        """Drop the calls that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)
