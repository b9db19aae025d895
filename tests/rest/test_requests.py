"""A request's parts, read within limits and refused in OPA's words."""

from __future__ import annotations

import asyncio
import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message
from tests.rest.asgi import Answer, ask
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, Server, parse_config
from doorward.edge import Part
from doorward.pdp.decision import Decision
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.rest.memory import Memory, Room
from doorward.rest.requests import BadRequest, logged_headers, parameters, read_body, segments
from doorward.telemetry.health import Health, State
from doorward.telemetry.metrics import Metrics

POLICY = "package a\n\nallow := input.x\n"


def api(health: Health | None = None, **server: Any) -> Api:
    pdp = PDP(build(Loaded({"a.rego": POLICY})))
    return Api(pdp, Config(server=Server(**server)), health or Health(), Metrics("1"))


def post(app: Api, body: bytes | list[bytes], **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(app, "POST", "/v1/data/a/allow", body, names)


def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not() -> None:
    app = api(max_length=20)
    for answer in (
        post(app, b"", content_length="21"),
        post(app, [b'{"input": ', b'{"x": ', b"100000000}}"]),
    ):
        assert answer.status == 400
        assert '"message": "request body too large"' in answer.body
    assert post(app, b'{"input": {"x": 1}}').body == '{"result":1}\n'
    # To the byte, announced or not.
    for headers in ({}, {"content_length": "20"}):
        assert post(app, b'{"input": {"x": 10}}', **headers).body == '{"result":10}\n'
    assert post(app, b'{"input": {"x": 100}}').status == 400


def test_a_body_whose_client_has_left_is_not_decided() -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b'{"input": {"x": 1}}', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(BadRequest, match="ended early"):
        asyncio.run(read_body(request, Server(), Room(Memory(1 << 20))))


def test_headers_are_logged_where_the_request_has_them() -> None:
    values = {"x-a": ["1", "2"]}
    assert logged_headers(["x-b"], lambda name: values.get(name, [])) is None
    assert logged_headers(["x-a", "x-b"], lambda name: values.get(name, [])) == {
        "http": {"headers": {"x-a": ["1", "2"]}}
    }


@pytest.mark.parametrize("text", ["default_decision: /", 'default_decision: ""'])
def test_the_root_as_default_decision_is_all_of_data(text: str) -> None:
    pdp = PDP(build(Loaded({"a.rego": POLICY}, {"b": 1})))
    app = Api(pdp, parse_config(text), Health(), Metrics("1"))
    answer = ask(app, "POST", "/", b'{"x": true}')
    assert (answer.status, json.loads(answer.body)) == (200, {"a": {"allow": True}, "b": 1})
    limited = parse_config(text + "\nserver: {decision_paths: [a/allow]}")
    assert ask(Api(pdp, limited, Health(), Metrics("1")), "POST", "/", b"{}").status == 403


SECRETS = {"a/x.rego": POLICY, "b.rego": "package b\n\nopen := data.secrets.jwt\n"}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/secrets", "/secrets/jwt", "/b/open", "/a", "/a/allowed", "/allow"),
        *("/a%2fallow", "/%73ecrets", "/a/../secrets", "//secrets", "/secrets/"),
        "/a/allow/../../secrets",
    ],
)
def test_only_the_paths_of_decisions_are_served_where_they_are_named(
    method: str, path: str
) -> None:
    pdp = PDP(build(Loaded(SECRETS, {"secrets": {"jwt": "S3CRET"}})))
    config = Config(server=Server(decision_paths=("a/allow",)), default_decision="secrets")
    app = Api(pdp, config, Health(), Metrics("1"))
    for prefix in ("/v1/data", "/v0/data"):
        answer = ask(app, method, prefix + path, b'{"input": {"x": 1}}')
        assert answer.status in (301, 307, 403)
        assert "S3CRET" not in answer.body
        if answer.status == 403:
            assert '"code": "unauthorized"' in answer.body
    assert ask(app, "POST", "/", b"{}").status == 403
    assert ask(app, "GET", "/health").status == 200


