"""One response without a transport: what is answered, logged and counted, and when it is whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from prometheus_client import CollectorRegistry

from doorward.bundles.loader import Loaded
from doorward.decision_log.log import event_of
from doorward.envoy.ext_proc.exchange import Processor, ResponseExchange
from doorward.envoy.ext_proc.metrics import Metrics
from doorward.envoy.ext_proc.options import ListOptions, Options
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.transport.grpc.status import GrpcError, Status

POLICY = """
package envoy.response

default allow := false

allow if not input.attributes.request.http.path == "/denied"

remove contains ["secret"]

set contains {"path": ["pin"], "value": input.response.parsed_body.secret}
"""
FILTER = "envoy.filters.http.ext_proc"
REQUEST = {":method": "GET", ":path": "/a?q=1", ":authority": "shop", ":scheme": "https"}
RESPONSE = {":status": "200", "content-type": "application/json"}
BODY = b'{"id":1,"secret":"CANARY","pin":7}'


class Log:
    def __init__(self) -> None:
        self.answered: list[Answered] = []

    def record(self, answered: Answered) -> None:
        self.answered.append(answered)

    def close(self) -> None:
        """Nothing to write."""


class Calls:
    """Exchanges with one policy."""

    def __init__(self, policy: str = POLICY, **options: Any) -> None:
        self.log = Log()
        self.registry = CollectorRegistry()
        modules = {"p.rego": policy, "d.rego": "package d\n\nr if input.item.id == 1\n"}
        self.pdp = PDP(build(Loaded(modules)), self.log)
        self.processor = Processor(self.pdp, Options(**options), Metrics(self.registry))

    def open(self) -> ResponseExchange:
        return self.processor.open()

    def events(self) -> list[dict[str, Any]]:
        return [event_of(each, {}) for each in self.log.answered]

    def count(self, outcome: str, reason: str = "") -> float:
        labels = {"outcome": outcome, "reason": reason}
        return self.registry.get_sample_value("ext_proc_responses_total", labels) or 0

    def respond(
        self, body: bytes = BODY, path: str = "/a", **response: str
    ) -> pb.ProcessingResponse:
        """The answer to the last message of a whole exchange."""
        exchange = self.open()
        exchange.answer(request(REQUEST | {":path": path}))
        answer = read(exchange.answer(response_headers(RESPONSE | response)))
        if answer.WhichOneof("response") == "response_headers":
            answer = read(exchange.answer(response_body(body)))
        exchange.finish()
        return answer


def read(answer: bytes) -> pb.ProcessingResponse:
    return pb.ProcessingResponse.FromString(answer)


def headers_of(out: Any, headers: dict[str, str]) -> None:
    for name, value in headers.items():
        out.headers.headers.add(key=name, raw_value=value.encode())


def request(
    headers: dict[str, str] | None = None, *, modes: tuple[int, int] = (0, 2), **more: Any
) -> bytes:
    message = pb.ProcessingRequest(**more)
    headers_of(message.request_headers, REQUEST if headers is None else headers)
    message.request_headers.end_of_stream = True
    message.protocol_config.request_body_mode = modes[0]
    message.protocol_config.response_body_mode = modes[1]
    fields = message.attributes[FILTER].fields
    fields["source.address"].string_value = "192.0.2.1:1234"
    fields["request.protocol"].string_value = "HTTP/2"
    return bytes(message.SerializeToString())


def response_headers(
    headers: dict[str, str], *, ends: bool = False, details: str = "via_upstream"
) -> bytes:
    message = pb.ProcessingRequest()
    headers_of(message.response_headers, headers)
    message.response_headers.end_of_stream = ends
    message.attributes[FILTER].fields["response.code_details"].string_value = details
    if not details.startswith("via"):
        message.protocol_config.response_body_mode = 2
    return bytes(message.SerializeToString())


def response_body(body: bytes) -> bytes:
    message = pb.ProcessingRequest()
    message.response_body.body = body
    message.response_body.end_of_stream = True
    return bytes(message.SerializeToString())


def trailers(*names: str) -> bytes:
    message = pb.ProcessingRequest()
    for name in names:
        message.response_trailers.trailers.headers.add(key=name, raw_value=b"1")
    return bytes(message.SerializeToString())


def test_the_input_is_that_of_the_request_with_the_response() -> None:
    calls = Calls("package envoy.response\n\nallow := true\n", log_bodies=True)
    calls.respond(b'{"a":1}', "/a?q=1", **{"x-a": "1"})
    [event] = calls.events()
    http = event["input"]["attributes"]["request"]["http"]
    assert (http["method"], http["path"], http["host"]) == ("GET", "/a?q=1", "shop")
    assert (http["scheme"], http["protocol"]) == ("https", "HTTP/2")
    assert event["input"]["parsed_query"] == {"q": ["1"]}
    source = event["input"]["attributes"]["source"]["address"]["socketAddress"]
    assert source == {"address": "192.0.2.1", "portValue": 1234}
    assert event["input"]["response"] == {
        "status": 200,
        "headers": {"content-type": "application/json", "x-a": "1"},
        "body_state": "parsed",
        "parsed_body": {"a": 1},
        "size": 7,
    }


def test_bodies_and_what_rules_make_of_them_stay_out_of_the_log() -> None:
    calls = Calls()
    answer = calls.respond()
    assert json.loads(answer.response_body.response.body_mutation.body) == {
        "id": 1,
        "pin": "CANARY",
    }
    [event] = calls.events()
    assert "CANARY" not in repr(event)
    assert event["erased"] == ["/input/response/parsed_body", "/result/set"]
    assert event["result"]["allow"] is True
    assert event["custom"]["response"]["outcome"] == "filtered"
    assert calls.count("filtered") == 1


def test_bodies_are_logged_where_the_options_say_so() -> None:
    calls = Calls(log_bodies=True)
    calls.respond()
    [event] = calls.events()
    assert event["input"]["response"]["parsed_body"]["secret"] == "CANARY"
    assert "CANARY" in repr(event["result"]["set"])
    assert "erased" not in event


def test_lists_are_counted_in_the_log() -> None:
    lists = {"all": ListOptions(("items",), "d/r")}
    calls = Calls("package envoy.response\n\nallow := true\n", lists=lists)
    answer = calls.respond(b'{"items":[{"id":1},{"id":2}]}')
    assert answer.response_body.response.body_mutation.body == b'{"items":[{"id":1}]}'
    [event] = calls.events()
    told = event["custom"]["response"]["lists"]["all"]
    assert len(told.pop("hidden")) == 16
    assert told == {"items": 2, "shown": 1, "path": ["items"], "rule": "d/r", "name": "item"}


def test_a_list_that_is_not_configured_denies() -> None:
    calls = Calls('package envoy.response\n\nallow := true\n\nlists := ["x"]\n')
    assert calls.respond().immediate_response.status.code == 403


def test_a_trial_run_changes_nothing_and_still_denies_what_fails() -> None:
    calls = Calls(dry_run=True)
    for path, outcome in (("/a", "filtered"), ("/denied", "denied")):
        answer = calls.respond(path=path)
        assert answer.WhichOneof("response") == "response_body"
        assert not answer.response_body.response.HasField("body_mutation")
        assert calls.events()[-1]["custom"]["response"]["outcome"] == outcome
    assert calls.respond(b"<").immediate_response.status.code == 403
    assert calls.count("failed", "response_malformed") == 1


@pytest.mark.parametrize("path", ["/a%zz", "/a?%zz"])
def test_a_request_that_cannot_be_read_is_refused(path: str) -> None:
    calls = Calls(strict=True)
    exchange = calls.open()
    answer = read(exchange.answer(request(REQUEST | {":path": path})))
    assert answer.immediate_response.status.code == 400
    exchange.finish()


MESSAGES = {
    "request": request(),
    "response": response_headers(RESPONSE),
    "body": response_body(BODY),
    "trailers": trailers("x"),
    "nothing": b"",
    "no message": b"\xff",
    "no status": response_headers({"content-type": "a"}),
    "a long status": response_headers({":status": "2000"}),
}


@pytest.mark.parametrize(
    "order",
    [
        ["nothing"],
        ["no message"],
        ["response"],
        ["body"],
        ["trailers"],
        ["request", "request"],
        ["request", "body"],
        ["request", "trailers"],
        ["request", "nothing"],
        ["request", "no status"],
        ["request", "a long status"],
        ["request", "response", "response"],
        ["request", "response", "trailers"],
        ["request", "response", "body", "body"],
        ["request", "response", "body", "trailers", "body"],
    ],
)
def test_a_message_out_of_its_order_is_an_error(order: list[str]) -> None:
    exchange = Calls().open()
    for name in order[:-1]:
        exchange.answer(MESSAGES[name])
    with pytest.raises(GrpcError) as caught:
        exchange.answer(MESSAGES[order[-1]])
    assert caught.value.status in (Status.FAILED_PRECONDITION, Status.INVALID_ARGUMENT)


@pytest.mark.parametrize("order", [[], ["request"], ["request", "response"]])
def test_a_call_is_complete_once_the_response_is_decided(order: list[str]) -> None:
    exchange = Calls().open()
    for name in order:
        exchange.answer(MESSAGES[name])
    with pytest.raises(GrpcError):
        exchange.finish()
    for name in ["request", "response", "body"][len(order) :]:
        exchange.answer(MESSAGES[name])
    exchange.finish()
    exchange.close()


@pytest.mark.parametrize("modes", [(0, 0), (0, 1), (0, 3), (0, 4), (0, 5), (2, 2), (1, 2)])
def test_other_modes_are_refused(modes: tuple[int, int]) -> None:
    with pytest.raises(GrpcError) as caught:
        Calls().open().answer(request(modes=modes))
    assert caught.value.status is Status.FAILED_PRECONDITION


def test_a_filter_that_only_looks_on_is_refused() -> None:
    with pytest.raises(GrpcError):
        Calls().open().answer(request(observability_mode=True))


@pytest.mark.parametrize("is_known", [True, False])
def test_an_answer_of_the_proxy_passes_and_another_one_does_not(is_known: bool) -> None:
    exchange = Calls().open()
    details = "ext_authz_denied" if is_known else "cache.response_from_cache_filter"
    message = response_headers({":status": "403", "content-type": "text/plain"}, details=details)
    if not is_known:
        with pytest.raises(GrpcError):
            exchange.answer(message)
        return
    answer = read(exchange.answer(message))
    assert answer.mode_override.response_body_mode == 0
    assert read(exchange.answer(response_body(b"no"))).HasField("response_body")
    exchange.finish()


def test_a_defect_is_a_denial(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()
    monkeypatch.setattr(calls.processor, "pdp", None)
    exchange = calls.open()
    with pytest.raises(AttributeError):
        exchange.answer(request())
    monkeypatch.undo()
    monkeypatch.setattr("doorward.envoy.ext_proc.exchange.read_response_verdict", lambda _: 1 // 0)
    assert calls.respond().immediate_response.status.code == 403
    assert calls.count("failed", "internal_error") == 1


def test_trailers_go() -> None:
    exchange = Calls().open()
    for name in ("request", "response", "body"):
        exchange.answer(MESSAGES[name])
    answer = read(exchange.answer(trailers("x-a", "x-b")))
    removed: Iterable[str] = answer.response_trailers.header_mutation.remove_headers
    assert set(removed) == {"x-a", "x-b"}


def test_a_rule_that_streams_is_not_let_through_unread_where_the_proxy_sends_the_body() -> None:
    calls = Calls("package envoy.response\n\nallow := true\n\nstream := true\n")
    exchange = calls.open()
    exchange.answer(request(REQUEST | {"range": "bytes=0-1"}))
    answer = read(exchange.answer(response_headers({":status": "206"})))
    assert answer.HasField("mode_override")
    denied = read(exchange.answer(response_body(b"x")))
    assert denied.immediate_response.status.code == 403
    assert calls.count("failed", "mode_override_refused") == 1


def test_a_response_that_streams_may_not_be_changed() -> None:
    calls = Calls(
        'package envoy.response\n\nallow := true\n\nstream := true\n\nremove contains ["a"]\n'
    )
    answer = calls.respond(BODY, **{"content-type": "text/html"})
    assert answer.immediate_response.status.code == 403
