"""The adapter's Prometheus metrics, under OPA-Envoy's names.

`grpc_request_duration_seconds{handler="check"}` counts decisions that were answered,
`error_counter{reason}` those that were not. They exist only with `enable-performance-metrics`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import Metric, UntypedMetricFamily
from prometheus_client.registry import Collector

from doorward.envoy.options import DEFAULT_BUCKETS

__all__ = ["Metrics"]


class Metrics:
    """Prometheus metrics of Checks, registered in `registry`; `buckets` are bounds in seconds."""

    def __init__(
        self, registry: CollectorRegistry, buckets: tuple[float, ...] = DEFAULT_BUCKETS
    ) -> None:
        duration = Histogram(
            "grpc_request_duration_seconds",
            "A histogram of duration for grpc authz requests.",
            ("handler",),
            registry=registry,
            buckets=buckets,
        )
        self._duration = duration.labels("check")
        self._errors = _ErrorCounter()
        registry.register(self._errors)

    def observe(self, seconds: float) -> None:
        """Record the duration of one answered Check, in seconds."""
        self._duration.observe(seconds)

    def count_error(self, reason: str) -> None:
        """Count one request that got no decision; `reason` is a code, never a text from a
        request.
        """
        self._errors.add(reason)


class _ErrorCounter(Collector):
    """The metric `error_counter`, named as in OPA-Envoy; the library's counters would end in
    `_total`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        with self._lock:
            self._counts[reason] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metric with one sample for each reason code."""
        family = UntypedMetricFamily("error_counter", "A counter for errors", labels=("reason",))
        with self._lock:
            for reason, count in self._counts.items():
                family.add_metric((reason,), count)
        yield family
