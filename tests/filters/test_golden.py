"""POST /v1/compile/PATH against what OPA's server answered, row by row.

Rows that differ are named in tests/differences/filters.toml with the reason; one that does not
differ fails.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

import pytest
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows
from tests.differences import load
from tests.rego.partial.recorded import comparable
from tests.rest.asgi import Answer, ask

from doorward.pdp.config import Config
from doorward.pdp.health import Health
from doorward.pdp.loader import Loaded
from doorward.pdp.metrics import Metrics
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego import from_python, number_text, parse_number
from doorward.rest.app import Api

pytestmark = pytest.mark.long

ROWS: Final = list(read_rows(GOLDEN / "filters.jsonl.gz"))
REASONS: Final = {row: each.reason for each in load("filters") for row in each.ids}
GENERATED: Final = re.compile(r"__local\w+__\d*|\b1\d{18}\b|(?<=\[)_\d*(?=\])")
TIMER: Final = re.compile(r'("(?:timer|counter|histogram)_\w+": ?)\d+')


def test_the_list_names_recorded_rows() -> None:
    assert {row["id"] for row in ROWS} >= REASONS.keys()


@pytest.mark.parametrize("part", range(8))
def test_the_answers_are_those_of_opa(part: int) -> None:
    wrong = []
    for row in ROWS[part::8]:
        mine, want = _of_answer(_answer(row)), _of_row(row["response"])
        if (mine != want) != (row["id"] in REASONS):
            wrong.append((row["id"], mine, want))
    assert not wrong


def _answer(row: dict[str, Any]) -> Answer:
    data: Any = from_python(row.get("data") or {})
    loaded = Loaded(row["policies"], data)
    app = Api(PDP(build(loaded)), Config(), Health(), Metrics("1"))
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
