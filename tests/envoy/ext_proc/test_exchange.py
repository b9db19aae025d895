"""One response without a transport: what is answered, logged and counted, and when it is whole."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import Any

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from prometheus_client import CollectorRegistry

from doorward.bundles.loader import Loaded
from doorward.decision_log.log import event_of
from doorward.envoy.ext_proc import messages
from doorward.envoy.ext_proc.exchange import (
    CONDITIONS,
    READ_HEADERS,
    STALE,
    Processor,
    ResponseExchange,
)
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
    assert event["input"]["attributes"]["metadataContext"] == {}
    source = event["input"]["attributes"]["source"]["address"]["socketAddress"]
    assert source == {"address": "192.0.2.1", "portValue": 1234}
    assert event["input"]["response"] == {
        "status": 200,
        "headers": {"content-type": "application/json", "x-a": "1"},
        "body_state": "parsed",
        "parsed_body": {"a": 1},
        "size": 7,
    }


def test_metadata_of_filters_is_in_the_input_where_there_is_some() -> None:
    message = pb.ProcessingRequest.FromString(request())
    message.metadata_context.filter_metadata["jwt"].fields["sub"].string_value = "ann"
    calls = Calls("package envoy.response\n\nallow := true\n")
    exchange = calls.open()
    exchange.answer(message.SerializeToString())
    exchange.answer(response_headers(RESPONSE, ends=True))
    [event] = calls.events()
    metadata = event["input"]["attributes"]["metadataContext"]
    assert metadata == {"filterMetadata": {"jwt": {"sub": "ann"}}}


def test_an_empty_body_is_none_of_size_0() -> None:
    calls = Calls("package envoy.response\n\nallow := true\n")
    calls.respond(b"")
    [event] = calls.events()
    assert event["input"]["response"] | {"headers": {}} == {
        "status": 200,
        "headers": {},
        "body_state": "none",
        "size": 0,
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
    code = answer.immediate_response.details.removeprefix("doorward_")
    assert calls.count("denied", code) == 1


MESSAGES = {
    "request": request(),
    "response": response_headers(RESPONSE),
    "body": response_body(BODY),
    "trailers": trailers("x"),
    "nothing": b"",
    "no message": b"\xff",
    "no status": response_headers({"content-type": "a"}),
    "a long status": response_headers({":status": "2000"}),
    "a sign": response_headers({":status": "+20"}),
    "another digit": response_headers({":status": "20\u0660"}),
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
        ["request", "a sign"],
        ["request", "another digit"],
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


STREAM = """package envoy.response

allow := true

stream if input.response.headers["x-kind"] == "free"

response_headers_to_add := {"x-a": "1"}

