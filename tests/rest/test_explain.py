"""`?explain=why`: the answer says which conditions decided, where every client may know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask

from doorward.pdp.config import parse_config
from doorward.pdp.health import Health
from doorward.pdp.loader import Loaded
from doorward.pdp.metrics import Metrics
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.rest.authorization import Access

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


@pytest.mark.parametrize("explain", ["full", "notes", "", "off"])
def test_other_explanations_are_not_given(explain: str) -> None:
    answer = send("POST", f"/v1/data/app/allow?explain={explain}", {"input": {}})
    assert answer.body == '{"result":false}\n'


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
