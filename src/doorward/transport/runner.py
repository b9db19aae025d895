"""The runner of gRPC methods: on the loop, or, while it is known to be slow, in the pool.

docs/design.md has the figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from doorward.base.cancellation import Cancellation
from doorward.transport.grpc.messages import Budget
from doorward.transport.grpc.methods import Method, call_method
from doorward.transport.grpc.status import GrpcError, Status
from doorward.transport.pool import Pool
from doorward.transport.slow_calls import History

__all__ = ["AdaptiveRunner"]


class AdaptiveRunner:
    """Runs the gRPC methods of one loop: fast ones on the loop, slow ones in a pool of threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, budget: Budget) -> None:
        """Create a runner with a pool of `threads`; `budget` counts the messages of the calls that
        run or wait in it.
        """
        self._budget = budget
        self._pool = Pool(loop, threads, name="check")
        self._history = History()

    @property
    def queued(self) -> int:
        """The number of calls that run or wait in the pool."""
        return self._pool.queued

    def run(
        self,
        method: Method,
        message: bytes,
        done: Callable[[bytes | GrpcError], None],
        cancellation: Cancellation,
    ) -> bytes | GrpcError | None:
        """Run a fast method at once and return its answer or error. Queue a slow one in the pool
        and return None; `done` gets its answer. Return GrpcError RESOURCE_EXHAUSTED if too many
        calls wait there, or if their messages take too many bytes.
        """
        if not self._history.is_slow:
            begun = self._history.begin()
            answer = call_method(method, message)
            self._history.end(begun)
            return answer
        size = len(message)
        try:
            self._budget.take(size)
        except GrpcError as error:
            return error
        # Given back by the pool alone: a call that was cancelled waits there with its message.
        give_back = partial(self._budget.give, size)
        work = partial(call_method, method, message)
        if self._pool.submit(work, done, cancellation, self._history, give_back):
            return None
        give_back()
        # A full pool must not fall back to the loop: a slow call there delays every connection.
        return GrpcError(Status.RESOURCE_EXHAUSTED, "too many calls wait: try again later")

    def close(self) -> None:
        """Drop the calls that wait."""
        self._pool.close()
