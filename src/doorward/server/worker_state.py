"""The state of one worker process, and of all of them together.

Counters and histograms are added up, including those of workers that ended: a total never falls. A
gauge about a state has the value of the worst worker; sizes of processes are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from doorward.telemetry.health import Health, State
from doorward.telemetry.metric_documents import documents_of, text_of
from doorward.telemetry.metrics import Metrics

__all__ = ["Totals", "state_of", "worst"]

_ADDED_GAUGES: Final = frozenset(
    {
        "cache_entries",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "python_threads",
    }
)
_SEVERITY: Final = (State.OK, State.WARN, State.NOT_READY, State.ERROR)
_SUMS: Final = frozenset({"counter", "histogram"})


def state_of(number: int, revision: str, health: Health, metrics: Metrics) -> dict[str, Any]:
    """Return the state of a worker as JSON values: revision, parts that are down, stopped threads,
    plugin states and metrics.
    """
    return {
        "worker": number,
        "revision": revision,
        "down": sorted(health.own_down),
        "stopped": [list(pair) for pair in health.own_stopped],
        "states": {name: state.value for name, state in health.states.items()},
        "metrics": [
            [
                family.name,
                family.documentation,
                family.type,
                [[each.name, each.labels, each.value] for each in family.samples],
            ]
            for family in metrics.families(health)
        ],
    }


def worst(states: Iterable[Mapping[str, Any]]) -> dict[str, State]:
    """Return the worst state of each part over all workers."""
    parts: dict[str, State] = {}
    for state in states:
        for name, value in state["states"].items():
            known = parts.get(name, State.OK)
            parts[name] = max(known, State(value), key=_SEVERITY.index)
    return parts


class Totals(Collector):
    """A collector of the metrics of all workers, of workers that ended, and of the group itself."""

    def __init__(self, own: Collector | None = None) -> None:
        """Create the totals of no worker; `own` are the metrics of the parent."""
        self._own = own
        self._ended: list[Any] = []
        self._states: Sequence[Mapping[str, Any]] = ()
        self._restarts = 0
        self._reloads: Mapping[str, int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def end(self, state: dict[str, Any]) -> None:
        """Keep the counters and histograms of a worker that ended, so that totals do not fall."""
        sums = [family for family in state["metrics"] if family[2] in _SUMS]
        self._ended = [_plain(each) for each in _merge([self._ended, sums])]

    def render(
        self, states: Sequence[Mapping[str, Any]], restarts: int, reloads: Mapping[str, int]
    ) -> str:
        """Return the metrics in Prometheus' text format, from the given states of the workers.
        `reloads` are the parent's numbers of reloads by result.
        """
        self._states, self._restarts, self._reloads = states, restarts, reloads
        return text_of(self._registry).decode()

    def documents(self) -> dict[str, Any]:
        """Return the metrics of the last `render` as JSON, for status reports."""
        return documents_of(self.collect())

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of all workers as one, the revision of each worker, the number of
        restarts, and the parent's metrics. The policy reloads are those that the parent counted.
        """
        for family in _merge([self._ended, *[state["metrics"] for state in self._states]]):
            if family.name == "policy_reloads":
                family.samples = [
                    sample._replace(value=self._reloads[sample.labels["result"]])
                    for sample in family.samples
                    if sample.name.endswith("_total")
                ]
            yield family
        revisions = Metric(
            "worker_revision",
            "1 for the revision of the policies and data that each worker uses.",
            "gauge",
        )
        for state in self._states:
            labels = {"worker": str(state["worker"]), "revision": state["revision"]}
            revisions.add_sample("worker_revision", labels, 1)
        yield revisions
        restarts = Metric(
            "worker_restarts", "Number of workers that died and were started again.", "counter"
        )
        restarts.add_sample("worker_restarts_total", {}, self._restarts)
        yield restarts
        if self._own is not None:
            yield from self._own.collect()


def _merge(parts: Sequence[list[Any]]) -> list[Metric]:
    """Return the metric families of several processes as one. Samples with the same labels are
    combined: the sum for counters, histograms and sizes, the earlier time of creation, and the
    worse value of other gauges.
    """
    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for part in parts:
        for name, documentation, kind, samples in part:
            families.setdefault(name, Metric(name, documentation, kind))
            known = values.setdefault(name, {})
            for sample, labels, value in samples:
                key = (sample, tuple(sorted(labels.items())))
                known[key] = (
                    value if key not in known else _both(name, key, kind, known[key], value)
                )
    for name, family in families.items():
        for (sample, labels), value in values[name].items():
            family.add_sample(sample, dict(labels), value)
    return list(families.values())


def _both(name: str, key: tuple[str, Any], kind: str, one: float, other: float) -> float:
    """Combine a sample of two workers: the sum for counters, histograms and sizes; the earlier time
    of creation; the worse value of other gauges. `key`: the sample's name and labels.
    """
    if key[0].endswith("_created"):
        return min(one, other)
    if kind in _SUMS or name in _ADDED_GAUGES:
        return one + other
    # A state other than `OK` counts if any worker has it. All other gauges are smaller when they
    # are worse, such as `policy_current`.
    if name == "plugin_status_gauge" and ("status", "OK") not in key[1]:
        return max(one, other)
    return min(one, other)


def _plain(family: Metric) -> list[Any]:
    """Return a metric family in the form in which workers send it: name, help, type, samples."""
    samples = [[each.name, each.labels, each.value] for each in family.samples]
    return [family.name, family.documentation, family.type, samples]
