"""POST /v1/compile: what clients may not do. The answers stand in `test_golden.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, Server
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

RULES = "".join(f"p if input.a{n} == 1\n\n" for n in range(8))
POLICY = f"package a\n\n{RULES}all if {{ {'; '.join(['p'] * 12)} }}\n"


def answer_to(
    body: Any, *, server: Server | None = None, secrets: Any = (), deadline: float = PATIENCE
) -> Answer:
    pdp = PDP(build(Loaded({"a.rego": POLICY}), Settings(deadline=deadline)), secrets=secrets)
    config = Config() if server is None else Config(server=server)
    app = Api(pdp, config, Health(), Metrics("1"))
    return ask(app, "POST", "/v1/compile", json.dumps(body).encode())


def test_a_query_sends_no_requests() -> None:
    answer = answer_to({"query": 'x := http.send({"method": "get", "url": input.u}).status'})
    assert answer.status == 400
    assert "unsafe built-in function calls in expression: http.send" in answer.body


def test_a_residual_is_bounded() -> None:
    answer = answer_to({"query": "data.a.all"}, deadline=1)
    assert answer.status == 500
    assert "eval_limit_error" in answer.body or "eval_cancel_error" in answer.body


@pytest.mark.parametrize("path", ["x", "input[x]", "data.a[_]"])
def test_an_unknown_that_is_not_a_path_is_refused(path: str) -> None:
    answer = answer_to({"query": "true", "unknowns": [path]})
    assert answer.status == 400
    assert "is not a path below input or data" in answer.body


def test_nobody_asks_queries_where_documents_are_chosen_or_data_is_secret() -> None:
    query = {"query": "data.a.p"}
    assert answer_to(query).status == 200
    assert answer_to(query, server=Server(decision_paths=("a/p",))).status == 403
    assert answer_to(query, secrets=[("keys",)]).status == 403


def test_a_get_without_a_path_is_redirected_as_in_opa() -> None:
    app = Api(PDP(build(Loaded({}))), Config(), Health(), Metrics("1"))
    answer = ask(app, "GET", "/v1/compile")
    assert (answer.status, answer.headers["location"]) == (307, "/v1/compile/")
    assert answer.body == '<a href="/v1/compile/">Temporary Redirect</a>.\n\n'
    assert answer.headers["vary"] == "Accept-Encoding"


MASKED = """package a

# METADATA
# scope: document
# compile:
#   unknowns: [input.docs]
#   mask_rule: data.b.masks
annotated if input.docs.x == 1

p if input.docs.x == 1

masks.docs.y := {"replace": {"value": "own"}}
"""
OTHER = 'package b\n\nmasks.docs.z := {"replace": {"value": "S3CRET"}}\n'


@pytest.mark.parametrize(
    ("path", "rule", "status", "value"),
    [
        ("a/p", "data.b.masks", 403, ""),
        ("a/p", "data.b", 403, ""),
        ("a/p", "data.b.nothing", 403, ""),
        ("a/p", "data.a", 403, ""),
        ("a/p", 'data.b["masks"]', 403, ""),
        ("a/p", "masks", 200, "own"),
        ("a/p", "data.a.masks", 200, "own"),
        ("a/annotated", "", 200, "S3CRET"),
        ("a/annotated", "data.b.masks", 403, ""),
    ],
)
def test_a_mask_rule_that_a_client_names_is_one_that_is_served(
    path: str, rule: str, status: int, value: str
) -> None:
    pdp = PDP(build(Loaded({"a.rego": MASKED, "b.rego": OTHER})))
    served = Server(decision_paths=("a/p", "a/annotated", "a/masks"))
    body = {"input": {}, "unknowns": ["input.docs"], "options": {"maskRule": rule}}
    headers = {"accept": "application/vnd.opa.ucast.all+json"}
    request = ("POST", f"/v1/compile/{path}", json.dumps(body).encode())
    answer = ask(Api(pdp, Config(server=served), Health(), Metrics("1")), *request, headers=headers)
    assert answer.status == status
    assert value in answer.body
    assert ("S3CRET" in answer.body) == (value == "S3CRET")
    everything = Api(pdp, Config(), Health(), Metrics("1"))
    assert ask(everything, *request, headers=headers).status in (200, 400)
