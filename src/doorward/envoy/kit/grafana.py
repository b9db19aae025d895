"""A description becomes a Grafana dashboard over the decision point's metrics.

The metrics have the names of OPA and OPA-Envoy where those have them, so that the panels on
requests, checks and bundles show an OPA beside it as well. Latency and errors of checks need
`enable-performance-metrics`, which the configuration of `doorward kit --scraped-from` sets.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from doorward.envoy.kit.description import Description

__all__ = ["to_files"]

_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_JOB: Final = '{job=~"$job"}'


class _Panel(NamedTuple):
    """One graph: its title, Grafana's name of its unit, and pairs of PromQL query and legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _rate(metric: str, by: str) -> str:
    """Return the query of a counter's rate per second, a series for each value of label `by`."""
    return f"sum by ({by}) (rate({metric}{_JOB}[$__rate_interval]))"


def _increase(metric: str, by: str) -> str:
    """Return the query of a counter's increase within an interval of the graph, a series for each
    value of label `by`.
    """
    return f"sum by ({by}) (increase({metric}{_JOB}[$__rate_interval]))"


def _quantile(share: float, metric: str) -> str:
    """Return the query of a histogram's quantile; `share` is from 0 to 1."""
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', 'le')})"


_PANELS: Final = (
    _Panel(
        "Checks of Envoy a second", "reqps",
        ((_rate("grpc_request_duration_seconds_count", "handler"), "{{handler}}"),),
    ),
    _Panel(
        "Duration of a check", "s",
        tuple(
            (_quantile(share, "grpc_request_duration_seconds"), name)
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        ),
    ),
    _Panel(
        "Requests without a decision, which are denied", "reqps",
        ((_rate("error_counter", "reason"), "{{reason}}"),),
    ),
    _Panel(
        "Responses a second, by outcome", "reqps",
        ((_rate("ext_proc_responses_total", "outcome"), "{{outcome}}"),),
    ),
    _Panel(
        "Duration of a decision on a response", "s",
        tuple(
            (_quantile(share, "ext_proc_duration_seconds"), name)
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        ),
    ),
    _Panel(
        "HTTP API, requests a second", "reqps",
        ((_rate("http_request_duration_seconds_count", "code, handler"), "{{code}} {{handler}}"),),
    ),
    _Panel(
        "HTTP API, duration of 99 % of requests (p99)", "s",
        ((_quantile(0.99, "http_request_duration_seconds"), "p99"),),
    ),
    _Panel(
        "Newest policies in force (0: a reload failed)", "short",
        ((f"min by (instance) (policy_current{_JOB})", "{{instance}}"),),
    ),
    _Panel(
        "Reloads of policies and data", "short",
        ((_increase("policy_reloads_total", "result"), "{{result}}"),),
    ),
    _Panel(
        "Bundles activated and failed", "short",
        tuple(
            (_increase(metric, "name"), legend)
            for metric, legend in (
                ("bundle_loaded_counter", "{{name}}"),
                ("bundle_failed_load_counter", "{{name}} failed"),
            )
        ),
    ),
    _Panel(
        "Decision log events lost a second", "short",
        ((_rate("decision_logs_lost_total", "reason"), "{{reason}}"),),
    ),
    _Panel(
        "Threads that are dead, stuck or failing", "short",
        ((f"sum by (part) (1 - part_healthy{_JOB})", "{{part}}"),),
    ),
    _Panel("Internal errors a second", "short", ((_rate("faults_total", "edge"), "{{edge}}"),)),
    _Panel(
        "Processor and memory of a decision point", "short",
        (
            (_rate("process_cpu_seconds_total", "instance"), "{{instance}} cores"),
            (
                f"sum by (instance) (process_resident_memory_bytes{_JOB}) / 1073741824",
                "{{instance}} GB",
            ),
        ),
    ),
)  # fmt: skip


def to_files(description: Description) -> dict[str, str]:
    """Return `dashboard.json`, a Grafana dashboard to import."""
    return {"dashboard.json": json.dumps(_to_dashboard(description), indent=2) + "\n"}


def _to_dashboard(description: Description) -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON model, with a data source and the scrape jobs as
    variables.
    """
    return {
        "title": f"Doorward: {description.name}",
        "uid": f"doorward-{description.name}"[:40],
        "tags": ["doorward", "authorization"],
        "schemaVersion": 39,
        "timezone": "utc",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_to_source(), _to_jobs(description)]},
        "panels": [_to_panel(index, panel) for index, panel in enumerate(_PANELS)],
    }


def _to_source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _to_jobs(description: Description) -> dict[str, Any]:
    """Return the dashboard variable that selects scrape jobs; all are selected at first."""
    return {
        "name": "job",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "$source"},
        "query": {"query": "label_values(policy_current, job)", "refId": "jobs"},
        "includeAll": True,
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
        "description": f"The scrape job of {description.name}",
    }


def _to_panel(index: int, panel: _Panel) -> dict[str, Any]:
    """Return panel number `index` (from 0) at its position in a grid of three columns."""
    row, column = divmod(index, _COLUMNS)
    position = {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    return {
        "id": index + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": "$source"},
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }
