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
"""Seconds, and four deadlines of an evaluation, in which one of the requests must end."""

CURRENT: Final[ContextVar[Cancellation | None]] = ContextVar("cancellation", default=None)
"""Of the request that the current task answers; None where nobody tells that its client left."""


class AbandonedError(Exception):
    """The client left before its request had a turn."""


P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Threads for one kind of work, so that another kind need not wait for it."""

    def __init__(self, name: str, threads: int, *, deadline: float, stops: bool = True) -> None:
        """`stops`: work ends when its client leaves."""
        self._stops = stops
        self.part = Part(name, within=STUCK_AFTER + 4 * deadline)
        self._threads = threads
        self._limiter: RunVar[CapacityLimiter] = RunVar(name)
        self._running = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on a worker and return its result. To be called from an event loop.

        AbandonedError if the client left before.
        """
        if not self._running:
            self.part.beat()
        self._running += 1
        cancellation = CURRENT.get() if self._stops else None

        def run() -> T:
            """Run the work, unless the client has gone: then raise `AbandonedError`."""
            if cancellation is None:
                return work(*args, **kwargs)
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
        """The limiter of the current event loop, created on first use."""
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(self._threads)
            self._limiter.set(limiter)
        return limiter