def test_the_path_of_a_decision_is_served_with_what_is_below_it() -> None:
    app = api(decision_paths=("a/allow",))
    assert post(app, b'{"input": {"x": {"y": 1}}}').body == '{"result":{"y":1}}\n'
    answer = ask(app, "POST", "/v1/data/a/allow/y", b'{"input": {"x": {"y": 1}}}')
    assert answer.body == '{"result":1}\n'
    assert ask(api(decision_paths=()), "POST", "/v1/data/a/allow").status == 403


def test_a_zipped_body_cannot_grow_over_the_limit() -> None:
    bomb = gzip.compress(b'{"input": "' + b"x" * 1_000_000 + b'"}')
    answer = post(api(gzip_max_length=1000), bomb, content_encoding="gzip")
    assert answer.status == 400
    assert "gzip payload too large" in answer.body
    whole = b'{"input": 7}'
    for limit, status in ((len(whole), 200), (len(whole) - 1, 400)):
        app = api(gzip_max_length=limit)
        assert post(app, gzip.compress(whole), content_encoding="gzip").status == status


def test_a_body_is_yaml_only_where_it_says_so() -> None:
    app, text = api(), b"input:\n  x: 1\n"
    assert post(app, text, content_type="application/yaml").body == '{"result":1}\n'
    assert post(app, text, content_type="application/json").status == 400
    whole = ask(app, "POST", "/v0/data/a/allow", b"x: 1\n", {"content-type": "application/json"})
    assert whole.status == 400
    whole = ask(app, "POST", "/v0/data/a/allow", b"x: 1\n", {"content-type": "text/yaml"})
    assert (whole.status, whole.body) == (200, "1\n")


@pytest.mark.parametrize(
    ("query", "kind"),
    [("{}", "object"), ("[]", "array"), ("true", "bool"), ("1", "number")],
)
def test_a_field_of_another_kind_is_named_as_go_names_it(query: str, kind: str) -> None:
    answer = ask(api(), "POST", "/v1/query", f'{{"query": {query}}}'.encode())
    assert answer.status == 400
    assert f"cannot unmarshal {kind} into Go struct field" in answer.body


def test_the_input_of_a_query_string_is_the_last_one() -> None:
    def get(query: str) -> Answer:
        return ask(api(), "GET", "/v1/data/a/allow" + query)

    assert get("").body == "{}\n"
    assert get('?input={"x":1}&input={"x":2}').body == '{"result":2}\n'
    refused = get("?input={")
    assert refused.status == 400
    assert "parameter contains malformed input document" in refused.body


def test_a_zipped_body_may_have_parts_and_nothing_else() -> None:
    whole = b'{"input": 7}'
    parts = [gzip.compress(part) for part in (whole[:5], whole[5:])]
    assert post(api(), b"".join(parts), content_encoding="gzip").status == 200
    answer = post(api(), b"".join(parts) + b"x", content_encoding="gzip")
    assert (answer.status, "gzip: invalid header" in answer.body) == (400, True)
    many = gzip.compress(b" ") * 10_000
    assert post(api(), many, content_encoding="gzip").status == 400


def test_depth_is_refused_and_not_followed() -> None:
    answer = post(api(), b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert answer.status == 400
    assert "nested too deeply" in answer.body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nope", 404),
        ("/v1", 404),
        ("/v1/nope", 404),
        ("/v2/data", 404),
        ("/v1/data/%", 400),
        ("/v1/data/%zz", 400),
        ("/v1/data//x%0d%0aset-cookie:a", 400),
        ("/v1/data/../../etc", 307),
        ("/%761/data/a", 200),
    ],
)
def test_odd_paths_get_an_answer(path: str, status: int) -> None:
    answer = ask(api(), "GET", path)
    assert answer.status == status
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("//evil/x/", "/evil/x"),
        ("//%2F%2Fevil", "/evil"),
        ("//%5Cevil", "/evil"),
        ("/v1/data/%C3%BC/", "/v1/data/%C3%BC"),
        ("/v1/data/%F0%9F%98%80/", "/v1/data/%F0%9F%98%80"),
    ],
)
def test_a_redirect_never_leads_elsewhere(path: str, location: str) -> None:
    assert ask(api(), "GET", path).headers["location"] == location


