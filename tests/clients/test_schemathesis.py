"""No request makes a server error: schemathesis asks what `/openapi.json` describes, and worse."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from doorward.bundles.loader import Loaded
from doorward.config.configuration import parse_config
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import Store
from doorward.rest.app import Api
from doorward.rest.openapi import document
from doorward.rest.routes import ROUTES
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

pytestmark = pytest.mark.long

schemathesis = import_module("schemathesis")

POLICY = """package shop

default allow := false

allow if input.user == "ann"

roles contains role if some role in input.roles

docs if input.docs.owner == input.user
"""
OPAS_OWN = (
    ("/v[01](/batch)?/data", "invalid_parameter: invalid path"),
    ("/v[01](/batch)?/data", "rego_type_error: undefined ref"),
    ("/v1/status", "status plugin not enabled"),
    ("/v1/query", "cannot evaluate empty query"),
    ("/health/", "health check (data.system.health"),
)
"""Answers with 500 that are OPA's: the path, and what they say."""


def application() -> Api:
    loaded = Loaded({"shop.rego": POLICY}, {"list": [1, {"a": None}]})
    config = parse_config("authzen: {decision: shop/allow}", environment={})
    pdp = PDP(build(loaded))
    return Api(pdp, config, Health(), Metrics("1"), store=Store(pdp, loaded))


# As `/openapi.json` has it; asking the application for it starts a thread.
schema: Any = schemathesis.openapi.from_dict(document(ROUTES))
schema.app = application()


@schema.parametrize()  # type: ignore[untyped-decorator]  # it has no types
@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_makes_a_server_error(case: Any) -> None:
    response = case.call()
    if response.status_code < 500:
        return
    document = response.json()
    path = response.request.url.partition("://")[2].partition("/")[2]
    said = str(document.get("message") or document.get("error") or "")
    is_opas = any(re.match(start, f"/{path}") and words in said for start, words in OPAS_OWN)
    assert is_opas, (response.request.method, path, said)
