"""The system's clock reads monotonic time, and waits as the event itself does."""

from __future__ import annotations

import threading

import pytest
from tests.waiting import PATIENCE

from doorward.base.clock import SYSTEM_CLOCK
from doorward.edge import SignalSafeEvent


def test_the_time_does_not_go_back() -> None:
    times = [SYSTEM_CLOCK.now() for _ in range(100)]
    assert times == sorted(times)


@pytest.mark.parametrize("kind", [threading.Event, SignalSafeEvent])
def test_a_pause_ends_with_its_event_or_its_time(kind: type[threading.Event]) -> None:
    event = kind()
    assert not SYSTEM_CLOCK.wait(event, 0.001)
    waking = threading.Thread(target=event.set)
    waking.start()
    assert SYSTEM_CLOCK.wait(event, PATIENCE)
    assert SYSTEM_CLOCK.wait(event, None)
    waking.join()


def test_an_event_decides_how_it_is_waited_for() -> None:
    """The event of a parent of workers supervises them meanwhile."""

    class Supervising(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            limits.append(timeout)
            return True

    limits: list[float | None] = []
    assert SYSTEM_CLOCK.wait(Supervising(), 0.5)
    assert limits == [0.5]
