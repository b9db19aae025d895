"""A machine of a cluster is lost half-way: the report is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from doorward.bundles.loader import Loaded
from doorward.replay import Tally, as_json, replay

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
POLICY = 'package app\n\nallow if input.user == "ann"\n'
EVENTS = 8_000
SIZE = 8 << 10
"""Bytes of a unit: there are some dozens."""


class Nodes:
    """A cluster of two machines, which are processes of this one."""

    def __init__(self, clusters: Any) -> None:
        self._clusters = clusters
        self._cluster: Any = import_module("ray.cluster_utils").Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "include_dashboard": False,
                "object_store_memory": 100 << 20,
            },
        )
        self._second = self._cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        self._ray = clusters.ray
        self._ray.init(address=self._cluster.address, log_to_driver=False, logging_level="ERROR")

    def count(self) -> int:
        return sum(bool(each["Alive"]) for each in self._ray.nodes())

    def decides_on_both(self) -> bool:
        """Whether there is an actor on each machine."""
        return len({each["Address"]["NodeID"] for each in self._clusters.living_actors()}) == 2

    def lose(self) -> None:
        """Lose the second machine, with its actor and what it holds."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def close(self) -> None:
        self._ray.shutdown()
        self._cluster.shutdown()


@pytest.fixture
def nodes(clusters: Any) -> Iterator[Nodes]:
    with clusters.settings():
        nodes = Nodes(clusters)
        yield nodes
        nodes.close()


def test_the_report_is_the_same_though_a_machine_is_lost_half_way(
    clusters: Any, nodes: Nodes, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(
            json.dumps(
                {
                    "decision_id": f"id-{number}",
                    "path": "app/allow",
                    "input": {"user": "ann" if number % 3 else f"user-{number}"},
                    "result": number % 2 == 0,
                    "timestamp": "2026-11-22T18:00:00Z",
                }
            )
            + "\n"
            for number in range(EVENTS)
        )
    )
    gate = tmp_path / "gate"
    recipe = clusters.WaitingRecipe(Loaded({"p.rego": POLICY}), gate=str(gate), half=EVENTS // 2)
    assert nodes.count() == 2
    at: list[int] = []

    def lose(tally: Tally) -> None:
        if not at:
            wait_until(nodes.decides_on_both)
            at.append(tally.events)
            nodes.lose()
            gate.touch()

    tally = clusters.on_ray.replay_on_ray(
        [str(log)], recipe, address="local", actors=2, on_progress=lose, size=SIZE
    )
    assert 0 < at[0] < EVENTS // 2
    wait_until(lambda: nodes.count() == 1)
    assert as_json(tally) == as_json(replay([str(log)], recipe.job(), processes=1))
    assert tally.changes > 0
