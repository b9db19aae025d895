"""What the configuration calls a secret is read by policies, and shown to nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import ConfigError, parse_config
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = "package a\n\nallow if input.key == data.keys.signing\n"
DATA: dict[Any, Any] = {"keys": {"signing": "hunter2", "public": "p"}, "keys2": 1, "top": "hunter2"}


class Sink:
    def __init__(self) -> None:
        self.results: list[Any] = []

    def record(self, answered: Answered) -> None:
        self.results.append(answered.decision.result)

    def close(self) -> None:
        pass


def send(
    method: str,
    target: str,
    body: Any = None,
    sink: Sink | None = None,
    secrets: str = "keys/signing, /top",
    content: dict[Any, Any] = DATA,
) -> Answer:
    config = parse_config(f"secrets: [{secrets}]", environment={})
    pdp = PDP(build(Loaded({"a.rego": POLICY}, content)), sink, secrets=config.secrets)
    app = Api(pdp, config, Health(), Metrics("1"))
    return ask(app, method, target, b"" if body is None else json.dumps(body).encode())


LISTED = {"keys": ["hunter2", "p", {"in": "hunter2", "out": 1}], "by": {"1": "hunter2", "b": 1}}


def send_listed(method: str, target: str, body: Any = None) -> Answer:
    return send(method, target, body, secrets="keys/0, keys/2/in, by/1", content=LISTED)


@pytest.mark.parametrize("index", ["0", "00", "+0", "-0", "%30", "000000"])
def test_an_index_is_a_secret_however_it_is_written(index: str) -> None:
    requests: list[tuple[str, str, Any]] = [
        ("GET", f"/v1/data/keys/{index}", None),
        ("POST", f"/v1/data/keys/{index}", {"input": 1}),
        ("POST", f"/v0/data/keys/{index}", 1),
        ("POST", f"/v1/batch/data/keys/{index}", {"inputs": {"a": 1}}),
        ("GET", "/v1/data/keys/02/in", None),
        ("GET", "/v1/data/by/01", None),
    ]
    for method, target, body in requests:
        answer = send_listed(method, target, body)
        assert answer.status == 403, target
        assert "hunter2" not in answer.body


def test_secrets_in_arrays_are_null_above() -> None:
    shown = {"keys": [None, "p", {"out": 1}], "by": {"b": 1}}
    assert json.loads(send_listed("GET", "/v1/data").body)["result"] == {"a": {}, **shown}
    assert json.loads(send_listed("GET", "/v1/data/keys").body) == {"result": shown["keys"]}
    assert json.loads(send_listed("GET", "/v1/data/keys/02").body) == {"result": {"out": 1}}


@pytest.mark.parametrize("path", ["/keys/signing", "/keys/signing/x", "/top"])
def test_operations_on_secrets_are_refused(path: str) -> None:
    operations = [
        {"op": "add", "path": "/keys2", "value": 2},
        {"op": "replace", "path": path, "value": "mine"},
    ]
    assert send("PATCH", "/v1/data", operations).status == 403
    assert send("PATCH", "/v1/data", operations[:1]).status == 204


def test_policies_read_secrets() -> None:
    answer = send("POST", "/v1/data/a/allow", {"input": {"key": "hunter2"}})
    assert answer.body == '{"result":true}\n'


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/data/keys/signing"),
        ("POST", "/v1/data/keys/signing"),
        ("POST", "/v0/data/keys/signing"),
        ("GET", "/v1/data/top/0"),
        ("GET", "/v1/data/%6Beys/signing"),
        ("POST", "/v1/batch/data/keys/signing"),
        ("POST", "/v1/data/a/allow?explain=why"),
        ("GET", "/v1/data/a/allow?input={}&explain=why"),
        ("POST", "/v1/batch/data/a/allow?explain=why"),
        ("GET", "/v1/query?q=data.keys"),
        ("POST", "/v1/query"),
        ("PUT", "/v1/policies/x"),
        ("DELETE", "/v1/policies/a.rego"),
    ],
)
def test_what_would_show_a_secret_is_refused(method: str, target: str) -> None:
    answer = send(method, target, {})
    assert answer.status == 403
    assert "hunter2" not in answer.body


@pytest.mark.parametrize(
    ("method", "target", "shown"),
    [
        ("GET", "/v1/data", {"result": {"a": {}, "keys": {"public": "p"}, "keys2": 1}}),
        ("GET", "/v1/data/keys", {"result": {"public": "p"}}),
        ("POST", "/v0/data/keys", {"public": "p"}),
        ("GET", "/v1/data/keys2", {"result": 1}),
    ],
)
def test_what_stands_above_a_secret_is_shown_without_it(
    method: str, target: str, shown: Any
) -> None:
    sink = Sink()
    answer = json.loads(send(method, target, sink=sink).body)
    answer.pop("decision_id", None)
    assert answer == shown
    assert "hunter2" not in repr(sink.results)


def test_a_batch_shows_no_secrets() -> None:
    answer = send("POST", "/v1/batch/data", {"inputs": {"a": 1}})
    assert json.loads(answer.body)["responses"]["a"]["result"]["keys"] == {"public": "p"}


@pytest.mark.parametrize("text", ["['']", "[/]", "[a//b]", "a"])
def test_secrets_are_paths(text: str) -> None:
    with pytest.raises(ConfigError, match="secrets"):
        parse_config(f"secrets: {text}", environment={})
