"""Prometheus metrics of response decisions: their outcomes and reasons, and how long they take.

They exist with `enable-performance-metrics`. Reasons are codes, never a text of a response.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from doorward.envoy.ext_proc.exchange import Outcome
from doorward.envoy.options import DEFAULT_BUCKETS

__all__ = ["Metrics"]


class Metrics:
    """Prometheus metrics of response decisions, registered in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register a counter and a histogram of responses in `registry`."""
        self._responses = Counter(
            "ext_proc_responses",
            "Responses by outcome and reason.",
            ("outcome", "reason"),
            registry=registry,
        )
        self._duration = Histogram(
            "ext_proc_duration_seconds",
            "A histogram of the duration of decisions on responses.",
            registry=registry,
            buckets=DEFAULT_BUCKETS,
        )

    def observe(self, outcome: Outcome, reason: str, seconds: float) -> None:
        """Count one response by outcome and reason code, and record its duration."""
        self._responses.labels(outcome, reason).inc()
        self._duration.observe(seconds)
