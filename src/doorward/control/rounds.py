"""Rounds of work that send requests to services. The steps of a round are written once; how it
waits for responses is separate.

A round is a generator. It yields a request, receives the response (or the reason why there is none,
as an exception), and returns the seconds until the next round:

    _Poller.round ── Ask ──▶ Threads: a thread for each job sends, and waits
                  ◀─ Answer  Schedule: one thread for all jobs; another process sends

A parent of worker processes forks, so it may have no other threads: it has a `Schedule`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from typing import Final, Protocol, TypeAlias, TypeVar

from doorward.base.clock import SYSTEM_CLOCK, Clock
from doorward.base.records import record
from doorward.control.answers import Answer, Client, ServiceError
from doorward.control.registry import RegistryError, pull
from doorward.edge import FAULTS, FIRST_PAUSE, LONGEST_PAUSE, Edge, Part, Parts, loop_thread

__all__ = ["Ask", "Asker", "Job", "Runner", "Schedule", "Steps", "Task", "Threads", "drive"]

FAILURES: Final = (ServiceError, RegistryError)
"""The exceptions that a round receives in place of a response."""

T = TypeVar("T")


@record
class Ask:
    """A request that a round wants to be sent: `client` says to which service, the other fields are
    the parameters of `Client.request`. With `pulls`, it is the download of the OCI artifact that
    `path` refers to, unless its digest is still `etag`.
    """

    client: Client
    path: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    wait: float = 0.0
    limit: int = 1 << 20
    pulls: bool = False
    etag: str = ""

    def answer(self, client: Client | None = None) -> Answer:
        """Send the request in this thread and wait for the response, which may have any status;
        with `pulls`, download the artifact. `client` replaces the one of the request. Raise
        ServiceError if there is no response, and RegistryError as `pull` does.
        """
        client = client or self.client
        if self.pulls:
            return pull(client, self.path, self.etag, self.limit)
        return client.request(
            self.method,
            self.path,
            headers=self.headers,
            content=self.content,
            wait=self.wait,
            limit=self.limit,
        )


Steps: TypeAlias = Generator[Ask, Answer, T]
"""A round: yields requests, receives responses, and returns a value of type `T`."""


def drive(steps: Steps[T]) -> T:
    """Run a round to its end in this thread, sending its requests, and return its result.
    Exceptions of the round are raised.
    """
    try:
        ask = next(steps)
        while True:
            try:
                answer = ask.answer()
            except FAILURES as error:
                ask = steps.throw(error)
            else:
                ask = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


@record
class Job:
    """A round of work to be repeated. `round` returns the seconds until the next round, or None to
    wait for `wake`; its unexpected exceptions are reported to `edge`. A round that takes more than
    `within` seconds counts as stuck in `/health`.
    """

    name: str
    edge: Edge
    within: float
    round: Callable[[], Steps[float | None]]
    pause: float | None = 0.0
    """The seconds before the first round; None: it waits for `wake`."""


class Task(Protocol):
    """A job that was started."""

    def wake(self) -> None:
        """Begin the next round now or, during a round, directly after it."""

    def stop(self, timeout: float = 0.0) -> None:
        """Begin no further round, and wait at most `timeout` seconds for the present one."""


class Runner(Protocol):
    """The interface that starts jobs: each in a thread of its own (`Threads`), or all in one
    (`Schedule`).
    """

    def start(self, job: Job) -> Task:
        """Begin the rounds of a job, without waiting for the first one."""


class Threads:
    """Runs each job in a thread of its own, in which its rounds send requests and wait."""

    def __init__(self, parts: Parts, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._parts = parts
        self._clock = clock

    def start(self, job: Job) -> Task:
        return _Thread(job, self._parts, self._clock)


class _Thread:
    """A job in a thread, which is started at once."""

    def __init__(self, job: Job, parts: Parts, clock: Clock) -> None:
        self._job = job
        self._parts = parts
        self._clock = clock
        self._pause = job.pause
        self._wakes, self._stop = threading.Event(), threading.Event()
        self._part = Part(job.name, within=job.within, clock=clock)
        self._thread = loop_thread(
            self._run_round, job.edge, name=job.name, stop=self._stop, part=self._part, clock=clock
        )
        self._part.thread = self._thread
        self._thread.start()
        # From here on it counts: a thread that was not started yet looks like a dead one.
        parts.add(self._part)

    def _run_round(self) -> bool:
        """Wait until the pause ends or the task is woken, and run one round. False after `stop`,
        which ends the thread.
        """
        self._part.rest()
        self._clock.wait(self._wakes, self._pause)
        if self._stop.is_set():
            return False
        # Before the round: a wake during it begins the next one.
        self._wakes.clear()
        self._part.beat()
        self._pause = drive(self._job.round())
        return True

    def wake(self) -> None:
        self._wakes.set()

    def stop(self, timeout: float = 0.0) -> None:
        """Ask the thread to end, and wait for it for at most `timeout` seconds. `/health` no longer
        watches it.
        """
        self._parts.remove(self._part)
        self._stop.set()
        self._wakes.set()
        if timeout > 0:
            self._thread.join(timeout)


# Without threads


class Asker(Protocol):
    """The interface with which a `Schedule` has requests sent by another process or thread."""

    def send(self, number: int, ask: Ask) -> None:
        """Send a request without waiting. Its outcome is later passed to `Schedule.note` with the
        same number. ServiceError if it cannot be sent.
        """


class Schedule:
    """Runs all jobs in one thread, which calls `run_due` and never waits for a service. Not
    thread-safe.
    """

    def __init__(self, asker: Asker, parts: Parts, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._asker = asker
        self._parts = parts
        self._clock = clock
        self._tasks: list[_Task] = []
        self._asked: dict[int, _Task] = {}
        self._number = 0

    def start(self, job: Job) -> Task:
        """Add a job to the schedule; its first round is due after the job's `pause`."""
        task = _Task(job, self, self._clock)
        self._tasks.append(task)
        self._parts.add(task.part)
        return task

    def run_due(self) -> float:
        """Run the rounds that are due up to their first request; return the seconds until the next
        one is due, infinity if none is.
        """
        # Chosen before one begins: a task that is due again at once must not keep others waiting.
        due = [each for each in self._tasks if each.due <= self._clock.now()]
        for task in due:
            task.begin()
        first = min((each.due for each in self._tasks), default=float("inf"))
        return max(0.0, first - self._clock.now())

    def note(self, number: int, outcome: Answer | Exception) -> None:
        """Continue the round that waits for the request `number` with its outcome; do nothing if
        its task was stopped.
        """
        task = self._asked.pop(number, None)
        if task is not None:
            task.go_on(outcome)

    def ask(self, task: _Task, ask: Ask) -> None:
        """Send the request of a task; the task continues with the outcome, at once if it cannot be
        sent.
        """
        self._number += 1
        try:
            self._asker.send(self._number, ask)
        except ServiceError as error:
            task.go_on(error)
        else:
            self._asked[self._number] = task

    def forget(self, task: _Task) -> None:
        """Remove a task; outcomes of its requests are ignored."""
        self._tasks.remove(task)
        self._parts.remove(task.part)
        self._asked = {number: each for number, each in self._asked.items() if each is not task}