response_headers_to_remove := ["x-b"]
"""


def test_a_response_that_streams_is_not_asked_for_and_has_the_headers_of_the_policy() -> None:
    exchange = Calls(STREAM).open()
    exchange.answer(request())
    headers = RESPONSE | {"x-kind": "free", "x-b": "1"}
    answer = read(exchange.answer(response_headers(headers)))
    assert answer.mode_override.response_body_mode == 0
    after = headers_after(answer.response_headers.response.header_mutation, headers)
    assert after == RESPONSE | {"x-kind": "free", "x-a": "1"}


def test_a_trial_run_leaves_the_headers_of_a_response_that_streams() -> None:
    exchange = Calls(STREAM, dry_run=True).open()
    exchange.answer(request())
    answer = read(exchange.answer(response_headers(RESPONSE | {"x-kind": "free", "x-b": "1"})))
    assert answer.HasField("mode_override")
    assert not answer.response_headers.response.header_mutation.ByteSize()


def test_what_a_new_policy_makes_of_bodies_stays_out_of_the_log() -> None:
    first = 'package envoy.response\n\nallow := true\n\nbody := "a"\n'
    calls = Calls(first)
    calls.respond(b'{"a":"CANARY"}')
    next_one = "package envoy.response\n\nallow := true\n\nbody := input.response.parsed_body.a\n"
    calls.pdp.replace(build(Loaded({"p.rego": next_one})))
    calls.respond(b'{"a":"CANARY"}')
    before, after = calls.events()
    assert before["result"]["body"] == "a"
    assert "CANARY" not in repr(after)


def test_a_new_policy_lets_its_responses_stream() -> None:
    calls = Calls()
    exchange = calls.open()
    exchange.answer(request())
    assert exchange.answer(response_headers(RESPONSE)) == messages.CONTINUE_RESPONSE
    calls.pdp.replace(build(Loaded({"p.rego": STREAM})))
    exchange = calls.open()
    exchange.answer(request())
    answer = read(exchange.answer(response_headers(RESPONSE | {"x-kind": "free"})))
    assert answer.HasField("mode_override")


def test_a_decision_that_fails_is_denied_and_says_its_code() -> None:
    calls = Calls("package envoy.response\n\nallow := [true, false][_]\n")
    assert calls.respond().immediate_response.status.code == 403
    assert calls.count("failed", "eval_conflict_error") == 1


CHANGES = {
    "keep": 'keep contains ["id"]',
    "remove": 'remove contains ["secret"]',
    "set": 'set contains {"path": ["secret"], "value": 0}',
    "lists": 'lists contains "none"',
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_response_that_streams_may_not_be_changed(change: str) -> None:
    calls = Calls(f"package envoy.response\n\nallow := true\n\nstream := true\n\n{change}\n")
    answer = calls.respond(BODY, **{"content-type": "text/html"})
    assert answer.immediate_response.status.code == 403
    assert calls.count("failed", "result_error") == 1


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_change_has_its_effect_alone(name: str) -> None:
    rule = "package envoy.response\n\nallow := true\n\n"
    lists = {"none": ListOptions(("items",), "d/r")} if name == "lists" else {}
    answer = Calls(rule + CHANGES[name], lists=lists).respond(
        b'{"items":["CANARY"],"secret":"CANARY","id":1}'
    )
    body = json.loads(answer.response_body.response.body_mutation.body)
    expected: dict[str, Any] = {"items": ["CANARY"], "secret": "CANARY", "id": 1}
    match name:
        case "keep":
            expected = {"id": 1}
        case "remove":
            del expected["secret"]
        case "set":
            expected["secret"] = 0
        case "lists":
            expected["items"] = []
    assert body == expected


@pytest.mark.parametrize(
    ("method", "removed"),
    [
        ("GET", {*READ_HEADERS, *CONDITIONS}),
        ("HEAD", {*READ_HEADERS, *CONDITIONS}),
        ("PUT", {*READ_HEADERS}),
    ],
)
def test_a_request_loses_what_would_make_its_response_unreadable(
    method: str, removed: set[str]
) -> None:
    headers = dict.fromkeys([*READ_HEADERS, *CONDITIONS, "x-other"], "a")
    exchange = Calls().open()
    answer = read(exchange.answer(request(REQUEST | {":method": method} | headers)))
    mutation = answer.request_headers.response.header_mutation
    assert set(mutation.remove_headers) == removed
    assert not mutation.set_headers
    bare = read(Calls().open().answer(request()))
    assert not bare.request_headers.response.header_mutation.remove_headers


def headers_after(mutation: Any, headers: dict[str, str]) -> dict[str, str]:
    """The headers after a mutation, as Envoy applies it; a value that is appended stands behind
    `, `.
    """
    after = dict(headers)
    for each in mutation.set_headers:
        name, value = each.header.key.lower(), each.header.raw_value.decode()
        appends = each.append_action == base_pb2.HeaderValueOption.APPEND_IF_EXISTS_OR_ADD
        after[name] = f"{after[name]}, {value}" if appends and name in after else value
    for name in mutation.remove_headers:
        after.pop(name, None)
    return after


ALLOW = "package envoy.response\n\nallow := true\n"
PLAIN = b'{"id":1}'
GZIP = gzip.compress(PLAIN, mtime=0)


@pytest.mark.parametrize(
    ("policy", "body", "headers", "expected"),
    [
        pytest.param(ALLOW, PLAIN, {"content-length": "8"}, {"content-length": "8"}, id="as it is"),
        pytest.param(
            ALLOW + 'remove contains ["id"]', PLAIN, {"content-length": "8"},
            {"content-length": "2"}, id="another length",
        ),
        pytest.param(
            ALLOW, GZIP, {"content-length": str(len(GZIP)), "content-encoding": "gzip"},
            {"content-length": "8"}, id="decompressed",
        ),
        pytest.param(
            ALLOW, PLAIN, dict.fromkeys([*STALE, "cdn-cache-control"], "1") | {"x-a": "1"},
            {"x-a": "1"}, id="what was true of the body before",
        ),
        pytest.param(
            ALLOW, PLAIN, {"cache-control": "public, max-age=9"}, {}, id="no cache of all",
        ),
        pytest.param(
            ALLOW, PLAIN, {"cache-control": "No-Store"}, {"cache-control": "private, no-store"},
            id="no cache at all",
        ),
        pytest.param(
            ALLOW + 'response_headers_to_add := {"Cache-Control": "max-age=1"}', PLAIN,
            {"cache-control": "public"}, {"cache-control": "max-age=1"},
            id="the cache of the policy",
        ),
        pytest.param(
            ALLOW + 'response_headers_to_add := {"x-a": ["1", "2"]}', PLAIN, {"x-a": "0"},
            {"x-a": "1, 2"}, id="the values of the policy alone",
        ),
        pytest.param(
            ALLOW + 'response_headers_to_remove := ["X-A"]', PLAIN, {"x-a": "0"}, {}, id="removed",
        ),
        pytest.param(ALLOW, b"", {"content-length": "8"}, {}, id="the length of no body"),
    ],
)  # fmt: skip
def test_headers_are_those_of_the_body_that_the_client_gets(
    policy: str, body: bytes, headers: dict[str, str], expected: dict[str, str]
) -> None:
    answer = Calls(policy).respond(body, **headers).response_body.response
    after = headers_after(answer.header_mutation, RESPONSE | headers)
    assert after == RESPONSE | {"cache-control": "private"} | expected


@pytest.mark.parametrize("ends", [True, False], ids=["no body", "an empty body"])
@pytest.mark.parametrize("path", ["/a", "/denied"])
def test_a_trial_run_leaves_the_headers_of_a_response_without_a_body(ends: bool, path: str) -> None:
    exchange = Calls(dry_run=True).open()
    exchange.answer(request(REQUEST | {":path": path}))
    answer = read(exchange.answer(response_headers(RESPONSE | {"etag": "1"}, ends=ends)))
    if not ends:
        answer = read(exchange.answer(response_body(b"")))
    assert answer.WhichOneof("response") == ("response_headers" if ends else "response_body")
    part = answer.response_headers if ends else answer.response_body
    assert not part.response.header_mutation.ByteSize()


def test_attributes_of_another_type_are_as_good_as_absent() -> None:
    message = pb.ProcessingRequest.FromString(request())
    for each in message.attributes[FILTER].fields.values():
        each.number_value = 1
    calls = Calls(log_bodies=True)
    exchange = calls.open()
    exchange.answer(message.SerializeToString())
    ends = pb.ProcessingRequest.FromString(response_headers(RESPONSE, ends=True))
    ends.attributes[FILTER].fields["response.code_details"].number_value = 1
    exchange.answer(ends.SerializeToString())
    [event] = calls.events()
    attributes = event["input"]["attributes"]
    assert attributes["request"]["http"]["protocol"] == "HTTP/1.1"
    assert "source" not in attributes
    assert event["custom"]["response"]["outcome"] == "passed"


def test_bad_responses_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls()
    for _ in range(50):
        calls.respond(b"{")
    assert 0 < len(caplog.records) < 50
    assert {each.message for each in caplog.records} == {
        "A response was denied, because it could not be decided or filtered"
    }


def test_a_logged_body_counts_against_the_memory_of_the_log() -> None:
    for log_bodies, most in ((True, 10**9), (False, 100_000)):
        calls = Calls(log_bodies=log_bodies)
        calls.respond(b'"%s"' % (b"a" * 100_000))
        [answered] = calls.log.answered
        assert (answered.size > 100_000) is log_bodies
        assert 0 < answered.size < most
