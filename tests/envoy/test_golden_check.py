"""Each recorded CheckRequest, decided by its recorded policy, gets the recorded answer and event.

In compatible mode: `on-error: fail-call`, no `strict`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from tests.envoy.golden import Row, comparable, reasons, recorded, rows
from tests.envoy.request.test_golden_input import rule_of as input_rule_of
from tests.envoy.request.test_golden_input import services_of

from doorward.config.schema import read_plain
from doorward.envoy.check import make_check
from doorward.envoy.errors import CallFailedError
from doorward.envoy.options import Options
from doorward.pdp.decision import Answered, Decision, error_document
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Snapshot
from doorward.rego import Engine
from doorward.rego.json_text import from_json
from doorward.rego.values import UNDEFINED, Undefined, Value, to_json

INPUTS = rows("envoy-input.jsonl.gz")
DECISIONS = rows("envoy-decision.jsonl.gz")
RULES: dict[str, Callable[[Row], bool]] = {
    "bytes": lambda row: any(
        "\ufffd" in value["other"] for value in row.get("go_variant", {}).get("values", [])
    ),
    "function": lambda row: row["id"] == "allow-is-function",
}


class Events:
    """Keeps what would be logged."""

    def __init__(self) -> None:
        self.kept: list[tuple[Decision, Value | Undefined]] = []

    def record(self, answered: Answered) -> None:
        self.kept.append((answered.decision, answered.input))

    def close(self) -> None:
        pass


def options_of(row: Row) -> Options:
    options, unknown = read_plain(Options, row["config"])
    # A key of the whole configuration, which stands in no block of a plugin.
    assert set(unknown) <= {"nd_builtin_cache: unknown key, ignored"}
    return replace(options, on_error="fail-call")


@cache
def engine_of(*modules: tuple[str, str]) -> Engine:
    return Engine(modules=dict(modules))


def ask(row: Row) -> tuple[bytes | CallFailedError, Events]:
    events, options = Events(), options_of(row)
    engine = engine_of(("policy.rego", row["policy"]), *row.get("extra_policies", {}).items())
    pdp = PDP(Snapshot(engine, "test"), events)
    services, version = services_of(options), row.get("api", "v3")
    check = make_check(pdp, options, services=services, version=version)
    try:
        return check(base64.b64decode(row["request"])), events
    except CallFailedError as error:
        return error, events


def assert_event(row: Row, events: Events) -> None:
    """The event is the recorded one: what masks and drops make of it is the log's own test."""
    expected = row["log"]
    if expected is None or row.get("extra_policies"):
        return
    [(decision, actual)] = events.kept
    assert expected.get("path", "") == decision.path
    assert expected.get("query") == decision.query
    if "error" in expected:
        assert decision.error is not None
        assert without_column(error_document(decision.error)) == without_column(expected["error"])
    else:
        assert decision.error is None
        assert not isinstance(decision.result, Undefined)
        assert from_json(to_json(decision.result)) == expected["result"]
    # A request that could not be read has no input.
    assert (actual is UNDEFINED) == (row.get("input") is None and "request_json" in row)


def without_column(error: Any) -> Any:
    """Columns are for the engine's tests."""
    if isinstance(error, dict) and "location" in error:
        return error | {
            "location": {"file": error["location"]["file"], "row": error["location"]["row"]}
        }
    return error


def rule_of(row: Row) -> str:
    return next((name for name, applies in RULES.items() if applies(row)), "")


def assert_recorded(row: Row) -> None:
    answer, events = ask(row)
    if row.get("error"):
        assert isinstance(answer, CallFailedError)
        assert {"code": answer.code, "message": answer.message} == row["error"]
    else:
        assert isinstance(answer, bytes), answer
        [(decision, _)] = events.kept
        assert comparable(answer, decision.decision_id) == recorded(row)
    assert_event(row, events)


@pytest.mark.parametrize("row", [*INPUTS, *DECISIONS])
def test_request_gets_the_recorded_answer(row: Row) -> None:
    if not input_rule_of(row) and not rule_of(row):
        assert_recorded(row)
        return
    with pytest.raises(AssertionError):
        assert_recorded(row)


def test_every_listed_rule_is_needed() -> None:
    actual = [param.values[0] for param in (*INPUTS, *DECISIONS) if param.values[0]]
    if actual:
        needed = {rule_of(row) for row in actual} | {input_rule_of(row) for row in actual}
        assert needed - {""} == set(reasons())


@pytest.mark.parametrize("row", DECISIONS)
def test_what_failed_a_call_is_a_denial_by_default(row: Row) -> None:
    if not row.get("error"):
        return
    options = replace(options_of(row), on_error="deny")
    engine = engine_of(("policy.rego", row["policy"]))
    check = make_check(PDP(Snapshot(engine, "test")), options)
    response: Any = comparable(check(base64.b64decode(row["request"])))
    assert response.status.code == 7
    assert response.denied_response.status.code == 403
