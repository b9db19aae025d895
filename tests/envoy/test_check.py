"""`check` answers whatever it is given, and what fails is denied."""

from __future__ import annotations

import json

import pytest
from envoy.service.auth.v3 import external_auth_pb2 as auth
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from tests.envoy.deciders import Fixed, request
from tests.envoy.golden import DECISION_ID

from doorward.envoy.check import make_check
from doorward.envoy.errors import CallFailedError
from doorward.envoy.metrics import Metrics
from doorward.envoy.options import Options
from doorward.pdp.decision import Decision
from doorward.rego.errors import EvalError
from doorward.rego.json_text import from_json
from doorward.rego.values import UNDEFINED, Undefined, Value

JSON = {"content-type": "application/json"}
STRICT = Options(strict=True)


def answer(
    pdp: Fixed, raw: bytes = b"", options: Options | None = None, version: str = "v3"
) -> auth.CheckResponse:
    check = make_check(pdp, options or Options(), version="v2" if version == "v2" else "v3")
    return auth.CheckResponse.FromString(check(raw or request()))


def test_true_is_allowed_with_the_decision_id() -> None:
    pdp = Fixed(True)
    response = answer(pdp)
    assert response.HasField("status")
    assert response.status.code == 0
    assert response.dynamic_metadata["decision_id"] == DECISION_ID
    assert [decision.result for decision, _ in pdp.logged] == [True]


def test_false_is_denied() -> None:
    assert answer(Fixed(False)).status.code == 7


def test_path_and_input_reach_the_policy() -> None:
    pdp = Fixed(True)
    answer(pdp, request("/a/b?c=d"), Options(path="/x//y/"))
    path, actual = pdp.queries[0]
    assert path == "/x//y/"
    assert isinstance(actual, dict)
    assert actual["parsed_path"] == ["a", "b"]


def test_query_is_asked_in_place_of_the_path() -> None:
    pdp = Fixed(True)
    answer(pdp, options=Options(query="data.a.b == 1"))
    assert pdp.queries[0][0] == "data.a.b == 1"
    assert pdp.logged[0][0].query == "data.a.b == 1"


@pytest.mark.parametrize(
    ("result", "error", "reason"),
    [
        (UNDEFINED, None, "envoyauth_result_error"),
        ("yes", None, "envoyauth_result_error"),
        ({}, None, "envoyauth_result_error"),
        ({"allowed": "true"}, None, "envoyauth_result_error"),
        ({"allowed": True, "headers": 1}, None, "envoyauth_result_error"),
        (UNDEFINED, EvalError("eval_conflict_error", "two values"), "eval_conflict_error"),
        (True, RuntimeError("anything"), "envoyauth_eval_error"),
    ],
)
def test_a_policy_that_fails_is_a_denial_and_never_a_failed_call(
    result: Value | Undefined, error: Exception | None, reason: str
) -> None:
    pdp = Fixed(result, error)
    response = answer(pdp)
    assert response.status.code == 7
    assert response.status.message == reason
    assert response.denied_response.status.code == 403
    assert response.denied_response.body == ""
    assert response.dynamic_metadata["decision_id"] == DECISION_ID
    assert pdp.logged[0][0].error is not None


def test_a_policy_that_fails_is_denied_in_a_dry_run_too() -> None:
    assert answer(Fixed(UNDEFINED), options=Options(dry_run=True)).status.code == 7


def test_a_policy_that_fails_fails_the_call_when_asked_to() -> None:
    check = make_check(Fixed(UNDEFINED), Options(on_error="fail-call"))
    with pytest.raises(CallFailedError) as raised:
        check(request())
    assert (raised.value.code, raised.value.message) == ("UNKNOWN", "undefined decision")


def test_a_fault_of_ours_is_denied() -> None:
    class Broken(Fixed):
        def decide(
            self, path: str, input: Value | Undefined = UNDEFINED, /, *, is_parsed: bool = False
        ) -> Decision:
            raise RecursionError("secret")

    response = answer(Broken())
    assert response.status.code == 7
    assert "secret" not in str(response)


class UnknownError(Exception):
    """What a library raises that nobody thought of."""


