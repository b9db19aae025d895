"""What clients change by the API: data, policies; and what keeps them from it.

What OPA answers stands in the recorded rows (`test_golden.py`).
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, Server
from doorward.pdp import store as store_module
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import Store
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = "package a\n\nallow if data.users[input.user]\n"


def api(**server: object) -> Api:
    loaded = Loaded({"a.rego": POLICY}, {"users": {"ann": True}})
    pdp = PDP(build(loaded))
    config = Config(server=Server(**server))  # type: ignore[arg-type]
    return Api(pdp, config, Health(), Metrics("1"), store=Store(pdp, loaded))


def code_of(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["code"]


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", "/v1/data/a/x"),
        ("PATCH", "/v1/data/a"),
        ("DELETE", "/v1/data/a/x"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/x"),
        ("DELETE", "/v1/policies/a.rego"),
        ("GET", "/v1/query?q=data.users"),
        ("POST", "/v1/query"),
        ("GET", "/v1/config"),
        ("GET", "/v1/status"),
    ],
)
def test_where_some_documents_are_served_nothing_else_is(method: str, target: str) -> None:
    assert code_of(ask(api(decision_paths=("a",)), method, target, b"1")) == (403, "unauthorized")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_body_that_is_too_large_is_refused(method: str) -> None:
    answer = ask(api(max_length=10), method, "/v1/data/x", b'"0123456789"')
    assert code_of(answer) == (400, "invalid_parameter")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'[{"op": 1}]', "number into Go struct field PatchV1.op of type string"),
        (b'[{"op": "add", "path": {}}]', "object into Go struct field PatchV1.path of type string"),
        (b"[1]", "number into Go value of type types.PatchV1"),
        (b'"x"', "string into Go value of type []types.PatchV1"),
    ],
)
def test_operations_of_the_wrong_type_are_named(body: bytes, message: str) -> None:
    answer = ask(api(), "PATCH", "/v1/data/users", body)
    assert json.loads(answer.body)["message"] == f"json: cannot unmarshal {message}"


def test_nothing_to_do_is_no_error() -> None:
    for body in (b"null", b"[]"):
        assert ask(api(), "PATCH", "/v1/data/users", body).status == 204


def test_names_of_a_pointer_are_unescaped() -> None:
    app = api()
    body = b'[{"OP": "add", "Path": "/a~1b~0c%20d", "value": 1}]'
    assert ask(app, "PATCH", "/v1/data/users", body).status == 204
    assert '"a/b~c d":1' in ask(app, "GET", "/v1/data/users").body


def test_who_waits_too_long_for_other_changes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "WAIT", 0.01)
    pdp = PDP(build(Loaded({"a.rego": POLICY})))
    store = Store(pdp)
    app = Api(pdp, Config(), Health(), Metrics("1"), store=store)
    with store._hold_lock(store._publishing):
        assert code_of(ask(app, "PUT", "/v1/data/x", b"1")) == (503, "unavailable")
    with store._hold_lock(store._compiling):
        assert code_of(ask(app, "PUT", "/v1/policies/x", b"package x")) == (503, "unavailable")


def test_readers_see_all_of_a_change_or_nothing() -> None:
    """Two values that are always changed together are never seen apart."""
    app = api()
    policy = b"package pair\n\nsame if data.pair_of.x == data.pair_of.y\n"
    assert ask(app, "PUT", "/v1/data/pair_of", b'{"x": 0, "y": 0}').status == 204
    assert ask(app, "PUT", "/v1/policies/pair.rego", policy).status == 200
    numbers = count(1)

    def change() -> int:
        new = next(numbers)
        operations = [{"op": "replace", "path": name, "value": new} for name in ("x", "y")]
        return ask(app, "PATCH", "/v1/data/pair_of", json.dumps(operations).encode()).status

    def read() -> str:
        return ask(app, "GET", "/v1/data/pair/same").body

    with ThreadPoolExecutor(4) as pool:
        changes = [pool.submit(change) for _ in range(50)]
        answers = [pool.submit(read) for _ in range(50)]
        assert {each.result() for each in changes} == {204}
        assert {each.result() for each in answers} == {'{"result":true}\n'}
