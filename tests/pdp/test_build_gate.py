"""Evaluations take turns during a build, and do not wait for each other at any other time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.sources import Sources
from doorward.pdp import build_gate
from doorward.pdp.build_gate import BuildGate
from doorward.pdp.pdp import PDP
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Snapshot, read
from doorward.rego import REGISTRY, Engine, Registry, types
from doorward.telemetry.health import Health


class Evaluations:
    """A decision point whose evaluations end when the test says so."""

    def __init__(self) -> None:
        self.go_on = threading.Semaphore(0)
        self.begun = 0
        registry = Registry(REGISTRY)

        @registry.builtin("test.wait", types.any_, returns=types.boolean)
        def test_wait(value: Any) -> bool:
            """Waits for the test."""
            self.begun += 1
            return self.go_on.acquire(timeout=PATIENCE)

        policy = "package a\n\nallow if test.wait(input)\n"
        self.pdp = PDP(Snapshot(Engine(modules={"a.rego": policy}, registry=registry), "r"))

    def decide(self, number: int) -> bool:
        return self.pdp.decide("a/allow", number).result is True

    def decide_query(self, number: int) -> bool:
        return self.pdp.decide_query("data.a.allow", number).result is True


@contextmanager
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_evaluations_run_side_by_side() -> None:
    evaluations = Evaluations()
    with callers() as pool:
        answers = [pool.submit(evaluations.decide, number) for number in range(4)]
        wait_until(lambda: evaluations.begun == 4)
        evaluations.go_on.release(4)
        assert all(answer.result(PATIENCE) for answer in answers)


def test_during_a_build_they_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_gate, "LONGEST_WAIT", PATIENCE)
    evaluations = Evaluations()
    with callers() as pool, evaluations.pdp.build_gate.building():
        answers = [pool.submit(evaluations.decide, number) for number in range(3)]
        answers += [pool.submit(evaluations.decide_query, number) for number in range(3)]
        wait_until(lambda: len(evaluations.pdp.build_gate._queue) == 5)
        for number in range(1, 7):
            wait_until(lambda number=number: evaluations.begun == number)  # type: ignore[misc]  # the stubs' lambda has no default
            evaluations.go_on.release()
        assert all(answer.result(PATIENCE) for answer in answers)
    assert not evaluations.pdp.build_gate.are_taken


def test_an_evaluation_that_waits_for_something_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build_gate, "LONGEST_WAIT", 0.01)
    evaluations = Evaluations()
    with callers() as pool, evaluations.pdp.build_gate.building():
        answers = [pool.submit(evaluations.decide, number) for number in range(4)]
        wait_until(lambda: evaluations.begun == 4)
        evaluations.go_on.release(4)
        assert all(answer.result(PATIENCE) for answer in answers)


def test_turns_go_to_those_who_wait_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_gate, "LONGEST_WAIT", PATIENCE)
    shared, order = BuildGate(), []

    def take(number: int) -> None:
        assert shared.begin()
        order.append(number)
        shared.end()

    assert shared.begin()
    with callers() as pool:
        waiting = []
        for number in range(4):
            waiting.append(pool.submit(take, number))
            wait_until(lambda number=number: len(shared._queue) == number + 1)  # type: ignore[misc]  # the stubs' lambda has no default
        shared.end()
        for each in waiting:
            each.result(PATIENCE)
    assert order == [0, 1, 2, 3]


def test_a_reload_is_a_build(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("package a\n\nallow := 1\n")
    taken: list[bool] = []

    def reread() -> Snapshot:
        taken.append(pdp.build_gate.are_taken)
        return read(paths)

    paths = (str(tmp_path),)
    pdp = PDP(read(paths))
    files = Sources(paths).files
    watcher = Watcher(
        files, reread, pdp.replace, health=Health(), building=pdp.build_gate.building, interval=0.01
    )
    assert watcher.reload()
    assert taken == [True]
    assert not pdp.build_gate.are_taken
