"""Every row of the acceptance matrix, through the real Envoy, in order, against one stack."""

from __future__ import annotations

import json

import pytest
from tests.acceptance.conftest import Run

from acceptance.check import run_row
from acceptance.matrix import ROWS
from acceptance.row import Row

# Rows build on each other: one worker runs them all.
pytestmark = pytest.mark.xdist_group("acceptance")


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.group}: {row.name}" for row in ROWS])
def test_row(run: Run, row: Row) -> None:
    outcome = run_row(run.stack, row, run.tokens)
    run.outcomes.append(outcome)
    assert not outcome.problems, outcome.answer


def test_nothing_arrived_late(run: Run) -> None:
    expected = [arrival for outcome in run.outcomes for arrival in outcome.arrivals]
    assert run.stack.arrivals() == expected


def test_every_decision_is_logged_and_no_secret_is(run: Run) -> None:
    allowed = [event for event in run.stack.decisions() if event.get("result") is True]
    assert len(allowed) == sum(len(outcome.arrivals) for outcome in run.outcomes)
    for name in ("people", "doorward", "envoy"):
        log = (run.stack.folder / f"{name}.log").read_text()
        assert run.stack.secret not in log
        for use, token in run.tokens.items():
            # One row sends a token in a header of its own making, which nobody can know of.
            assert use == "elsewhere" or len(token) < 20 or token not in log


def test_the_access_log_names_the_decision(run: Run) -> None:
    log = (run.stack.folder / "envoy.log").read_text().splitlines()
    lines = [json.loads(line) for line in log if line.startswith("{")]
    ids = {event["decision_id"] for event in run.stack.decisions()}
    served = [line for line in lines if line["details"] == "via_upstream"]
    assert served
    assert {line["decision_id"] for line in served} <= ids


def test_rows_have_names_of_their_own() -> None:
    names = [(row.group, row.name) for row in ROWS]
    assert len(set(names)) == len(names)
