"""A route is one row of the table: everything else is derived, and nobody may ask by oversight."""

from __future__ import annotations

import json

import pytest
from scripts.opa_page import endpoints
from starlette.responses import Response
from tests.rest.asgi import ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, Server
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest import rules
from doorward.rest.answers import json_answer
from doorward.rest.app import Api
from doorward.rest.authorization import Access
from doorward.rest.body import Body
from doorward.rest.exchange import Exchange
from doorward.rest.openapi import document
from doorward.rest.route import RequestBody, Route, Routes, Rule
from doorward.rest.routes import ROUTES
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = """package system.authz

default allow := false

allow if input.body.word == "open"
"""


async def repeat(exchange: Exchange) -> Response:
    def answer(body: Body) -> Response:
        return json_answer(json.dumps([*exchange.path, body.text.decode()]) + " " * 2000)

    return await exchange.read(answer)


ROW = Route(
    path="/v1/repeated[/{words}]",
    methods=("POST",),
    endpoint=repeat,
    name="v1/repeated",
    access=rules.EVERYTHING,
    body=RequestBody({"type": "object"}, is_authorized=True),
    summary="What was said, again.",
    flags=("pretty",),
    answers=("200", "404"),
    zips=True,
)
MORE = Routes([*ROUTES.rows, ROW])


def api(metrics: Metrics | None = None, *, served: bool = False, authorizes: bool = False) -> Api:
    server = Server(decision_paths=("a",)) if served else Server()
    pdp = PDP(build(Loaded({"a.rego": POLICY})))
    access = Access(authorizes=authorizes)
    config = Config(server=server)
    return Api(pdp, config, Health(), metrics or Metrics("1"), routes=MORE, access=access)


def test_a_row_is_dispatched_measured_and_zipped() -> None:
    metrics = Metrics("1")
    app = api(metrics)
    answer = ask(app, "POST", "/v1/repeated/a/b", b"{}")
    assert json.loads(answer.body) == ["a", "b", "{}"]
    assert json.loads(ask(app, "POST", "/v1/repeated", b"{}").body) == ["{}"]
    zipped = ask(app, "POST", "/v1/repeated", b"{}", {"accept-encoding": "gzip"})
    assert zipped.headers["content-encoding"] == "gzip"
    counted = 'http_request_duration_seconds_count{code="200",handler="v1/repeated",method="post"}'
    assert f"{counted} 3.0" in metrics.render().decode()


def test_a_row_has_its_redirects() -> None:
    for path, status in (("/v1/repeated/", 301), ("/v1/repeated/a/", 301), ("/v1//repeated", 307)):
        answer = ask(api(), "POST", path, b"{}")
        assert answer.status == status, path
        assert answer.headers["location"] == path.replace("//", "/").rstrip("/")
    assert ask(api(), "POST", "/v1/repeated/a//b", b"{}").status == 307


def test_a_row_is_for_whom_its_rule_says() -> None:
    refused = ask(api(served=True), "POST", "/v1/repeated", b"{}")
    assert refused.status == 403
    assert '"code": "unauthorized"' in refused.body
    assert ask(api(), "GET", "/v1/repeated").status == 405
    assert ask(api(served=True), "GET", "/v1/repeated").status == 403


def test_the_system_policy_sees_the_body_of_a_row_that_says_so() -> None:
    app = api(authorizes=True)
    assert ask(app, "POST", "/v1/repeated", b'{"word": "open"}').status == 200
    refused = ask(app, "POST", "/v1/repeated", b'{"word": "no"}')
    assert refused.status == 401
    assert refused.headers["vary"] == "Accept-Encoding"


def test_a_row_is_described() -> None:
    paths = document(MORE)["paths"]
    (parameter,) = paths["/v1/repeated/{words}"]["parameters"]
    assert parameter["name"] == "words"
    operation = paths["/v1/repeated"]["post"]
    assert operation["summary"] == "What was said, again."
    assert operation["responses"].keys() >= {"200", "404", "405"}
    assert operation["requestBody"]["content"]["application/json"]["schema"] == {"type": "object"}
    assert json.loads(ask(api(), "GET", "/openapi.json").body) == document(MORE)
    line = "| `POST /v1/repeated` | What was said, again. | only without `server.decision_paths` |"
    assert line in endpoints(MORE)
    assert line not in endpoints()


@pytest.mark.parametrize(
    "row", ROUTES.rows, ids=[f"{row.path} {row.methods}" for row in ROUTES.rows]
)
def test_rows_are_for_everybody_only_where_they_show_nothing(row: Route) -> None:
    """A rule that lets everybody ask is for these paths, and a new one stands here first."""
    is_open = row.access in (rules.EVERYBODY, rules.PROBES, rules.CONSOLE)
    assert is_open == (
        row.name in ("health", "metrics", "openapi", "console")
        or (row.name == "index" and "GET" in row.methods)
        or row.path.startswith("/.well-known/")
    )


def test_only_probes_are_for_listeners_of_diagnostics() -> None:
    names = {row.name for row in ROUTES.rows if row.access.is_probe}
    assert names == {"console", "health", "metrics"}


def test_the_system_policy_sees_the_bodies_of_posts_alone() -> None:
    shown = [row for row in ROUTES.rows if row.body is not None and row.body.is_authorized]
    assert {row.methods for row in shown} == {("POST",)}


def test_two_rows_are_not_one_route() -> None:
    with pytest.raises(ValueError, match="two rows of the route table have the same method"):
        Routes([*MORE.rows, ROW])
    other = Route(
        path=ROW.path,
        methods=("PUT",),
        endpoint=repeat,
        name="other",
        access=Rule("nobody", lambda _: False),
        body=None,
        summary="",
    )
    with pytest.raises(ValueError, match="two rows of the route table have different route names"):
        Routes([*MORE.rows, other])


def test_a_match_names_its_pattern_as_a_router_of_go_does() -> None:
    patterns = {
        ("v1", "data"): "/v1/data",
        ("v1", "data", "a", "b"): "/v1/data/{path...}",
        ("v1", "query"): "/v1/query",
        ("health",): "/health",
    }
    for path, pattern in patterns.items():
        match = ROUTES.match(path)
        assert match is not None
        assert match.template == pattern
