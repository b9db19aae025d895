"""The benchmark of filters measures what it says."""

from __future__ import annotations

from benchmarks.filters import COLUMNS, UNKNOWNS, measured, policy
from doorward.filters import to_conditions, to_sql
from doorward.rego import Engine


def test_every_rule_is_in_the_sql() -> None:
    engine = Engine({"documents.rego": policy(3)})
    left = engine.partial("data.documents.include", UNKNOWNS, only_truth=True)
    clause = to_sql(to_conditions(left), COLUMNS, "postgresql")
    assert {"role0", "role1", "role2", "kind0", "kind1", "kind2"} <= set(clause.parameters)


def test_each_step_takes_time() -> None:
    figures = measured(rules=20, runs=1)
    assert len(figures) == 5
    assert all(milliseconds > 0 for milliseconds in figures.values())
