"""Metric families in two formats: Prometheus' text, and the JSON of OPA's status reports.

In both, counters have the names under which they were declared: prometheus_client appends `_total`
to counters in its headings, but OPA has two counters of bundles without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

__all__ = ["CONTENT_TYPE", "PLAIN_COUNTERS", "documents_of", "text_of"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
PLAIN_COUNTERS: Final = ("bundle_failed_load_counter", "bundle_loaded_counter")
"""Counters whose names do not end with `_total`, as in OPA."""
_TYPES: Final = {"counter": "COUNTER", "histogram": "HISTOGRAM", "summary": "SUMMARY"}


def text_of(families: Collector) -> bytes:
    """Return the metrics in Prometheus' text format."""
    text = generate_latest(families)
    for name in PLAIN_COUNTERS:
        for heading in (b"# HELP ", b"# TYPE "):
            text = text.replace(
                heading + name.encode() + b"_total ", heading + name.encode() + b" "
            )
    return text


def documents_of(families: Iterable[Metric]) -> dict[str, Any]:
    """Return the metric families by name as OPA writes them into its status: Prometheus' protobuf
    messages as JSON. Families without samples are left out.
    """
    documents: dict[str, Any] = {}
    for family in families:
        name = _full_name(family)
        metrics = list(_metrics(family))
        if metrics:
            documents[name] = {
                "name": name,
                "help": family.documentation,
                "type": _TYPES.get(family.type, "GAUGE"),
                "metric": metrics,
            }
    return documents


def _full_name(family: Metric) -> str:
    """Return the name of a family with the suffix that Prometheus adds: `_total` for counters
    other than `PLAIN_COUNTERS`, `_info` for infos.
    """
    if family.type == "counter" and family.name not in PLAIN_COUNTERS:
        return f"{family.name}_total"
    return f"{family.name}_info" if family.type == "info" else family.name


def _metrics(family: Metric) -> Iterator[dict[str, Any]]:
    """Yield the metrics of a family as JSON, one for each set of labels; times of creation are left
    out.
    """
    grouped: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        if not sample.name.endswith("_created"):
            labels = tuple((name, text) for name, text in sample.labels.items() if name != "le")
            grouped.setdefault(labels, []).append(sample)
    for labels, samples in grouped.items():
        metric: dict[str, Any] = {}
        if labels:
            metric["label"] = [{"name": name, "value": text} for name, text in labels]
        yield metric | _value(family, samples)


def _value(family: Metric, samples: list[Sample]) -> dict[str, Any]:
    """Return the value of one label set as JSON, under its type: `{"counter": {"value": 1.0}}` or
    `{"gauge": …}`; count, sum and buckets under `histogram` or `summary`.
    """
    if family.type not in ("histogram", "summary"):
        kind = "counter" if family.type == "counter" else "gauge"
        return {kind: {"value": samples[0].value}}
    by_end = {sample.name.removeprefix(family.name): sample.value for sample in samples}
    document: dict[str, Any] = {
        # 64-bit integers are texts in the JSON of such messages.
        "sampleCount": str(int(by_end["_count"])),
        "sampleSum": by_end["_sum"],
    }
    buckets = [
        {"cumulativeCount": str(int(sample.value)), "upperBound": float(sample.labels["le"])}
        for sample in samples
        if sample.labels.get("le", "+Inf") != "+Inf"
    ]
    if buckets:
        document["bucket"] = buckets
    return {family.type: document}
