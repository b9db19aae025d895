"""Worker processes: started again, replaced together or not at all, and ended with their parent.

The parent of these tests is a process of its own: this one has threads, and may not fork.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]
PARENT = """
import json, os, signal, sys, time
from doorward.transport import workers
from doorward.transport.workers import GenerationError, Supervisor
from tests.waiting import wait_until

options = json.loads(sys.argv[1])
real_kill = os.kill
if options.pop("unkillable", False):
    os.kill = lambda pid, number: None if number == signal.SIGKILL else real_kill(pid, number)
for name, value in options.items():
    setattr(workers, name, value)
stop = []


def work_as(generation):
    def work(number, channel):
        ended = []
        signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
        if generation == "broken" and number == 1:
            raise ValueError(generation)
        channel.send({"is": "prepared"})
        went = False
        while channel.is_open and not ended:
            channel.wait(0.05)
            for message in channel.receive():
                if message["is"] == "go":
                    went = True
                    if generation.startswith("after") and number == 0:
                        kill_and_wait(int(generation.removeprefix("after")))
                    channel.send({"is": "state", "generation": generation, "pid": os.getpid()})
                if message["is"] == "echo" and generation == "closing":
                    channel.close()
                elif message["is"] == "echo":
                    channel.send({"is": "state", "generation": generation, "text": message["text"]})
            if generation == "silent" and went:
                time.sleep(3600)
            if generation == "deaf" and ended:
                time.sleep(3600)
        if generation == "mute":
            channel.close()
        while generation in ("deaf", "mute", "closing") and not (ended and generation == "closing"):
            time.sleep(1)
        return 0

    return work


def kill_and_wait(pid):
    # Until its parent has noticed the end, too.
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def say(**fields):
    # One write: threads share the pipe, and a line must not be read before its end.
    os.write(1, (json.dumps(fields) + "\\n").encode())


os.set_blocking(0, False)
supervisor = Supervisor(2, grace=0.1, on_end=lambda worker: say(ended=worker.number))
shown = None
while True:
    supervisor.poll(0.05)
    states = {number: worker.state for number, worker in sorted(supervisor.workers.items())}
    if states != shown:
        shown = states
        say(workers={
            n: {**s, "pid": supervisor.workers[n].pid, "text": len(s.get("text", ""))}
            for n, s in states.items()
        })
    command = sys.stdin.readline().split()
    if not command:
        continue
    if command[0] == "begin":
        try:
            supervisor.begin(work_as(command[1]))
            say(begun=command[1])
        except GenerationError as error:
            say(failed=command[1])
    if command[0] == "echo":
        supervisor.send({"is": "echo", "text": "x" * int(command[1])})
    if command[0] == "end":
        supervisor.end()
        say(over=supervisor.restarts)
        break