def test_an_escaped_slash_stays_inside_its_segment() -> None:
    assert segments(b"/v1/data/a%2Fb/c") == ("", "v1", "data", "a/b", "c")


def test_parameters_are_read_as_go_reads_them() -> None:
    question = parameters(b"a=1&a=2&b&c=%zz&d=x;y&e=%20+&=f&pretty=TRUE")
    assert question.values("a") == ["1", "2"]
    assert question.values("e") == ["  "]
    assert [question.values(name) for name in "cd"] == [[], []]
    assert question.flag("b")
    assert question.flag("pretty")
    assert not question.flag("a")


def test_health_says_which_probe_fails_and_why() -> None:
    health = Health()
    app = api(health)
    health.set("envoy", State.NOT_READY)
    assert ask(app, "GET", "/health").status == 200
    assert ask(app, "GET", "/health?plugins").status == 500
    assert ask(app, "GET", "/health?plugins&exclude-plugin=envoy").status == 200
    health.set("envoy", State.OK)
    assert ask(app, "GET", "/health?plugins").body == "{}\n"
    health.reloaded("p.rego:1: broken")
    body = ask(app, "GET", "/health?plugins").body
    assert body.startswith('{"warning":"the last reload ')
    assert "p.rego" not in body
    assert ask(app, "GET", "/health?policies").status == 500


def test_metrics_count_requests_by_endpoint() -> None:
    app = api()
    post(app, b'{"input": {"x": 1}}')
    text = ask(app, "GET", "/metrics").body
    series = 'http_request_duration_seconds_count{code="200",handler="v1/data",method="post"} 1.0'
    assert series in text


def test_a_method_that_nobody_knows_cannot_fill_the_metrics() -> None:
    app = api()
    for n in range(5):
        ask(app, f"X{n}", "/v1/data/a")
    text = ask(app, "GET", "/metrics").body
    assert 'method="x1"' not in text
    assert 'method="other"' in text


def test_health_fails_when_a_thread_is_not_at_work() -> None:
    health = Health()
    app = api(health)
    part = Part("policy-watch", within=1)
    health.parts.add(part)
    assert ask(app, "GET", "/health").body == "{}\n"
    for _ in range(3):
        part.failed()
    for path in ("/health", "/health?plugins", "/health?policies"):
        answer = ask(app, "GET", path)
        assert answer.status == 500
        assert "policy-watch is failing" in answer.body
    metrics = ask(app, "GET", "/metrics").body
    assert 'part_healthy{part="policy-watch"} 0.0' in metrics


class UnknownError(Exception):
    """What a library raises that nobody thought of."""


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/v1/data/a", "/v0/data/a", "/", "/health/x"])
@pytest.mark.parametrize("error", [UnknownError("secret"), MemoryError(), SystemExit()])
def test_a_request_that_fails_gets_an_answer_without_the_reason(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> Decision:
        raise error

    monkeypatch.setattr(PDP, "decide", fail)
    with ThreadPoolExecutor(1) as thread:  # as the server does: not in the main thread
        answer = thread.submit(ask, api(), method, path).result(PATIENCE)
    if (method, path) in {("GET", "/"), ("GET", "/v0/data/a"), ("POST", "/health/x")}:
        assert answer.status in (200, 405)
        return
    assert answer.status == 500
    assert f'"message": "internal error ({type(error).__name__})"' in answer.body
    assert "secret" not in answer.body
    assert 'faults_total{edge="http"}' in ask(api(), "GET", "/metrics").body


def test_a_package_without_rules_is_an_empty_object() -> None:
    pdp = PDP(build(Loaded({"a.rego": "package a.b\n"}, {})))
    try:
        api = Api(pdp, Config(), Health(), Metrics("1"))
        results: dict[str, Any] = {"a/b": {}, "a": {"b": {}}, "a/c": None}
        for path, result in results.items():
            assert json.loads(ask(api, "GET", f"/v1/data/{path}").body).get("result") == result
    finally:
        pdp.close()
