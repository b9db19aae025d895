"""A pool of a few threads beside the loop, for calls whose history says that they take long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from doorward.base.cancellation import Cancellation
from doorward.edge import Part
from doorward.transport.slow_calls import History, timed

__all__ = ["Pool"]

MAX_QUEUED: Final = 1_024
"""The largest number of calls that run or wait in a pool; further ones are refused."""

T = TypeVar("T")


class Pool:
    """Threads for the slow calls of one loop. `part` is the pool in `/health`: it is told of each
    call that ends, so that a pool in which none ends any more is reported.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: int,
        *,
        name: str,
        part: Part | None = None,
        most: int | None = None,
    ) -> None:
        """Prepare a pool of `threads` for the loop; `most` limits the calls that run or wait,
        `MAX_QUEUED` by default.
        """
        self._most = MAX_QUEUED if most is None else most
        self._loop = loop
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._part = part
        self._queued = 0
        self._is_closed = False

    @property
    def queued(self) -> int:
        """The number of calls that run or wait."""
        return self._queued

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], object],
        cancellation: Cancellation,
        history: History,
        on_end: Callable[[], object] | None = None,
    ) -> bool:
        """Run `work`, which must not raise (`done` would not be called), in a thread, and pass its
        result to `done` on the loop.

        Return False, and run nothing, if too many calls wait or the pool is closed. A cancelled
        call is skipped, and then `done` is not called. The duration goes into `history`.
        `on_end` is called on the loop once the pool no longer holds the call, whatever became of
        it.
        """
        if self._is_closed or self._queued >= self._most:
            return False
        # The first call ends the rest of the part. Later ones must not beat, or new calls would
        # hide that no queued call ends.
        if self._part is not None and not self._queued:
            self._part.beat()
        self._queued += 1
        end = partial(self._end, on_end)

        def run() -> None:
            """Do the work unless it was cancelled, and schedule its end on the loop."""
            # Also for a cancelled call, and after a fault of `work`.
            finish: Callable[[], object] = end
            try:
                if not cancellation.is_cancelled:
                    with cancellation.working():
                        result, elapsed = timed(work)
                    finish = partial(self._finish, end, result, elapsed, done, history)
            finally:
                # INVARIANT: each call is counted down once, or the pool would fill up with calls
                # that have ended.
                if not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(finish)

        self._threads.submit(run).add_done_callback(partial(self._count_dropped, end))
        return True

    def _count_dropped(self, end: Callable[[], object], call: Future[None]) -> None:
        """Count down a call that `close` dropped; others are counted where they end."""
        if call.cancelled() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(end)

    def _finish(
        self,
        end: Callable[[], object],
        result: T,
        elapsed: float,
        done: Callable[[T], object],
        history: History,
    ) -> None:
        """Call `end`, add `elapsed` to the history of durations, and pass `result` to `done`; runs
        on the loop's thread.
        """
        end()
        history.note(elapsed)
        done(result)

    def _end(self, on_end: Callable[[], object] | None) -> None:
        """Count a call as finished: tell `part`, the pool in `/health`, that the pool works, and
        that it is idle if no call is left; then call `on_end`.
        """
        self._queued -= 1
        if self._part is not None:
            self._part.beat()
            if not self._queued:
                self._part.rest()
        if on_end is not None:
            on_end()

    def close(self) -> None:
        """Drop the calls that wait, without calling their `done`, and refuse further ones; running
        ones are not interrupted.
        """
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