@pytest.mark.parametrize("error", [UnknownError("secret"), MemoryError(), StopIteration()])
def test_whatever_is_raised_is_denied_and_recorded(error: Exception) -> None:
    class Broken(Fixed):
        def decide(
            self, path: str, input: Value | Undefined = UNDEFINED, /, *, is_parsed: bool = False
        ) -> Decision:
            raise error

    pdp = Broken()
    response = answer(pdp)
    assert response.status.code == 7
    assert "secret" not in str(response)
    ((decision, _),) = pdp.logged
    assert str(decision.error) == f"internal error ({type(error).__name__})"
    assert decision.decision_id == response.dynamic_metadata["decision_id"]
    with pytest.raises(CallFailedError):
        make_check(pdp, Options(on_error="fail-call"))(request())


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_a_log_that_fails_denies_as_well(version: str) -> None:
    class Broken(Fixed):
        def record(self, *_: object, **__: object) -> None:
            raise UnknownError

    assert answer(Broken(True), version=version).status.code == 7


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xff\xff",
        b"\x0a\x08\x22\x06\x12\x04\x2a\x02\xff\xff",
        b"{}",
        b"\x0a\x04\x0a\x02\xff\xff",  # in a peer, in metadata, in the TLS session
        b"\x0a\x04\x5a\x02\xff\xff",
        b"\x0a\x04\x6a\x02\xff\xff",
        b"\x0a\x04\x62\x02\xff\xff",
        b"\x0a\x06\x0a\x04\x12\x02\xff\xff",
    ],
)
def test_bytes_that_are_no_request_are_answered(raw: bytes) -> None:
    pdp = Fixed(True)
    response = answer(pdp, raw)
    assert response.status.code == 7
    assert response.denied_response.status.code == 400
    assert not pdp.queries
    with pytest.raises(CallFailedError) as raised:
        make_check(pdp, Options(on_error="fail-call"))(raw)
    assert raised.value.code == "INTERNAL"


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(raw: bytes) -> None:
    for options in (Options(), STRICT):
        response = auth.CheckResponse.FromString(make_check(Fixed(False), options)(raw))
        assert response.status.code == 7


@given(
    path=st.text(max_size=40),
    body=st.text(max_size=60),
    kind=st.sampled_from(
        [
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=b",
            "multipart/form-data; boundary",
            "application/grpc",
        ]
    ),
)
def test_any_path_and_body_are_answered(path: str, body: str, kind: str) -> None:
    raw = request(path, "POST", {"content-type": kind, "content-length": "5"}, body)
    for options in (Options(), STRICT):
        assert answer(Fixed(False), raw, options).status.code == 7


@given(st.recursive(st.none() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)))
def test_json_bodies_are_read_alike_in_both_modes(value: object) -> None:
    body = json.dumps({"v": value})
    headers = JSON | {"content-length": str(len(body))}
    seen = []
    for options in (Options(), STRICT):
        pdp = Fixed(True)
        refused = answer(pdp, request("/", "POST", headers, body), options).status.code
        if refused:
            return
        actual = pdp.queries[0][1]
        assert isinstance(actual, dict)
        seen.append(actual["parsed_body"])
    assert seen == [{"v": value}, {"v": value}]


def test_large_requests_are_answered() -> None:
    body = '"' + "x" * 4_000_000 + '"'
    pdp = Fixed(True)
    assert answer(pdp, request("/", "POST", JSON, body)).status.code == 0
    many = {f"x-{n}": "v" for n in range(5000)} | {":path": "/"}
    assert answer(pdp, request("/", headers=many), STRICT).status.code == 0
    fields = request(
        "/", "POST", {"content-type": "application/x-www-form-urlencoded"}, "a&" * 20_000
    )
    assert answer(pdp, fields).denied_response.status.code == 400
    assert answer(pdp, request("/" * 60_000)).status.code == 0
    deep = request("/", "POST", JSON, '{"a":' * 100_000)
    assert answer(pdp, deep).denied_response.status.code == 400


def test_empty_path_is_answered() -> None:
    pdp = Fixed(True)
    assert answer(pdp, request("", "CONNECT")).status.code == 0
    assert answer(pdp, request("", "CONNECT"), STRICT).denied_response.status.code == 400


