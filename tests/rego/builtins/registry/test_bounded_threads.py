"""Threads for calls that may never end: their number and the wait are bounded, whatever happens."""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest
from tests.waiting import PATIENCE

from doorward.rego.builtins.registry.bounded_threads import BoundedThreads
from doorward.rego.errors import EvaluationAborted


def soon() -> float:
    return time.monotonic() + PATIENCE


def test_the_result_is_returned_from_another_thread() -> None:
    assert BoundedThreads("f", 1).call(lambda: 7, soon()) == 7


def test_an_exception_ends_the_evaluation_and_frees_the_slot() -> None:
    threads = BoundedThreads("f", 1)
    for _ in range(3):
        with pytest.raises(EvaluationAborted, match="f: the call raised ZeroDivisionError"):
            threads.call(lambda: 1 // 0, soon())
    assert threads.call(lambda: 7, soon()) == 7


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_thread_that_cannot_be_started_takes_no_slot(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: Thread) -> None:
        raise error

    threads = BoundedThreads("f", 1)
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", fail)
        for _ in range(3):
            with pytest.raises(EvaluationAborted, match="f: no thread can be started"):
                threads.call(lambda: 7, soon())
    assert threads.call(lambda: 7, soon()) == 7


def test_the_wait_for_a_slot_and_for_the_result_end_at_one_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = BoundedThreads("f", 1)
    waits: list[float] = []
    hanging = Event()

    def note(_thread: Thread, timeout: float) -> None:
        waits.append(timeout)

    monkeypatch.setattr(Thread, "join", note)
    end = soon()
    with pytest.raises(TimeoutError):
        threads.call(lambda: hanging.wait(PATIENCE), end)
    monkeypatch.setattr(threads, "_slots", _SlowSlots(waits))
    with pytest.raises(TimeoutError):
        threads.call(lambda: hanging.wait(PATIENCE), time.monotonic() - 1)
    hanging.set()
    monkeypatch.undo()
    assert 0 < waits[0] <= PATIENCE
    assert waits[1:] == [0, 0]
    assert threads.call(lambda: 7, soon()) == 7


class _SlowSlots:
    """Slots that are free only when the time is over."""

    def __init__(self, waits: list[float]) -> None:
        self.waits = waits

    def acquire(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return True

    def release(self) -> None:
        pass


def test_without_a_free_slot_no_thread_is_started() -> None:
    with pytest.raises(TimeoutError):
        BoundedThreads("f", 0).call(lambda: 7, time.monotonic() - 1)
