"""`?explain=why`: the answer says which conditions decided, where every client may know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import parse_config
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.rest.authorization import Access
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = """package app

default allow := false

allow if input.user == "ann"
"""


def send(method: str, target: str, body: Any = None, config: str = "", **options: Any) -> Answer:
    pdp = PDP(build(Loaded({"p.rego": POLICY})))
    app = Api(pdp, parse_config(config, environment={}), Health(), Metrics("1"), **options)
    return ask(app, method, target, b"" if body is None else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1/data/app/allow?explain=why", {"input": {"user": "bob"}}),
        ("GET", "/v1/data/app/allow?explain=why&input=%7B%22user%22%3A%22bob%22%7D", None),
    ],
)
def test_an_answer_says_why(method: str, target: str, body: Any) -> None:
    document = json.loads(send(method, target, body).body)
    assert document["result"] is False
    (rule,) = document["explanation"]["rules"]
    failed = next(each for each in rule["definitions"] if not each["default"])
    assert failed["holds"] is False
    assert failed["conditions"][0]["values"] == {"input.user": "bob"}


def test_a_credential_is_masked() -> None:
    body = {"input": {"user": "bob", "password": "hunter2hunter2"}}
    assert "hunter2" not in send("POST", "/v1/data/app?explain=why", body).body


@pytest.mark.parametrize("explain", ["all", "", "off"])
def test_other_explanations_are_not_given(explain: str) -> None:
    answer = send("POST", f"/v1/data/app/allow?explain={explain}", {"input": {}})
    assert answer.body == '{"result":false}\n'


def events(target: str, body: Any = None) -> list[Any]:
    listed: list[Any] = json.loads(send("POST", target, body).body)["explanation"]
    return listed


@pytest.mark.parametrize("mode", ["fails", "full", "debug"])
def test_what_was_tried_comes_as_events_or_lines(mode: str) -> None:
    body = {"input": {"user": "bob", "password": "hunter2hunter2"}}
    told = events(f"/v1/data/app/allow?explain={mode}", body)
    assert all(
        {**each, "message": ""}
        == {
            "op": "note",
            "query_id": 0,
            "parent_id": 0,
            "type": "",
            "node": None,
            "locals": [],
            "message": "",
        }
        for each in told
    )
    lines = events(f"/v1/data/app/allow?explain={mode}&pretty", body)
    assert [each["message"] for each in told] == lines
    assert any('`input.user == "ann"` does not hold' in each for each in lines)
    assert not any("hunter2" in each for each in lines)


def test_a_query_is_explained_too() -> None:
    lines = events("/v1/query?explain=full&pretty", {"query": "data.app.allow == true"})
    assert any("does not hold" in each for each in lines)


def test_what_is_undefined_is_explained_in_full_only() -> None:
    assert "explanation" not in json.loads(send("POST", "/v1/data/app/no?explain=notes", {}).body)
    assert "explanation" in json.loads(send("POST", "/v1/data/app/no?explain=full", {}).body)


def test_instruments_are_listed_by_their_names() -> None:
    document = json.loads(send("POST", "/v1/data/app/allow?instrument", {"input": {}}).body)
    assert document["metrics"]["histogram_eval_op_plug"]["99.9%"] == 0
    plain = json.loads(send("POST", "/v1/data/app/allow?metrics", {"input": {}}).body)
    assert "histogram_eval_op_plug" not in plain["metrics"]


def test_what_clients_may_not_read_is_not_explained() -> None:
    target = "/v1/data/app/allow?explain=why"
    config = "server: {decision_paths: [app/allow]}"
    assert send("POST", target, {"input": {}}, config).status == 403
    allowing = "default_authorization_decision: /app/open"
    pdp = PDP(build(Loaded({"p.rego": f"{POLICY}\nopen := true\n"})))
    parts = parse_config(allowing, environment={}), Health(), Metrics("1")
    app = Api(pdp, *parts, access=Access("off", authorizes=True))
    assert ask(app, "POST", target, b"{}").status == 403
    assert ask(app, "POST", "/v1/data/app/allow", b"{}").status == 200
