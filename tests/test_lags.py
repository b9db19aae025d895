"""Threads stop at calls that chance chooses, and no longer than they run."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest
from tests import lags
from tests.lags import Lags

FRAME = sys._getframe()


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each stop, by a clock that stands still otherwise."""
    seconds: list[float] = []
    clock = SimpleNamespace(sleep=seconds.append, monotonic=lambda: sum(seconds))
    monkeypatch.setattr(lags, "time", clock)
    return seconds


def test_a_thread_stops_seldom_and_no_longer_than_it_runs(stops: list[float]) -> None:
    plugin = Lags(1)
    for _ in range(10_000):
        plugin.stop_thread(FRAME, "call", None)
    # It has not run by its clock, so that the first stops were all that it may have.
    assert stops == [lags.LAG] * 2


def test_the_main_thread_stops_behind_functions_of_tests(stops: list[float]) -> None:
    plugin = Lags(1)
    for _ in range(1_000):
        plugin.stop_main(FRAME, "call", None)
    assert stops == []
    for _ in range(1_000):
        plugin.stop_main(FRAME, "return", None)
    assert stops


def test_calls_of_threads_are_watched_during_a_test(stops: list[float]) -> None:
    plugin = Lags(1)
    protocol = plugin.pytest_runtest_protocol(None)  # type: ignore[arg-type]  # not looked at
    next(protocol)
    try:
        thread = threading.Thread(target=lambda: [len(f"{n}") and int(f"{n}") for n in range(9)])
        assert threading.getprofile() == plugin.stop_thread
        thread.start()
        thread.join()
    finally:
        protocol.close()
    assert threading.getprofile() is None
    assert sys.getprofile() is None
