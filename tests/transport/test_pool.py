"""A pool counts each call down once, whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from threading import Event

from tests.waiting import PATIENCE, wait_until

from doorward.base.cancellation import Cancellation
from doorward.transport.pool import Pool
from doorward.transport.slow_calls import History


def fail() -> str:
    raise ValueError


async def run(work: Callable[[], str], cancellation: Cancellation) -> tuple[list[str], int]:
    """The results that a pool delivers, and its calls when it has none left."""
    pool = Pool(asyncio.get_running_loop(), 1, name="test", most=1)
    results: list[str] = []
    ended: list[int] = []
    on_end = partial(ended.append, 1)
    assert pool.submit(work, results.append, cancellation, History(), on_end)
    assert not pool.submit(work, results.append, Cancellation(), History())
    await asyncio.to_thread(wait_until, lambda: not pool.queued)
    pool.close()
    assert ended == [1]
    return results, pool.queued


def test_the_result_is_delivered() -> None:
    assert asyncio.run(run(lambda: "done", Cancellation())) == (["done"], 0)


def test_a_call_that_raises_is_counted_down() -> None:
    assert asyncio.run(run(fail, Cancellation())) == ([], 0)


def test_a_cancelled_call_is_counted_down() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    assert asyncio.run(run(lambda: "done", cancellation)) == ([], 0)


async def close_while_one_runs() -> tuple[list[str], int, bool]:
    """The results of a pool that is closed while one call runs and another waits, its calls
    afterwards, and whether it takes another one."""
    pool = Pool(asyncio.get_running_loop(), 1, name="test")
    begun, may_end = Event(), Event()
    results: list[str] = []

    def run_until_told() -> str:
        begun.set()
        may_end.wait(PATIENCE)
        return "done"

    assert pool.submit(run_until_told, results.append, Cancellation(), History())
    ended: list[int] = []
    on_end = partial(ended.append, 1)
    assert pool.submit(lambda: "waited", results.append, Cancellation(), History(), on_end)
    await asyncio.to_thread(begun.wait, PATIENCE)
    pool.close()
    is_taken = pool.submit(lambda: "late", results.append, Cancellation(), History())
    may_end.set()
    await asyncio.to_thread(wait_until, lambda: not pool.queued)
    assert ended == [1]
    return results, pool.queued, is_taken


def test_a_closed_pool_drops_what_waits_and_takes_nothing() -> None:
    assert asyncio.run(close_while_one_runs()) == (["done"], 0, False)
