"""Many inputs in one request: EOPA's endpoint, as its clients call it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, Server
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = """package a

p := x if { some x in [input.x] }

p := "other" if input.fails

whole := input

slow if { some i in numbers.range(1, 100000); some j in numbers.range(1, 1000); i + j < 0 }
"""


class Sink:
    """A decision log that keeps what it gets."""

    def __init__(self) -> None:
        self.decisions: list[Any] = []

    def record(self, answered: Answered) -> None:
        self.decisions.append(answered.decision)

    def close(self) -> None:
        pass


def api(sink: Sink | None = None, settings: Settings | None = None, **server: Any) -> Api:
    pdp = PDP(build(Loaded({"a.rego": POLICY}), settings), sink)
    return Api(pdp, Config(server=Server(**server)), Health(), Metrics("1"))


def batch(app: Api, body: Any, target: str = "/v1/batch/data/a/p", **headers: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(app, "POST", target, content, headers)


FAILS = {"x": 1, "fails": True}


@pytest.mark.parametrize(
    ("inputs", "status", "responses"),
    [
        ({"a": {"x": 1}, "b": {"x": None}}, 200, {"a": {"result": 1}, "b": {"result": None}}),
        ({"a": {}, "b": 7, "c": None}, 200, {"a": {}, "b": {}, "c": {}}),
        ({"a": {"x": False}}, 200, {"a": {"result": False}}),
    ],
)
def test_inputs_are_decided_each_for_itself(inputs: Any, status: int, responses: Any) -> None:
    answer = batch(api(), {"inputs": inputs})
    assert (answer.status, json.loads(answer.body)) == (status, {"responses": responses})


def test_some_that_fail_make_it_207_and_each_says_its_status() -> None:
    answer = batch(api(), {"inputs": {"good": {"x": 1}, "bad": FAILS}})
    assert answer.status == 207
    responses = json.loads(answer.body)["responses"]
    assert responses["good"] == {"result": 1, "http_status_code": "200"}
    assert responses["bad"]["http_status_code"] == "500"
    assert responses["bad"]["code"] == "internal_error"
    # As in EOPA, the message says it all.
    assert ": eval_conflict_error: " in responses["bad"]["message"]
    assert "errors" not in responses["bad"]


def test_all_that_fail_make_it_500() -> None:
    answer = batch(api(), {"inputs": {"bad": FAILS}})
    assert answer.status == 500
    assert "http_status_code" not in json.loads(answer.body)["responses"]["bad"]


def test_the_common_input_is_merged_at_any_depth_and_the_input_wins() -> None:
    common = {"x": {"a": 1, "b": {"c": 1}}, "y": 1}
    inputs = {"one": {"x": {"b": {"d": 2}, "a": 3}}, "two": 5, "three": {}}
    answer = batch(
        api(), {"inputs": inputs, "common_input": common}, target="/v1/batch/data/a/whole"
    )
    assert json.loads(answer.body)["responses"] == {
        "one": {"result": {"x": {"a": 3, "b": {"c": 1, "d": 2}}, "y": 1}},
        "two": {"result": 5},
        "three": {"result": common},
    }


def test_no_inputs_are_no_error() -> None:
    assert json.loads(batch(api(), {"inputs": {}}).body) == {}
    for body in (b"", b"null", b"{}", b'{"inputs": null}'):
        answer = batch(api(), body)
        assert answer.status == 200
        assert json.loads(answer.body)["warning"]["code"] == "api_usage_warning"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"inputs": []}', b'{"inputs": "x"}'])
def test_a_body_of_the_wrong_form_is_refused(body: bytes) -> None:
    answer = batch(api(), body)
    assert answer.status == 400
    assert json.loads(answer.body)["code"] == "invalid_parameter"


def test_bodies_may_be_yaml_or_zipped() -> None:
    yaml = batch(api(), b"inputs: {a: {x: 1}}", **{"content-type": "application/yaml"})
    zipped = gzip.compress(b'{"inputs": {"a": {"x": 1}}}')
    gzipped = batch(api(), zipped, **{"content-encoding": "gzip"})
    assert yaml.body == gzipped.body == '{"responses":{"a":{"result":1}}}\n'


def test_each_decision_is_logged_with_the_id_of_the_batch() -> None:
    sink = Sink()
    answer = json.loads(batch(api(sink), {"inputs": {"a": {"x": 1}, "b": FAILS}}).body)
    assert {each.batch_decision_id for each in sink.decisions} == {answer["batch_decision_id"]}
    assert answer["responses"]["a"]["decision_id"] == sink.decisions[0].decision_id
    assert sink.decisions[1].error is not None


def test_a_batch_has_the_time_of_a_dozen_decisions() -> None:
    app = api(settings=Settings(deadline=0.02))
    inputs: dict[str, Any] = {str(number): {} for number in range(40)}
    answer = json.loads(batch(app, {"inputs": inputs}, target="/v1/batch/data/a/slow").body)
    messages = [each["message"] for each in answer["responses"].values()]
    late = [
        message
        for message in messages
        if message.startswith("the batch took longer than its time limit")
    ]
    assert 20 < len(late) < 40


def test_what_is_not_served_is_not_served_in_a_batch() -> None:
    app = api(decision_paths=("b",))
    assert batch(app, {"inputs": {}}).status == 403
    assert ask(api(), "GET", "/v1/batch/data/a/p").status == 405
