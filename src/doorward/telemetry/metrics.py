"""Prometheus metrics in a registry of their own, under OPA's names if OPA has them.

Nothing is counted during an evaluation; the adapters measure requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from doorward.config.configuration import HTTP_BUCKETS
from doorward.edge import counts
from doorward.rego.shared import CacheCounts
from doorward.telemetry.health import Health, State
from doorward.telemetry.metric_documents import text_of

__all__ = ["Metrics"]


class _Faults(Collector):
    """A collector of `faults_total`: the unexpected exceptions that were caught, by the place that
    caught them (`edge`). The counts are read when metrics are requested.
    """

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Return the counter of caught exceptions, with a sample for each place that catches
        them.
        """
        family = CounterMetricFamily(
            "faults",
            "Number of unexpected errors that were caught: defects, not denials.",
            labels=("edge",),
        )
        for name, count in counts().items():
            family.add_metric((name,), count)
        return [family]


class _Caches(Collector):
    """A collector of the caches of the active policies: their hits, misses and entries, read when
    metrics are requested.
    """

    def __init__(self, counts: Callable[[], Mapping[str, CacheCounts]]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Return the hits, misses and entries of each cache."""
        labels = ("cache",)
        hits = CounterMetricFamily(
            "cache_hits", "Number of lookups in a cache that found an entry.", labels=labels
        )
        misses = CounterMetricFamily(
            "cache_misses", "Number of lookups in a cache that found no entry.", labels=labels
        )
        entries = GaugeMetricFamily("cache_entries", "Number of entries in a cache.", labels=labels)
        for name, (cached, hit, missed) in self._counts().items():
            if hit is not None:
                hits.add_metric((name,), hit)
            misses.add_metric((name,), missed)
            entries.add_metric((name,), cached)
        return [hits, misses, entries]


class Metrics:
    """All metrics of one server."""

    def __init__(self, version: str, buckets: Sequence[float] = HTTP_BUCKETS) -> None:
        """Register the metrics of a process of this version; `buckets` are those of the histogram
        of request durations, in seconds.
        """
        self.of_workers = ""
        """The text of the metrics of all workers, from the parent; empty in a single process."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Gauge("python_threads", "Number of running threads.", registry=self.registry).set_function(
            threading.active_count
        )
        self.registry.register(_Faults())
        Info("doorward", "Version of the running server", registry=self.registry).info(
            {"version": version}
        )
        self.http_request_duration_seconds = Histogram(
            "http_request_duration_seconds",
            "A histogram of duration for requests.",
            ("code", "handler", "method"),
            buckets=buckets,
            registry=self.registry,
        )
        self.decision_logs_lost = Counter(
            "decision_logs_lost",
            "Number of decisions that are missing in the decision log, by reason.",
            ("reason",),
            registry=self.registry,
        )
        self.shadow_decisions = Counter(
            "shadow_decisions",
            "Number of decisions made by the candidate policies (shadow) too, by how they differ.",
            ("kind",),
            registry=self.registry,
        )
        self.shadow_dropped = Counter(
            "shadow_dropped",
            "Number of decisions not made by the candidate policies (shadow), by reason.",
            ("reason",),
            registry=self.registry,
        )
        self.policy_reloads = Counter(
            "policy_reloads",
            "Number of attempts to activate changed policies and data, by result.",
            ("result",),
            registry=self.registry,
        )
        self.policy_current = Gauge(
            "policy_current",
            "1 while the newest policies are active; 0 after a reload that failed.",
            registry=self.registry,
        )
        self.part_healthy = Gauge(
            "part_healthy",
            "1 for each thread that works; 0 for one that is dead, stuck or failing.",
            ("part",),
            registry=self.registry,
        )
        self.plugin_status = Gauge(
            "plugin_status_gauge",
            "1 for the present state of each plugin.",
            ("name", "status"),
            registry=self.registry,
        )
        self.policy_current.set(1)
        # Both are there from the start: Prometheus sees no increase where a series begins with its
        # first event.
        for result in ("success", "failure"):
            self.policy_reloads.labels(result)

    def watch_caches(self, counts: Callable[[], Mapping[str, CacheCounts]]) -> None:
        """Publish the counts that `counts` returns at each scrape; its totals must never fall while
        the server runs.
        """
        self.registry.register(_Caches(counts))

    def lost(self, reason: str, events: int = 1) -> None:
        self.decision_logs_lost.labels(reason).inc(events)

    def shadowed(self, kind: str) -> None:
        self.shadow_decisions.labels(kind).inc()

    def not_shadowed(self, reason: str) -> None:
        self.shadow_dropped.labels(reason).inc()

    def reloaded(self, *, failed: bool) -> None:
        """Count a reload by its result, and set the gauge that tells if the newest policies are
        active.
        """
        self.policy_reloads.labels("failure" if failed else "success").inc()
        self.policy_current.set(0 if failed else 1)

    def render(self, health: Health | None = None) -> bytes:
        """Return the metrics in Prometheus' text format: in a worker the parent's sum over all
        workers, else those of this process, with gauges from `health` unless it is None.
        """
        if self.of_workers:
            return self.of_workers.encode()
        self._update(health)
        return text_of(self.registry)

    def families(self, health: Health) -> Iterable[Metric]:
        """Return the metric families of this process, with gauges from `health`."""
        self._update(health)
        return self.registry.collect()

    def _update(self, health: Health | None) -> None:
        """Set the gauges of plugins and of threads (parts) from the health of this process, before
        they are read; None leaves all gauges as they are.
        """
        for name, state in (health.states if health else {}).items():
            for each in State:
                self.plugin_status.labels(name, each.value).set(each is state)
        for part, problem in (health.parts.problems if health else {}).items():
            self.part_healthy.labels(part).set(problem is None)
