"""Families of metrics become the text of a scraper and the JSON of a status."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

from doorward.control.bundle_metrics import BundleMetrics
from doorward.control.bundle_status import BundleStatus
from doorward.telemetry.metric_documents import documents_of, text_of
from doorward.telemetry.metrics import Metrics


def test_counters_of_bundles_are_counters_without_an_end() -> None:
    registry = CollectorRegistry()
    metrics = BundleMetrics(registry, "1", (1.0,))
    metrics.note({"a": BundleStatus("a", "r1", last_successful_activation=1)})
    metrics.note({"a": BundleStatus("a", message="no")})
    text = text_of(registry).decode()
    assert "# TYPE bundle_loaded_counter counter\n" in text
    assert 'bundle_loaded_counter{name="a"} 1.0\n' in text
    assert "# TYPE bundle_failed_load_counter counter\n" in text
    assert "# HELP bundle_failed_load_counter Number of status" in text
    assert "counter_total" not in text
    assert "# TYPE last_bundle_request gauge\n" in text
    document = documents_of(registry.collect())["bundle_loaded_counter"]
    assert (document["name"], document["type"]) == ("bundle_loaded_counter", "COUNTER")


def test_a_histogram_is_written_as_prometheus_own_message() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("h", "A text.", ("code",), buckets=(0.5, 2.0), registry=registry)
    for number in (0.1, 1.0, 5.0):
        histogram.labels("200").observe(number)
    assert documents_of(registry.collect()) == {
        "h": {
            "name": "h",
            "help": "A text.",
            "type": "HISTOGRAM",
            "metric": [
                {
                    "label": [{"name": "code", "value": "200"}],
                    "histogram": {
                        "sampleCount": "3",
                        "sampleSum": 6.1,
                        "bucket": [
                            {"cumulativeCount": "1", "upperBound": 0.5},
                            {"cumulativeCount": "2", "upperBound": 2.0},
                        ],
                    },
                }
            ],
        }
    }


def test_counters_and_gauges_have_the_names_that_scrapers_see() -> None:
    metrics = Metrics("1")
    metrics.lost("queue_full")
    documents = documents_of(metrics.registry.collect())
    assert documents["decision_logs_lost_total"]["metric"] == [
        {"label": [{"name": "reason", "value": "queue_full"}], "counter": {"value": 1.0}}
    ]
    assert documents["policy_current"] == {
        "name": "policy_current",
        "help": "1 while the newest policies are active; 0 after a reload that failed.",
        "type": "GAUGE",
        "metric": [{"gauge": {"value": 1.0}}],
    }
    assert documents["doorward_info"]["type"] == "GAUGE"
    # Without samples there is nothing to say.
    assert "http_request_duration_seconds" not in documents


def test_the_process_and_its_python_are_measured() -> None:
    text = Metrics("1").render().decode()
    for name in (
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "python_gc_collections_total",
        "python_info",
        "python_threads",
    ):
        assert f"\n{name}" in text, name
