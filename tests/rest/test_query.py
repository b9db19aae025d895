"""Queries of clients. What OPA answers stands in the recorded rows (`test_golden.py`)."""

from __future__ import annotations

import json

import pytest
from tests.rest.asgi import ask
from tests.rest.test_writes import api

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics


@pytest.mark.parametrize(
    "query",
    [
        'http.send({"method": "get", "url": "http://127.0.0.1:1"}, x)',
        'x := http.send({"method": "get", "url": "http://127.0.0.1:1"}).status',
        'x := [y | y := http.send({"method": "get", "url": "http://127.0.0.1:1"})]',
    ],
)
def test_a_query_sends_no_requests(query: str) -> None:
    answer = ask(api(), "POST", "/v1/query", json.dumps({"query": query}).encode())
    assert answer.status == 400
    assert "unsafe built-in function calls in expression: http.send" in answer.body


def test_a_query_sees_policies_data_and_input() -> None:
    body = {"query": "data.a.allow; data.users[name]", "input": {"user": "ann"}}
    answer = ask(api(), "POST", "/v1/query", json.dumps(body).encode())
    assert answer.body == '{"result":[{"name":"ann"}]}\n'


@pytest.mark.parametrize("target", ["/v1/query", "/v1/data/big/x", "/v0/data/big/x"])
def test_a_result_that_is_too_large_for_json_is_an_error(target: str) -> None:
    doubled = "; ".join(f"x{n + 1} := [x{n}, x{n}]" for n in range(60))
    loaded = Loaded({"big.rego": f"package big\n\nx := x60 if {{ x0 := 1; {doubled} }}\n"})
    pdp = PDP(build(loaded, Settings(deadline=0.2)))
    app = Api(pdp, Config(), Health(), Metrics("1"))
    answer = ask(app, "POST", target, b'{"query": "x = data.big.x"}')
    assert answer.status == 500
    assert "eval_cancel_error" in answer.body
