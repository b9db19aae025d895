"""The metrics of bundles, under the names that OPA's dashboards use.

prometheus_client appends `_total` to counters, which OPA's names do not have. So these metrics are
built sample by sample.
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
"""The stages of loading a bundle whose durations are exported."""
MAX_FAILURES: Final = 200
"""The most failure messages that are counted separately; others are counted with an empty message.
"""


class BundleMetrics(Collector):
    """Counts status updates of bundles, and exports the last one; thread-safe."""

    def __init__(self, registry: CollectorRegistry, version: str, buckets: Sequence[float]) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._loaded: Counter[str] = Counter()
        self._failed: Counter[tuple[str, str, str]] = Counter()
        self._statuses: Mapping[str, BundleStatus] = {}
        self._duration = Histogram(
            "bundle_loading_duration_ns",
            "Duration of the stages of loading a bundle, in nanoseconds.",
            ("name", "stage"),
            buckets=buckets,
            registry=registry,
        )
        registry.register(self)

    def note(self, statuses: Mapping[str, BundleStatus]) -> None:
        """Count one status update of all bundles, and keep it; stage durations are observed for
        bundles whose status changed. After `MAX_FAILURES` different failures, new ones are counted
        without their message.
        """
        with self._lock:
            before, self._statuses = self._statuses, statuses
            for name, status in statuses.items():
                if not status.is_failing and status.last_successful_activation:
                    self._loaded[name] += 1
                else:
                    key = name, "bundle_error" if status.is_failing else "", status.message
                    # A message may quote what a service sends, and each one is a series in
                    # Prometheus.
                    known = key in self._failed or len(self._failed) < MAX_FAILURES
                    self._failed[key if known else (name, key[1], "")] += 1
                if status != before.get(name):
                    self._observe(name, status)

    def _observe(self, name: str, status: BundleStatus) -> None:
        """Add the durations in a bundle's status, in nanoseconds, to the histogram; only those of
        the loading stages in `STAGES` are exported.
        """
        for stage, spent in status.metrics.items():
            if stage in STAGES:
                self._duration.labels(name, stage).observe(spent)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics, one sample for each bundle; prometheus_client calls this for each
        scrape.
        """
        with self._lock:
            statuses = list(self._statuses.values())
            loaded, failed = dict(self._loaded), dict(self._failed)
        yield _metric("opa_info", "The version.", [({"version": self._version}, 1)])
        yield _metric(
            "bundle_loaded_counter",
            "Number of status updates with an active bundle.",
            [({"name": name}, count) for name, count in loaded.items()],
        )
        yield _metric(
            "bundle_failed_load_counter",
            "Number of status updates with a bundle that could not be loaded.",
            [
                ({"name": name, "code": code, "message": message}, count)
                for (name, code, message), count in failed.items()
            ],
        )
        yield _metric(
            "last_bundle_request",
            "Time of the last request for a bundle, in nanoseconds since 1970.",
            [({"name": each.name}, each.last_request) for each in statuses],
        )
        yield _metric(
            "last_success_bundle_activation",
            "Time of the last activation of a bundle, in nanoseconds since 1970.",
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
            "Time of the last download of a bundle, in nanoseconds since 1970.",
            [({"name": each.name}, each.last_successful_download) for each in statuses],
        )
        yield _metric(
            "last_success_bundle_request",
            "Time of the service's last response about a bundle, in nanoseconds since 1970.",
            [({"name": each.name}, each.last_successful_request) for each in statuses],
        )


def _metric(
    name: str, documentation: str, samples: Iterable[tuple[Mapping[str, str], int]]
) -> Metric:
    """Return a metric with its samples (labels and value): a counter if OPA exports it as one,
    otherwise a gauge.
    """
    metric = Metric(name, documentation, "counter" if name in PLAIN_COUNTERS else "gauge")
    for labels, value in samples:
        metric.add_sample(name, dict(labels), float(value))
    return metric
