"""The clock of tests: pauses end exactly when they are due, and those who pause are waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests import clock as clock_module
from tests.clock import VirtualClock

from doorward.edge import SignalSafeEvent


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[None]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def test_each_pause_ends_at_its_own_time() -> None:
    clock, stop = VirtualClock(threads=2), threading.Event()
    times: dict[float, list[float]] = {0.25: [], 1.0: []}

    def pause(seconds: float) -> None:
        while not clock.wait(stop, seconds):
            times[seconds].append(clock.now())

    with running(lambda: pause(0.25), lambda: pause(1.0)):
        clock.advance(0.75)
        assert times == {0.25: [0.25, 0.5, 0.75], 1.0: []}
        clock.advance(0.5)
        assert times == {0.25: [0.25, 0.5, 0.75, 1.0, 1.25], 1.0: [1.0]}
        stop.set()
    clock.advance(100.0)
    assert (clock.now(), len(times[0.25])) == (101.25, 5)


@pytest.mark.parametrize("kind", [threading.Event, SignalSafeEvent])
def test_an_event_ends_a_pause_at_any_time(kind: type[threading.Event]) -> None:
    clock, event, ends = VirtualClock(threads=1), kind(), list[tuple[bool, float]]()
    with running(lambda: ends.append((clock.wait(event, None), clock.now()))):
        clock.advance(3600.0)
        assert ends == []
        event.set()
        clock.settle()
        assert ends == [(True, 3600.0)]


def test_a_pause_of_the_test_itself_lets_the_time_pass() -> None:
    clock, event = VirtualClock(threads=1), threading.Event()
    never = threading.Event()

    def work() -> None:
        clock.wait(never, 5.0)
        event.set()

    with running(work):
        assert not clock.wait(event, 4.0)
        assert clock.now() == 4.0
        assert clock.wait(event, 4.0)
        assert clock.now() == 5.0


def test_a_thread_may_let_the_time_pass_as_if_it_worked() -> None:
    clock, stop, times = VirtualClock(threads=1), threading.Event(), list[float]()

    def work() -> None:
        while not clock.wait(stop, 1.0):
            clock.advance(10.0)
            times.append(clock.now())

    with running(work):
        clock.advance(3.0)
        stop.set()
    assert times == [11.0]
    assert clock.now() == 11.0


def test_who_does_not_pause_again_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "PATIENCE", 0.01)
    with pytest.raises(AssertionError, match="a thread"):
        VirtualClock(threads=1).advance(1.0)
    with pytest.raises(AssertionError, match="nothing that is due"):
        VirtualClock().wait(threading.Event(), None)