"""


class Parent:
    """A process with a supervisor, what it said, and its workers as it knows them."""

    def __init__(self, **options: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said: list[dict[str, Any]] = []
        self.part = ""
        self.workers: dict[str, dict[str, Any]] = {}

    def tell(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")

    def heard(self, wanted: Callable[[], Any]) -> Any:
        def read_messages() -> Any:
            assert self.process.stdout is not None
            while line := self.process.stdout.readline():
                self.part += line
                if not line.endswith("\n"):
                    continue  # its end has not been written yet
                message = json.loads(self.part)
                self.part = ""
                self.said.append(message)
                self.workers = message.get("workers", self.workers)
            return wanted()

        return wait_until(read_messages, lambda: f"{self.said}")

    def begin(self, generation: str, outcome: str = "begun") -> None:
        self.tell("begin", generation)
        self.heard(lambda: {outcome: generation} in self.said)

    def generations(self) -> list[str]:
        return [each.get("generation", "") for _, each in sorted(self.workers.items())]

    def pids(self) -> list[int]:
        return [each["pid"] for _, each in sorted(self.workers.items())]


@pytest.fixture
def parent() -> Iterator[Callable[..., Parent]]:
    parents: list[Parent] = []

    def start(**options: float) -> Parent:
        parents.append(Parent(**options))
        return parents[-1]

    yield start
    for each in parents:
        each.process.kill()
        each.process.communicate()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"
    return True


def test_workers_are_replaced_together(parent: Callable[..., Parent]) -> None:
    group = parent()
    group.begin("first")
    group.heard(lambda: group.generations() == ["first"] * 2)
    before = group.pids()
    group.begin("second")
    group.heard(lambda: group.generations() == ["second"] * 2)
    wait_until(lambda: all(map(is_gone, before)))
    group.heard(lambda: sum("ended" in each for each in group.said) == 2)
    group.tell("end")
    group.heard(lambda: {"over": 0} in group.said)
    assert group.process.wait(PATIENCE) == 0
    assert all(map(is_gone, group.pids()))


def test_a_worker_that_dies_while_it_is_replaced_is_not_ended_again(
    parent: Callable[..., Parent],
) -> None:
    """Its number may be that of another process by then, and nobody would wait for its end."""
    group = parent()
    group.begin("first")
    group.heard(lambda: group.generations() == ["first"] * 2)
    before = group.pids()
    group.begin(f"after{before[0]}")
    wait_until(lambda: all(map(is_gone, before)))
    group.heard(lambda: sum("ended" in each for each in group.said) == 2)
    group.tell("end")
    group.heard(lambda: {"over": 0} in group.said)
    assert group.process.wait(PATIENCE) == 0


def test_a_generation_that_cannot_be_prepared_never_serves(parent: Callable[..., Parent]) -> None:
    group = parent()
    group.begin("first")
    group.heard(lambda: group.generations() == ["first"] * 2)
    before = group.pids()
    group.begin("broken", "failed")
    assert group.generations() == ["first"] * 2
    assert group.pids() == before
    assert not any(map(is_gone, before))


def is_replaced(group: Parent, first: int, second: int) -> bool:
    pids = group.pids()
    return len(pids) == 2 and pids[0] == first and pids[1] != second


def test_a_worker_that_died_is_started_again_and_later_each_time(
    parent: Callable[..., Parent],
) -> None:
    group = parent(FIRST_PAUSE=0.01)
    group.begin("first")
    for _ in range(3):
        group.heard(lambda: group.generations() == ["first"] * 2)
        first, second = group.pids()
        os.kill(second, signal.SIGKILL)
        group.heard(partial(is_replaced, group, first, second))
    group.tell("end")
    group.heard(lambda: {"over": 3} in group.said)


def test_a_worker_that_says_nothing_is_ended(parent: Callable[..., Parent]) -> None:
    group = parent(SILENT=0.5)
    group.begin("silent")
    group.heard(lambda: len(group.pids()) == 2)
    before = group.pids()
    wait_until(lambda: (group.heard(lambda: True), all(map(is_gone, before)))[1])


@pytest.mark.parametrize("how", ["deaf", "mute"])
def test_a_worker_that_does_not_end_is_killed(parent: Callable[..., Parent], how: str) -> None:
    """Also one that has closed its channel, whose end nothing tells."""
    group = parent(_EXTRA=0.1)
    group.begin(how)
    group.heard(lambda: group.generations() == [how] * 2)
    group.tell("end")
    group.heard(lambda: {"over": 0} in group.said)
    assert all(map(is_gone, group.pids()))


@pytest.mark.parametrize("how", ["deaf", "mute"])
def test_a_worker_that_sigkill_does_not_end_is_given_up(
    parent: Callable[..., Parent], how: str
) -> None:
    """As one that waits for a disk. Its parent must end, and start new generations."""
    group = parent(_EXTRA=0.1, _ENDING=0.1, unkillable=True)
    group.begin(how)
    group.heard(lambda: group.generations() == [how] * 2)
    before = group.pids()
    try:
        group.tell("end")
        group.heard(lambda: {"over": 0} in group.said)
        assert group.process.wait(PATIENCE) == 0
        assert not any(map(is_gone, before))
    finally:
        for pid in before:
            os.kill(pid, signal.SIGKILL)


def test_a_worker_that_closes_its_channel_and_does_not_end_is_replaced(
    parent: Callable[..., Parent],
) -> None:
    group = parent(FIRST_PAUSE=0.01, _ENDING=0.1, unkillable=True)
    group.begin("closing")
    group.heard(lambda: group.generations() == ["closing"] * 2)
    before = group.pids()
    try:
        group.tell("echo", "1")
        group.heard(lambda: len(group.pids()) == 2 and not {*before} & {*group.pids()})
        group.heard(lambda: group.generations() == ["closing"] * 2)
        assert not any(map(is_gone, before))
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        # Its parent reaps it, too.
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before))
        group.tell("end")
        group.heard(lambda: {"over": 2} in group.said)
    finally:
        for pid in before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_workers_end_with_their_parent(parent: Callable[..., Parent]) -> None:
    group = parent()
    group.begin("first")
    group.heard(lambda: group.generations() == ["first"] * 2)
    group.process.kill()
    group.process.wait(PATIENCE)
    wait_until(lambda: all(map(is_gone, group.pids())))


def test_long_messages_arrive_whole(parent: Callable[..., Parent]) -> None:
    group = parent()
    group.begin("first")
    group.heard(lambda: group.generations() == ["first"] * 2)
    group.tell("echo", "700000")
    group.heard(lambda: [each.get("text") for each in group.workers.values()] == [700_000] * 2)
