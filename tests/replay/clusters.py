"""Ray for tests: settings by which it needs less, and jobs that wait half-way through a log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import wait_until

from doorward.base.records import record
from doorward.replay import Tally

__all__ = ["WaitingRecipe", "living_actors", "settings"]

# Large: an environment that is older than it goes on without; that of `make test` has it.
ray = pytest.importorskip("ray")
on_ray = import_module("doorward.replay.on_ray")
SETTINGS = {
    # Workers are as urgent as the test that waits for them.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # What else takes the memory and the disk of the machine ends no worker.
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_local_fs_capacity_threshold": "1.0",
}
PATIENCE = 20
"""How many times as long as by itself Ray waits for a node: 10 minutes. It has no setting for that,
and gives up a node that a busy machine starts in more than 30 seconds."""


def slow_clock() -> float:
    return time.monotonic() / PATIENCE


@contextmanager
def settings() -> Iterator[None]:
    """Around a cluster, from its start to its end."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SETTINGS.items():
            patched.setenv(name, value)
        node = import_module("ray._private.node")
        clock = SimpleNamespace(monotonic=slow_clock, sleep=time.sleep, time=time.time)
        patched.setattr(node, "time", clock)
        yield


def living_actors() -> list[dict[str, Any]]:
    """The actors that decide in the cluster of this process, as Ray describes them."""
    return [
        each
        for each in ray._private.state.actors().values()
        if each["State"] == "ALIVE" and each["ActorClassName"].startswith("MapWorker")
    ]


@record
class WaitingRecipe(on_ray.Recipe):  # type: ignore[misc,name-defined]
    """A recipe whose job decides events from number `half` on only when the file `gate` is there.

    Events are numbered by their ids: `id-0`, `id-1`, ...
    """

    gate: str = ""
    half: int = 0

    def job(self) -> Any:
        return _WaitingJob(on_ray.Recipe.job(self), Path(self.gate), self.half)


class _WaitingJob:
    def __init__(self, job: Any, gate: Path, half: int) -> None:
        self._job = job
        self._gate = gate
        self._half = half

    def empty(self) -> Tally:
        return Tally()

    def decide(self, content: bytes) -> Tally:
        last = json.loads(content.splitlines()[-1])
        if int(last["decision_id"].removeprefix("id-")) >= self._half:
            wait_until(self._gate.exists)
        tally: Tally = self._job.decide(content)
        return tally
