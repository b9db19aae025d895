"""The metrics of `doorward eval`: of one evaluation, or statistics over several.

Names are OPA's, and so is how percentiles are read between two measurements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from doorward.cli.results import table
from doorward.rego.golang import object_text

__all__ = ["metrics_field", "metrics_table", "percentile"]

Metrics = Mapping[str, int]

_PERCENTILES: Final = {
    "75%": 0.75,
    "90%": 0.9,
    "95%": 0.95,
    "99%": 0.99,
    "99.9%": 0.999,
    "99.99%": 0.9999,
}


def metrics_field(measured: Sequence[Metrics]) -> tuple[str, str]:
    """Return the name and the JSON text of the metrics: `metrics` of one evaluation, else
    `aggregated_metrics`.
    """
    if len(measured) == 1:
        fields = {name: str(spent) for name, spent in measured[0].items()}
        return "metrics", object_text(fields)
    fields = {name: object_text(_statistics(measured, name)) for name in measured[0]}
    return "aggregated_metrics", object_text(fields)


def metrics_table(measured: Sequence[Metrics]) -> str:
    """Return the metrics as a table: the values of one evaluation, else statistics over several."""
    if len(measured) == 1:
        rows = [[name, str(spent)] for name, spent in measured[0].items()]
        return table(["METRIC", "VALUE"], rows)
    keys = ("min", "max", "mean", "90%", "99%")
    columns = {name: _statistics(measured, name) for name in measured[0]}
    rows = [[name, *(each[key] for key in keys)] for name, each in columns.items()]
    return table(["METRIC", *keys], rows)


def _statistics(measured: Sequence[Metrics], name: str) -> dict[str, str]:
    """Return the statistics of one timer over all evaluations, as texts sorted by name as in
    OPA.
    """
    import statistics  # and `random`, `decimal` with it

    spent = sorted(each[name] for each in measured)
    figures: dict[str, float] = {key: percentile(spent, part) for key, part in _PERCENTILES.items()}
    figures |= {
        "count": len(spent),
        "max": spent[-1],
        "mean": statistics.fmean(spent),
        "median": percentile(spent, 0.5),
        "min": spent[0],
        "stddev": statistics.pstdev(spent),
    }
    return {key: f"{figures[key]:.15g}" for key in sorted(figures)}


def percentile(spent: Sequence[int], part: float) -> float:
    """Return the value below which the fraction `part` of the sorted values lies, interpolated."""
    position = part * (len(spent) + 1)
    if position < 1:
        return spent[0]
    if position >= len(spent):
        return spent[-1]
    lower = int(position)
    return spent[lower - 1] + (position - lower) * (spent[lower] - spent[lower - 1])
