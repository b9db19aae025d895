"""Every row of the acceptance matrix, through the real Envoy, in order, against one stack."""

from __future__ import annotations

import json

import httpx
import pytest
from tests.acceptance.conftest import Run
from tests.waiting import PATIENCE, wait_until

from acceptance.check import run_row
from acceptance.matrix import ROWS
from acceptance.row import Row

# Rows build on each other: one worker runs them all.


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.group}: {row.name}" for row in ROWS])
def test_row(run: Run, row: Row) -> None:
    outcome = run_row(run.stack, row, run.tokens)
    run.outcomes.append(outcome)
    assert not outcome.problems, outcome.answer


def test_nothing_arrived_late(run: Run) -> None:
    expected = [arrival for outcome in run.outcomes for arrival in outcome.arrivals]
    assert run.stack.arrivals() == expected


def test_no_log_holds_a_secret(run: Run) -> None:
    for name in ("people", "doorward", "envoy"):
        log = (run.stack.folder / f"{name}.log").read_text()
        assert run.stack.secret not in log
        for use, token in run.tokens.items():
            # One row sends a token in a header of its own making, which nobody can know of.
            assert use == "elsewhere" or len(token) < 20 or token not in log


@pytest.mark.parametrize("path", ["", "/secrets", "/secrets/jwt", "/envoy", "/envoy/authz"])
def test_the_api_serves_the_decision_and_no_secret(run: Run, path: str) -> None:
    assert _ask_api(run, f"/v1/data{path}")[0] == 403
    status, body = _ask_api(run, "/v1/data/envoy/authz/allow")
    assert (status, run.stack.secret in body) == (200, False)


def _ask_api(run: Run, target: str) -> tuple[int, str]:
    transport = httpx.HTTPTransport(uds=str(run.stack.folder / "api.sock"))
    with httpx.Client(transport=transport, timeout=PATIENCE) as api:
        answer = api.get(f"http://doorward{target}")
    return answer.status_code, answer.text


def test_every_request_that_arrived_was_decided_and_logged(run: Run) -> None:
    arrived = sum(len(outcome.arrivals) for outcome in run.outcomes)
    served = _wait_for_lines(run, "via_upstream", arrived)

    def allowed() -> set[str]:
        return {e["decision_id"] for e in run.stack.decisions() if e.get("result") is True}

    wait_until(lambda: len(allowed()) >= arrived, "the decision log is not complete")
    assert len({line["decision_id"] for line in served}) == arrived
    assert {line["decision_id"] for line in served} <= allowed()


def _wait_for_lines(run: Run, details: str, count: int) -> list[dict[str, object]]:
    # Envoy writes its access log once in a while.
    def lines() -> list[dict[str, object]]:
        log = (run.stack.folder / "envoy.log").read_text()
        whole = log[: log.rfind("\n") + 1].splitlines()
        documents = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in documents if line["details"] == details]

    wait_until(lambda: len(lines()) >= count, "the access log is not complete")
    return lines()


def test_rows_have_names_of_their_own() -> None:
    names = [(row.group, row.name) for row in ROWS]
    assert len(set(names)) == len(names)
