"""POST /v1/compile/PATH against what OPA's server answered, row by row.

Rows that differ are named in tests/differences/filters.toml with the reason; one that does not
differ fails.
"""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import Any, Final

import pytest
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows
from tests.differences import load
from tests.rego.partial.recorded import comparable
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.decision_log.log import event_of
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego import from_python
from doorward.rego.shared import number_text, parse_number
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

pytestmark = pytest.mark.long

REASONS: Final = {row: each.reason for each in load("filters") for row in each.ids}
GENERATED: Final = re.compile(r"__local\w+__\d*|\b1\d{18}\b|(?<=\[)_\d*(?=\])")
TIMER: Final = re.compile(r'("(?:timer|counter|histogram)_\w+": ?)\d+')


@cache
def recorded() -> list[dict[str, Any]]:
    return list(read_rows(GOLDEN / "filters.jsonl.gz"))


def test_the_list_names_recorded_rows() -> None:
    assert {row["id"] for row in recorded()} >= REASONS.keys()


@pytest.mark.parametrize("part", range(8))
def test_the_answers_are_those_of_opa(part: int) -> None:
    wrong = []
    for row in recorded()[part::8]:
        events = Events()
        mine, want = _of_answer(_answer(row, events)), _of_row(row["response"])
        if "log" in row:
            mine["log"], want["log"] = [*map(_of_event, events.answered)], _of_log(row["log"])
        if (mine != want) != (row["id"] in REASONS):
            wrong.append((row["id"], mine, want))
    assert not wrong


class Events:
    """What would be logged."""

    def __init__(self) -> None:
        self.answered: list[Answered] = []

    def record(self, answered: Answered) -> None:
        self.answered.append(answered)

    def close(self) -> None:
        pass


def _of_event(answered: Answered) -> dict[str, Any]:
    event = event_of(answered, {})
    context = answered.request_context
    assert context is not None
    assert context.timers is not None
    metrics = {*answered.decision.metrics, *context.timers}
    return _event(event) | {"metric_names": {*METRICS & metrics}}


def _of_log(event: dict[str, Any] | None) -> list[dict[str, Any]]:
    if event is None:
        return []
    return [_event(event) | {"metric_names": METRICS.intersection(event["metric_names"])}]


METRICS: Final = frozenset({
    "timer_compile_eval_constraints_ns", "timer_compile_eval_mask_rule_ns",
    "timer_compile_prep_partial_ns", "timer_compile_translate_queries_ns",
    "timer_rego_partial_eval_ns", "timer_rego_query_compile_ns", "timer_rego_query_parse_ns",
    "timer_server_handler_ns",
})  # fmt: skip
"""Annotations are read once for both kinds, and masks are not timed apart in the evaluation."""


def _event(event: dict[str, Any]) -> dict[str, Any]:
    compared = ("custom", "error", "input", "path", "query", "result")
    return {key: _said(json.dumps(event[key], sort_keys=True)) for key in compared if key in event}


def _answer(row: dict[str, Any], events: Events) -> Answer:
    data: Any = from_python(row.get("data") or {})
    loaded = Loaded(row["policies"], data)
    app = Api(PDP(build(loaded), events), Config(), Health(), Metrics("1"))
    request = row["request"]
    body = (request.get("body") or "").encode()
    if "body_b64" in request:
        body = base64.b64decode(request["body_b64"])
    return ask(app, request["method"], request["path"], body, request.get("headers"))


def _of_answer(answer: Answer) -> dict[str, Any]:
    headers = {k: v for k, v in answer.headers.items() if k != "content-length"}
    return {"status": answer.status, "headers": headers, "body": _said(answer.body)}


def _of_row(response: dict[str, Any]) -> dict[str, Any]:
    if "failed" in response:
        return response
    return {
        "status": response["status"],
        "headers": response["headers"],
        "body": _said(response.get("body") or ""),
    }


def _said(text: str) -> Any:
    text = TIMER.sub(r"\g<1>0", GENERATED.sub("0", text))
    try:
        document = json.loads(text, parse_float=parse_number)
    except ValueError:
        return text
    if isinstance(document, dict) and "metrics" in document:
        # The recording has no values of metrics, histograms included.
        document["metrics"] = dict.fromkeys(document["metrics"], 0)
    result = document.get("result") if isinstance(document, dict) else None
    if isinstance(result, dict) and "queries" in result:
        ast = {"support": [], **result}
        return document | {"result": comparable(ast, unordered=False)}
    return json.dumps(document, default=number_text)
