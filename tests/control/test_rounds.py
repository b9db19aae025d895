"""Rounds: the same work by threads that ask, and by one thread that never waits."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from tests.clock import VirtualClock
from tests.waiting import PATIENCE, wait_until

from doorward.config.services import Service
from doorward.control.answers import Answer, ServiceError
from doorward.control.rounds import Ask, Job, Schedule, Steps, Threads, drive
from doorward.edge import Edge, Parts

EDGE = Edge("rounds-test", "a round failed")


class Client:
    """Answers with what it was asked for, or not at all."""

    def __init__(self, *, fails: bool = False) -> None:
        self.service = Service("s", "http://s")
        self.fails = fails
        self.may_answer = threading.Event()
        self.may_answer.set()

    def request(self, method: str, path: str, **_more: Any) -> Answer:
        assert self.may_answer.wait(PATIENCE)
        if self.fails:
            raise ServiceError(f"no {path}")
        return Answer(200, {}, f"{method} {path}".encode())

    def close(self) -> None:
        """Nothing is open."""


class Later:
    """Keeps what is asked until it is told to answer."""

    def __init__(self) -> None:
        self.open: dict[int, Ask] = {}
        self.is_gone = False

    def send(self, number: int, ask: Ask) -> None:
        if self.is_gone:
            raise ServiceError("nobody asks")
        self.open[number] = ask

    def answer(self, schedule: Schedule) -> None:
        """Answer everything; in the order of the requests."""
        waiting, self.open = self.open, {}
        for number, ask in waiting.items():
            try:
                schedule.note(number, ask.answer())
            except ServiceError as error:
                schedule.note(number, error)


class Work:
    """Two requests a round, of which the second may fail."""

    def __init__(self, client: Client, pause: float | None = None) -> None:
        self.client = client
        self.pause = pause
        self.seen: list[str] = []

    def round(self) -> Steps[float | None]:
        first = yield Ask(self.client, "one")
        try:
            second = yield Ask(self.client, "two", "POST")
        except ServiceError as error:
            self.seen.append(str(error))
        else:
            self.seen.append(f"{first.body.decode()}, {second.body.decode()}")
        return self.pause

    def job(self) -> Job:
        return Job("work", EDGE, 60.0, self.round)


class Half(Client):
    def request(self, method: str, path: str, **more: Any) -> Answer:
        self.fails = path == "two"
        return super().request(method, path, **more)


WHOLE = "GET one, POST two"


def test_a_round_is_the_same_for_all_who_wait() -> None:
    assert drive(Work(Client(), 3.0).round()) == 3.0
    for client, seen in ((Client(), WHOLE), (Half(), "no two")):
        threaded, scheduled = Work(client), Work(client)
        task = Threads(Parts()).start(threaded.job())
        wait_until(partial(len, threaded.seen))
        task.stop(PATIENCE)
        later = Later()
        schedule = Schedule(later, Parts())
        schedule.start(scheduled.job())
        schedule.run_due()
        assert scheduled.seen == []
        later.answer(schedule)
        later.answer(schedule)
        assert threaded.seen == scheduled.seen == [seen]


def test_what_is_woken_runs_again_and_else_waits() -> None:
    work, later, clock = Work(Client()), Later(), VirtualClock()
    schedule = Schedule(later, Parts(), clock=clock)
    task = schedule.start(work.job())
    assert schedule.run_due() == float("inf")
    task.wake()  # while a round is under way: another follows
    for _ in range(4):
        later.answer(schedule)
        schedule.run_due()
    assert work.seen == [WHOLE, WHOLE]
    assert not later.open
    task.wake()
    assert schedule.run_due() == float("inf")
    assert later.open
    slow = Work(Client(), 100.0)
    schedule.start(slow.job())
    schedule.run_due()
    later.answer(schedule)
    later.answer(schedule)
    assert work.seen == [WHOLE] * 3
    assert schedule.run_due() == 100.0
    clock.advance(99.0)
    assert schedule.run_due() == 1.0
    assert not later.open
    clock.advance(1.0)
    assert schedule.run_due() == float("inf")
    assert [each.path for each in later.open.values()] == ["one"]


def test_what_is_stopped_asks_no_more() -> None:
    work, later, parts = Work(Client()), Later(), Parts()
    schedule = Schedule(later, parts)
    task = schedule.start(work.job())
    schedule.run_due()
    assert parts.problems == {"work": None}
    task.stop()
    task.stop()
    later.answer(schedule)
    assert (work.seen, later.open, parts.problems) == ([], {}, {})
    assert schedule.run_due() == float("inf")


def test_a_thread_runs_its_rounds_when_they_are_due_or_woken() -> None:
    clock, times = VirtualClock(threads=1), list[float]()

    def round() -> Steps[float | None]:
        times.append(clock.now())
        yield Ask(Client(), "one")
        return None if len(times) == 3 else 30.0

    job = Job("timed", EDGE, 60.0, round, pause=5.0)
    task = Threads(Parts(), clock=clock).start(job)
    clock.advance(100.0)
    assert times == [5.0, 35.0, 65.0]
    task.wake()  # after None, nothing else brings a round
    clock.settle()
    assert times == [5.0, 35.0, 65.0, 100.0]
    clock.advance(29.0)
    task.wake()
    clock.advance(2.0)  # it is not due a second time at 130
    assert times == [5.0, 35.0, 65.0, 100.0, 129.0]
    task.stop(PATIENCE)
    clock.advance(100.0)
    assert len(times) == 5


def broken() -> Steps[float | None]:
    yield Ask(Client(), "one")
    raise ValueError


def test_a_round_that_faults_is_repeated_later_and_said() -> None:
    later, parts, clock = Later(), Parts(), VirtualClock()
    schedule = Schedule(later, parts, clock=clock)
    schedule.start(Job("broken", EDGE, 60.0, broken))
    before = EDGE.count
    pauses: list[float] = []
    for number in range(10):
        schedule.run_due()
        assert later.open
        later.answer(schedule)
        assert EDGE.count == before + number + 1
        pauses.append(schedule.run_due())
        clock.advance(pauses[-1] + 1e-6)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0])
    assert parts.problems == {"broken": "failing"}


def test_a_request_that_nobody_takes_has_failed() -> None:
    work, later = Work(Client()), Later()
    later.is_gone = True
    schedule = Schedule(later, Parts())
    schedule.start(work.job())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EDGE, "report", lambda _fault: "said")
        schedule.run_due()
    # The first request has no handler in this round: it is a fault, and the round is repeated.
    assert 0 < schedule.run_due() < 1
