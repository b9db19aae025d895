"""The metrics of bundles, by the names that OPA's dashboards ask for.

prometheus_client appends `_total` to counters; OPA's counters have no such end. So these are made
sample by sample.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from doorward.control.bundle_status import BundleStatus
from doorward.telemetry.metric_documents import PLAIN_COUNTERS

__all__ = ["BundleMetrics"]

STAGES: Final = frozenset(
    f"timer_{name}_ns"
    for name in (
        "bundle_request",
        "rego_data_parse",
        "rego_load_bundles",
        "rego_module_compile",
        "rego_module_parse",
    )
)
MAX_FAILURES: Final = 200
"""Reasons of failures that are counted apart; those beyond are counted under no message."""


class BundleMetrics(Collector):
    """Counts the updates of a status, and shows the last one."""

    def __init__(self, registry: CollectorRegistry, version: str, buckets: Sequence[float]) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._loaded: Counter[str] = Counter()
        self._failed: Counter[tuple[str, str, str]] = Counter()
        self._statuses: Mapping[str, BundleStatus] = {}
        self._duration = Histogram(
            "bundle_loading_duration_ns",
            "How long the stages of loading a bundle take, in nanoseconds.",
            ("name", "stage"),
            buckets=buckets,
            registry=registry,
        )
        registry.register(self)

    def note(self, statuses: Mapping[str, BundleStatus]) -> None:
        """Count one status update of all bundles."""
        with self._lock:
            before, self._statuses = self._statuses, statuses
            for name, status in statuses.items():
                if not status.is_failing and status.last_successful_activation:
                    self._loaded[name] += 1
                else:
                    key = name, "bundle_error" if status.is_failing else "", status.message
                    known = key in self._failed or len(self._failed) < MAX_FAILURES
                    self._failed[key if known else (name, key[1], "")] += 1
                if status != before.get(name):
                    self._observe(name, status)

    def _observe(self, name: str, status: BundleStatus) -> None:
        for stage, spent in status.metrics.items():
            if stage in STAGES:
                self._duration.labels(name, stage).observe(spent)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics for the Prometheus client; one label set for each bundle."""
        with self._lock:
            statuses = list(self._statuses.values())
            loaded, failed = dict(self._loaded), dict(self._failed)
        yield _metric("opa_info", "The version.", [({"version": self._version}, 1)])
        yield _metric(
            "bundle_loaded_counter",
            "Status updates with an active bundle.",
            [({"name": name}, count) for name, count in loaded.items()],
        )
        yield _metric(
            "bundle_failed_load_counter",
            "Status updates with a bundle that could not be loaded.",
            [
                ({"name": name, "code": code, "message": message}, count)
                for (name, code, message), count in failed.items()
            ],
        )
        yield _metric(
            "last_bundle_request",
            "Time of the last request for a bundle, in nanoseconds.",
            [({"name": each.name}, each.last_request) for each in statuses],
        )
        yield _metric(
            "last_success_bundle_activation",
            "Time of the last activation of a bundle, in nanoseconds.",
            [
                (
                    {"name": each.name, "active_revision": each.active_revision},
                    each.last_successful_activation,
                )
                for each in statuses
            ],
        )
        yield _metric(
            "last_success_bundle_download",
            "Time of the last download of a bundle, in nanoseconds.",
            [({"name": each.name}, each.last_successful_download) for each in statuses],
        )
        yield _metric(
            "last_success_bundle_request",
            "Time of the service's last answer, in nanoseconds.",
            [({"name": each.name}, each.last_successful_request) for each in statuses],
        )


def _metric(
    name: str, documentation: str, samples: Iterable[tuple[Mapping[str, str], int]]
) -> Metric:
    """A metric with its samples: a counter if OPA exports it as one, else a gauge."""
    metric = Metric(name, documentation, "counter" if name in PLAIN_COUNTERS else "gauge")
    for labels, value in samples:
        metric.add_sample(name, dict(labels), float(value))
    return metric
