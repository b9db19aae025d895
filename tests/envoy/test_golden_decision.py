"""Each recorded decision becomes the CheckResponse, or the failed call, that it became in OPA."""

from __future__ import annotations

import pytest
from tests.envoy.golden import DECISION_ID, Row, comparable, recorded, rows

from doorward.envoy.response import ResultError, to_response
from doorward.rego.values import UNDEFINED

ROWS = [param for param in rows("envoy-decision.jsonl.gz") if "decision" in param.values[0]]


@pytest.mark.parametrize("row", ROWS)
def test_answer_to_a_decision_is_the_recorded_one(row: Row) -> None:
    dry_run = bool(row["config"].get("dry-run", False))
    decision = row.get("decision", UNDEFINED)
    if row.get("error"):
        with pytest.raises(ResultError) as raised:
            to_response(decision, DECISION_ID, dry_run=dry_run)
        assert row["error"] == {"code": raised.value.code, "message": str(raised.value)}
        return
    response = to_response(decision, DECISION_ID, dry_run=dry_run)
    assert comparable(response) == recorded(row)
