"""Work that blocks, in threads: so many at a time, and known to be stuck when none of it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from doorward.base.cancellation import Cancellation
from doorward.edge import Part

__all__ = ["CURRENT", "AbandonedError", "Workers"]

STUCK_AFTER: Final = 60.0
"""Workers count as stuck after this many seconds plus four evaluation deadlines in which no request
ends."""

CURRENT: Final[ContextVar[Cancellation | None]] = ContextVar("cancellation", default=None)
"""The cancellation of the request that the current task answers; None if it cannot be cancelled."""


class AbandonedError(Exception):
    """The client left before its request was worked on."""


P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Threads for one kind of blocking work, so that other kinds need not wait for it."""

    def __init__(self, name: str, threads: int, *, deadline: float, stops: bool = True) -> None:
        """Prepare worker threads; `threads` limits the calls that run at once. `deadline`: the
        seconds of an evaluation; the threads count as stuck only long after them. `stops`: work is
        cancelled when its client leaves.
        """
        self._stops = stops
        self.part = Part(name, within=STUCK_AFTER + 4 * deadline)
        self._threads = threads
        self._limiter: RunVar[CapacityLimiter] = RunVar(name)
        self._running = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a worker thread, waiting for a free one, and return its result.

        Raise what `work` raises, and AbandonedError if the client left before the work began. If
        the client leaves later, the work is told to stop, unless `stops` is False.
        """
        # The time without an end counts from this call: before it nothing ran.
        if not self._running:
            self.part.beat()
        self._running += 1
        cancellation = CURRENT.get() if self._stops else None

        def run() -> T:
            """Run the work, unless the client has gone: then raise `AbandonedError`."""
            if cancellation is None:
                return work(*args, **kwargs)
            # Its thread came free after the client had left: the work would be for nobody.
            if cancellation.is_cancelled:
                raise AbandonedError
            with cancellation.working():
                return work(*args, **kwargs)

        try:
            return await to_thread.run_sync(run, limiter=self._limiter_of_loop())
        finally:
            self._running -= 1
            if self._running:
                self.part.beat()
            else:
                self.part.rest()

    def _limiter_of_loop(self) -> CapacityLimiter:
        """Return the limiter of the current event loop, created on first use."""
        limiter = self._limiter.get(None)
        if limiter is None:
            # A limiter of anyio belongs to one event loop.
            limiter = CapacityLimiter(self._threads)
            self._limiter.set(limiter)
        return limiter