class _Task:
    """One job of a schedule; `due` is the time of its next round in monotonic seconds."""

    def __init__(self, job: Job, schedule: Schedule, clock: Clock) -> None:
        self.part = Part(job.name, within=job.within, clock=clock)
        self._job = job
        self._schedule = schedule
        self._clock = clock
        self._steps: Steps[float | None] | None = None
        self._is_woken = self._is_stopped = self._runs = False
        self._after_fault = FIRST_PAUSE
        self.due = self._after(job.pause)

    def begin(self) -> None:
        """Start a new round and run it up to its first request. It is not due again until the round
        has ended.
        """
        self._is_woken, self.due = False, float("inf")
        self.part.beat()
        self._steps = self._job.round()
        self.go_on(None)

    def go_on(self, outcome: Answer | Exception | None) -> None:
        """Continue the round with an outcome, None at its start, up to its next request or its end.
        An unexpected exception is reported, and the next round is due after a pause that doubles
        each time, up to `LONGEST_PAUSE`.
        """
        steps = self._steps
        if steps is None or self._is_stopped:
            return
        self._runs = True
        try:
            if isinstance(outcome, Exception):
                ask = steps.throw(outcome)
            else:
                ask = next(steps) if outcome is None else steps.send(outcome)
        except StopIteration as end:
            self._after_fault = FIRST_PAUSE
            self.part.succeeded()
            self._end(end.value)
        except FAULTS as fault:
            self._job.edge.report(fault)
            self.part.failed()
            pause, self._after_fault = self._after_fault, min(self._after_fault * 2, LONGEST_PAUSE)
            self._end(pause)
        else:
            self._schedule.ask(self, ask)
        finally:
            self._runs = False

    def _end(self, pause: float | None) -> None:
        """End the present round; the next one is due after `pause` seconds, at once if the task was
        woken meanwhile, or never for None.
        """
        self._steps = None
        self.part.rest()
        self.due = self._after(0.0 if self._is_woken else pause)

    def _after(self, pause: float | None) -> float:
        """Return the time in `pause` seconds; infinity for None."""
        return float("inf") if pause is None else self._clock.now() + pause

    def wake(self) -> None:
        """Make the next round due now or, during a round, at its end."""
        self._is_woken = True
        if self._steps is None:
            self.due = self._clock.now()

    def stop(self, timeout: float = 0.0) -> None:
        """Remove the task from the schedule; a round that waits for an outcome is closed. Never
        waits.
        """
        if not self._is_stopped:
            self._is_stopped = True
            self._schedule.forget(self)
            if self._steps is not None and not self._runs:  # else it ends by itself
                self._steps.close()
