"""An edge loses nothing: what it catches is counted, logged without secrets, and ends no thread."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from tests.clock import VirtualClock
from tests.waiting import PATIENCE

from doorward import edge
from doorward.edge import FAULTS, Edge, Part, Parts, SignalSafeEvent, counts, loop_thread, repeat


def raised(error: BaseException, depth: int = 0) -> BaseException:
    """`error` as something raised it, `depth` calls down."""

    def fail(left: int) -> None:
        if left:
            fail(left - 1)
        raise error

    try:
        fail(depth)
    except BaseException as actual:
        return actual
    raise AssertionError


def in_thread(work: Callable[[], object]) -> object:
    rows: list[object] = []
    thread = threading.Thread(target=lambda: rows.append(work()))
    thread.start()
    thread.join()
    return rows[0]


@pytest.mark.parametrize("error", [ValueError, MemoryError, RecursionError, SystemExit])
def test_a_fault_is_counted_and_told_by_its_kind(error: type[BaseException]) -> None:
    mine = Edge("test-kinds", "it failed")
    said = in_thread(lambda: mine.report(raised(error("a secret"))))
    assert said == f"internal error ({error.__name__})"
    assert mine.count == 1
    assert counts()["test-kinds"] >= 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_who_ends_the_process_is_not_kept_from_it(error: type[BaseException]) -> None:
    mine = Edge("test-stops", "it failed")
    with pytest.raises(error):
        mine.report(raised(error()))
    assert mine.count == 0


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
def test_what_belongs_to_python_passes(error: type[BaseException]) -> None:
    assert not issubclass(error, FAULTS)


def test_the_log_shows_where_and_never_what(caplog: pytest.LogCaptureFixture) -> None:
    mine = Edge("test-log", "it failed")
    with caplog.at_level(logging.ERROR):
        mine.report(raised(KeyError("a secret"), depth=2), request="r1")
    (record,) = caplog.records
    fields = vars(record)
    assert record.getMessage() == "it failed"
    assert (fields["edge"], fields["fault"], fields["request"]) == ("test-log", "KeyError", "r1")
    assert fields["at"] == fields["traceback"][-1]
    assert [line.partition(" ")[2] for line in fields["traceback"]] == ["raised", *["fail"] * 3]
    assert "a secret" not in str(fields)


def test_of_a_deep_recursion_both_ends_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        Edge("test-deep", "it failed").report(raised(RecursionError(), depth=500))
    shown = vars(caplog.records[0])["traceback"]
    assert len(shown) == 26
    assert shown[0].endswith(" raised")
    assert shown[5] == "… 477 frames"


def test_senders_of_requests_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    mine = Edge("test-quiet", "it failed", clock=clock)
    with caplog.at_level(logging.ERROR):
        for _ in range(10):
            mine.report(raised(ValueError()))
        clock.advance(2.0)
        mine.report(raised(ValueError()))
    assert [vars(record)["more"] for record in caplog.records] == [0, 9]
    assert mine.count == 11


def test_a_log_that_fails_is_no_second_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(edge, "_log", type("Log", (), {"error": fail}))
    mine = Edge("test-no-log", "it failed")
    assert mine.report(raised(ValueError())) == "internal error (ValueError)"
    assert mine.count == 1


def test_a_part_that_works_and_says_nothing_is_stuck() -> None:
    clock = VirtualClock()
    part = Part("p", within=10, clock=clock)
    clock.advance(100.0)
    before = part.problem
    part.beat()
    clock.advance(9.0)
    in_time = part.problem
    clock.advance(2.0)
    late = part.problem
    part.beat()
    again = part.problem
    part.rest()
    clock.advance(1000.0)
    assert (before, in_time, late, again, part.problem) == (None, None, "stuck", None, None)


def test_a_part_whose_thread_ended_is_dead() -> None:
    part = Part("p", within=10)
    end = threading.Event()
    part.thread = threading.Thread(target=end.wait)
    part.thread.start()
    alive = part.problem
    end.set()
    part.thread.join()
    assert (alive, part.problem) == (None, "dead")


def test_parts_are_watched_until_they_are_taken_out() -> None:
    parts, part = Parts(), Part("p", within=10)
    parts.add(part)
    for _ in range(3):
        part.failed()
    assert parts.problems == {"p": "failing"}
    part.succeeded()
    assert parts.problems == {"p": None}
    parts.remove(part)
    parts.remove(part)
    assert parts.problems == {}


def test_parts_of_one_name_are_all_watched() -> None:
    parts, one, other = Parts(), Part("p", within=10), Part("p", within=10)
    parts.add(one)
    parts.add(other)
    for _ in range(3):
        one.failed()
    assert parts.problems == {"p": "failing"}
    parts.remove(one)
    assert parts.problems == {"p": None}


@pytest.mark.parametrize("error", [ValueError, MemoryError, RecursionError, SystemExit])
def test_a_loop_outlives_whatever_a_round_raises(error: type[BaseException]) -> None:
    clock, stop = VirtualClock(threads=1), threading.Event()
    mine, part = Edge("test-loop", "it failed"), Part("p", within=10)
    times: list[float] = []
    broken = True

    def step() -> bool:
        times.append(clock.now())
        if broken:
            raise error
        return not clock.wait(stop, 10.0)

    thread = loop_thread(step, mine, name="test-loop", stop=stop, part=part, clock=clock)
    thread.start()
    clock.advance(4.0)
    assert [round(each, 6) for each in times] == [0.0, 0.1, 0.3, 0.7, 1.5, 3.1]
    failing = part.problem
    broken = False
    clock.advance(20.0)
    assert (failing, part.problem) == ("failing", None)
    assert thread.is_alive()
    stop.set()
    thread.join()
    assert not thread.is_alive()
    assert mine.count == 6


def test_a_fault_that_stays_does_not_take_the_processor() -> None:
    pauses: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            pauses.append(timeout)
            if len(pauses) == 10:
                self.set()
            return self.is_set()

    def step() -> bool:
        raise ValueError

    repeat(step, Edge("test-pause", "it failed"), stop=Stop())
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == pauses[-1] == 10.0


def test_a_loop_ends_when_a_round_says_so() -> None:
    rounds = iter([True, True, False])
    repeat(lambda: next(rounds), Edge("test-end", "it failed"), stop=threading.Event())
    assert list(rounds) == []


SIGNALLED = """
import signal, sys, threading
from doorward.edge import SignalSafeEvent

event = {kind}()
handled = 0


def handler(_number, _frame):
    global handled
    handled += 1
    event.set()


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0002)
while handled < 3_000:
    event.wait(0.001)
    event.clear()
signal.setitimer(signal.ITIMER_REAL, 0)
event.set()
assert event.is_set() and event.wait() and event.wait(0)
event.clear()
assert not event.is_set() and not event.wait(0.001)
"""


def test_a_signal_may_tell_the_thread_that_it_interrupts() -> None:
    """With an event of Python's own this never ends: such a server does not end either."""
    program = SIGNALLED.format(kind="SignalSafeEvent")
    done = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=False)
    assert done.returncode == 0


def test_another_thread_may_tell() -> None:
    told = SignalSafeEvent()
    thread = threading.Timer(0.01, told.set)
    thread.start()
    assert told.wait(PATIENCE)
    thread.join()
