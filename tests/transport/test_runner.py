"""Calls that wait in the pool are counted with their messages, whatever becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event

import pytest
from tests.waiting import PATIENCE, wait_until

from doorward.base.cancellation import Cancellation
from doorward.transport import slow_calls
from doorward.transport.grpc.messages import Budget
from doorward.transport.grpc.status import GrpcError, Status
from doorward.transport.runner import AdaptiveRunner


async def count() -> tuple[list[int], GrpcError | bytes | None, list[bytes | GrpcError]]:
    """The bytes that count while a call runs and a cancelled one waits, and afterwards; the answer
    to a call beyond the budget, and the answers that come later."""
    budget = Budget(100)
    runner = AdaptiveRunner(asyncio.get_running_loop(), 1, budget)
    answers: list[bytes | GrpcError] = []
    begun, may_end = Event(), Event()

    def wait(message: bytes) -> bytes:
        begun.set()
        may_end.wait(PATIENCE)
        return message

    def ask(method: Callable[[bytes], bytes], size: int, cancellation: Cancellation) -> object:
        return runner.run(method, b"x" * size, answers.append, cancellation)

    assert ask(bytes, 90, Cancellation()) == b"x" * 90  # on the loop, where nothing waits
    used = [budget.used]
    assert ask(wait, 10, Cancellation()) is None
    await asyncio.to_thread(begun.wait, PATIENCE)
    waiting = Cancellation()
    assert ask(bytes, 70, waiting) is None
    waiting.cancel()
    used.append(budget.used)
    refused = runner.run(bytes, b"x" * 30, answers.append, Cancellation())
    may_end.set()
    await asyncio.to_thread(wait_until, lambda: not runner.queued)
    runner.close()
    late = runner.run(bytes, b"x", answers.append, Cancellation())
    assert isinstance(late, GrpcError), "the pool is closed"
    return [*used, budget.used], refused, answers


def test_messages_count_until_the_pool_has_dropped_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_calls, "SLOW", 0.0)
    monkeypatch.setattr(slow_calls, "FAST", 0.0)
    monkeypatch.setattr(slow_calls, "_THREAD", None)
    used, refused, answers = asyncio.run(count())
    assert used == [0, 80, 0]
    assert isinstance(refused, GrpcError)
    assert refused.status is Status.RESOURCE_EXHAUSTED
    assert answers == [b"x" * 10]