def test_refusals_are_logged_without_an_input_and_name_the_reason() -> None:
    pdp = Fixed(True)
    response = answer(pdp, request("/%zz"))
    assert response.denied_response.body == 'request_parse_error: invalid URL escape "%zz"'
    assert not response.HasField("dynamic_metadata")
    decision, actual = pdp.logged[0]
    assert str(decision.error) == 'invalid URL escape "%zz"'
    assert actual is UNDEFINED


def test_an_ambiguous_request_is_refused_with_its_id() -> None:
    pdp = Fixed(True)
    response = answer(pdp, request("/a%2Fb"), STRICT)
    assert response.denied_response.status.code == 400
    assert response.denied_response.body == "request_ambiguous: encoded slash in the path"
    assert response.dynamic_metadata["decision_id"] == pdp.logged[0][0].decision_id


def test_nothing_is_recorded_without_a_log() -> None:
    pdp = Fixed(True, logs_decisions=False)
    answer(pdp)
    answer(pdp, request("/%"))
    assert not pdp.logged


def test_v2_answers_keep_status_headers_and_body() -> None:
    result: Value = {"allowed": True, "headers": {"a": "b"}, "response_headers_to_add": {"c": "d"}}
    response = answer(Fixed(result), version="v2")
    assert [h.header.key for h in response.ok_response.headers] == ["a"]
    assert not response.ok_response.response_headers_to_add
    assert not response.HasField("dynamic_metadata")
    assert not answer(Fixed(True), version="v2").HasField("dynamic_metadata")
    assert answer(Fixed(UNDEFINED), version="v2").denied_response.status.code == 403


def test_metrics_count_answers_and_errors() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, (0.1, 1.0))
    check = make_check(Fixed(True), Options(), observer=metrics)
    check(request())
    check(request("/%"))
    make_check(Fixed(UNDEFINED), Options(), observer=metrics)(request())
    text = generate_latest(registry).decode()
    assert 'grpc_request_duration_seconds_count{handler="check"} 1.0' in text
    assert 'error_counter{reason="request_parse_error"} 1.0' in text
    assert 'error_counter{reason="envoyauth_result_error"} 1.0' in text


def test_a_number_that_no_double_can_hold_is_no_metadata() -> None:
    number = from_json("1e400")
    result: Value = {"allowed": True, "dynamic_metadata": {"n": number}}
    assert answer(Fixed(result)).status.code == 7


def test_a_failing_policy_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    check = make_check(Fixed(UNDEFINED), Options())
    for _ in range(100):
        check(request())
    check(b"\xff")
    assert [record.message for record in caplog.records] == [
        "Decision failed",
        "Malformed CheckRequest",
    ]


HEADER = Options(decision_id_header="x-decision-id")


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (True, None),
        (False, None),
        ({"allowed": True, "response_headers_to_add": {"a": "b"}}, None),
        ({"allowed": False, "http_status": 401, "headers": {"a": "b"}}, None),
        ("yes", None),
        (UNDEFINED, EvalError("eval_conflict_error", "two values")),
    ],
)
def test_the_client_is_told_the_decision_id_where_that_is_wanted(
    result: Value | Undefined, error: Exception | None
) -> None:
    plain, response = (answer(Fixed(result, error), options=o) for o in (Options(), HEADER))
    allowed = response.status.code == 0
    headers = (
        response.ok_response.response_headers_to_add
        if allowed
        else response.denied_response.headers
    )
    assert [
        each.header.value for each in headers if each.header.key == HEADER.decision_id_header
    ] == [DECISION_ID]
    assert response.status == plain.status
    assert allowed or response.denied_response.status.code in (401, 403)
    assert response.dynamic_metadata == plain.dynamic_metadata
    assert DECISION_ID not in str(plain.ok_response) + str(plain.denied_response)


def test_a_refused_request_and_a_trial_run_have_the_id_too() -> None:
    pdp = Fixed(True)
    refused = answer(pdp, request(body="{", headers=JSON), HEADER)
    (header,) = refused.denied_response.headers
    assert header.header.value == pdp.logged[0][0].decision_id
    trial = Options(decision_id_header="x-decision-id", dry_run=True)
    (header,) = answer(Fixed(False), options=trial).ok_response.response_headers_to_add
    assert header.header.value == DECISION_ID
    assert not answer(Fixed(True), options=HEADER, version="v2").ok_response.ByteSize()
