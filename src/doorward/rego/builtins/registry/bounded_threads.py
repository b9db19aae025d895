"""Calls that cannot be interrupted, in threads of their own: the caller waits until a time.

What a call waits for (a resolver, a server) may never come. Its thread then stays, so there is a
limit for the threads of one kind, and each gives back its slot when it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import BoundedSemaphore, Thread
from typing import Generic, TypeVar

from doorward.rego.builtins.registry.foreign import ForeignError, foreign_code
from doorward.rego.errors import EvaluationAborted

__all__ = ["BoundedThreads"]

T = TypeVar("T")


class BoundedThreads:
    """Threads for the calls of the built-in `name`, at most `most` at a time; thread-safe."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._slots = BoundedSemaphore(most)

    def call(self, function: Callable[[], T], end: float) -> T:
        """Call the function in a thread and return its result. TimeoutError if it has none at `end`
        (monotonic seconds), the wait for a slot included; the thread may then still run.
        EvaluationAborted if the function raises or no thread can be started: the evaluation must
        not continue without an answer.
        """
        if not self._slots.acquire(timeout=max(end - time.monotonic(), 0)):
            raise TimeoutError
        call = _Call(self.name, function, self._slots)
        try:
            call.start()
        except (RuntimeError, MemoryError) as error:
            self._slots.release()  # by the thread, if it had begun
            raise EvaluationAborted(f"{self.name}: no thread can be started") from error
        call.join(max(end - time.monotonic(), 0))
        if call.fault is not None:
            kind = type(call.fault).__name__
            raise EvaluationAborted(f"{self.name}: the call raised {kind}") from call.fault
        if not call.results:
            raise TimeoutError
        return call.results[0]


class _Call(Thread, Generic[T]):
    """One call in progress; `results` has one item, or `fault` is set, when it has ended."""

    def __init__(self, name: str, function: Callable[[], T], slots: BoundedSemaphore) -> None:
        super().__init__(name=name, daemon=True)
        self.function = function
        self.slots = slots
        self.results: list[T] = []
        self.fault: BaseException | None = None

    def run(self) -> None:
        """Call the function in this thread; its result is appended to `results`, or its exception
        stored in `fault`. The slot is free at the end.
        """
        try:
            with foreign_code():
                self.results.append(self.function())
        except ForeignError as error:
            self.fault = error.__cause__
        finally:
            self.slots.release()
