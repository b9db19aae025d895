"""What several workers say of themselves, added up."""

from __future__ import annotations

import json
from typing import Any

from doorward.edge import Part
from doorward.server.worker_state import Totals, state_of
from doorward.telemetry.health import Health, State
from doorward.telemetry.metrics import Metrics


def state(
    number: int, requests: int, status: State = State.OK, *, stuck: bool = False
) -> dict[str, Any]:
    health, metrics = Health(), Metrics("1")
    health.set("envoy", status)
    part = Part("loop", within=-1.0 if stuck else 60.0)
    part.beat()
    health.parts.add(part)
    for _ in range(requests):
        metrics.http_request_duration_seconds.labels(200, "v1/data", "post").observe(0.002)
    # Over the wire, as it goes to the parent.
    received: dict[str, Any] = json.loads(
        json.dumps(state_of(number, f"r{number}", health, metrics))
    )
    return received


def value(text: str, name: str) -> float:
    (line,) = [each for each in text.splitlines() if each.startswith(name + " ")]
    return float(line.rsplit(" ", 1)[1])


COUNT = 'http_request_duration_seconds_count{code="200",handler="v1/data",method="post"}'
BUCKET = (
    'http_request_duration_seconds_bucket{code="200",handler="v1/data",le="0.01",method="post"}'
)
RELOADS = {"success": 3, "failure": 1}


def test_counts_add_up_and_gauges_are_those_of_the_worst() -> None:
    one, other = state(0, 2), state(1, 3, State.ERROR, stuck=True)
    text = Totals().render([one, other], 4, RELOADS)
    assert value(text, COUNT) == value(text, BUCKET) == 5
    assert value(text, 'plugin_status_gauge{name="envoy",status="OK"}') == 0
    assert value(text, 'plugin_status_gauge{name="envoy",status="ERROR"}') == 1
    assert value(text, 'part_healthy{part="loop"}') == 0
    assert value(text, 'worker_revision{revision="r1",worker="1"}') == 1
    assert value(text, "worker_restarts_total") == 4
    assert value(text, 'policy_reloads_total{result="success"}') == 3
    assert value(text, 'policy_reloads_total{result="failure"}') == 1
    alone = Totals().render([one], 0, RELOADS)
    resident = "process_resident_memory_bytes"
    assert value(text, resident) > 1.5 * value(alone, resident)
    assert (other["down"], other["stopped"]) == (["envoy", "loop"], [["loop", "stuck"]])


def test_what_a_worker_counted_still_counts_when_it_ended() -> None:
    totals = Totals()
    totals.end(state(0, 2))
    totals.end(state(0, 4))
    text = totals.render([state(0, 1), state(1, 1)], 0, RELOADS)
    assert value(text, COUNT) == 8
    assert value(text, 'part_healthy{part="loop"}') == 1


def test_a_worker_answers_for_all() -> None:
    health, metrics = Health(), Metrics("1")
    health.worker = 0
    health.workers = [state(0, 1), state(1, 1, State.NOT_READY, stuck=True)]
    metrics.of_workers = Totals().render(health.workers, 0, RELOADS)
    assert metrics.render(health).decode() == metrics.of_workers
    assert health.down() == ("envoy", "loop")
    assert health.stopped == (("loop of worker 1", "stuck"),)
    assert health.own_stopped == ()
    assert health.own_down == frozenset()
