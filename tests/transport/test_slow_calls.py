"""Whether calls are slow: by the time that they kept their thread, whatever the machine does."""

from __future__ import annotations

import os
import resource
import select
import time
from collections.abc import Callable

import pytest

from doorward.transport import slow_calls as module
from doorward.transport.slow_calls import DOUBTS, SLOW, History


def compute(seconds: float) -> None:
    """Keep the processor for `seconds` of this thread's time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def wait(seconds: float) -> None:
    """Wait for something that does not come, as a policy does for the network."""
    end, other = os.pipe()
    try:
        select.select([end], [], [], seconds)
    finally:
        os.close(end)
        os.close(other)


def timed(history: History, call: Callable[[], object]) -> float:
    begun = history.begin()
    call()
    return history.end(begun)


@pytest.mark.parametrize("call", [lambda: compute(4 * SLOW), lambda: wait(4 * SLOW)])
def test_slow_calls_are_known_soon_and_fast_ones_again(call: Callable[[], object]) -> None:
    history = History()
    calls = 0
    while not history.is_slow:
        timed(history, call)
        calls += 1
        assert calls < DOUBTS
    while history.is_slow:
        timed(history, lambda: None)
        calls += 1
        assert calls < 10 * DOUBTS


class Preempted:
    """A clock and the use of a thread that loses the processor in each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.used = 0.0
        self.waits = 0
        self.readings = 0
        monkeypatch.setattr(module, "perf_counter", lambda: self.now)
        monkeypatch.setattr(resource, "getrusage", self.usage)

    def usage(self, _who: int) -> object:
        self.readings += 1

        class Usage:
            ru_utime, ru_stime, ru_nvcsw = self.used, 0.0, self.waits

        return Usage

    def call(self, *, used: float = 10e-6, elapsed: float = 20e-3, waits: int = 0) -> None:
        self.used += used
        self.now += elapsed
        self.waits += waits


def test_fast_calls_are_not_slow_where_others_have_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread, history = Preempted(monkeypatch), History()
    for _ in range(1000):
        assert timed(history, thread.call) == pytest.approx(20e-3)
        assert not history.is_slow
    assert thread.readings > 0


def test_calls_that_wait_are_slow_though_they_compute_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread, history = Preempted(monkeypatch), History()
    for _ in range(4):
        timed(history, lambda: thread.call(waits=1))
    assert history.is_slow


def test_usual_calls_read_the_clock_only(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, history = Preempted(monkeypatch), History()
    timed(history, thread.call)
    for _ in range(DOUBTS + 10):
        timed(history, lambda: thread.call(elapsed=10e-6))
    readings = thread.readings
    timed(history, lambda: thread.call(elapsed=10e-6))
    assert thread.readings == readings


def test_long_call_is_slow_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, history = Preempted(monkeypatch), History()
    timed(history, lambda: thread.call(elapsed=1.0))
    assert history.is_slow


def test_systems_that_say_nothing_of_a_thread_count_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread, history = Preempted(monkeypatch), History()
    monkeypatch.setattr(module, "_THREAD", None)
    for _ in range(4):
        timed(history, thread.call)
    assert history.is_slow
    assert thread.readings == 0
