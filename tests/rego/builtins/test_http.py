"""`http.send` over a sender that is a list of answers: requests, decoding, errors, caching."""

from __future__ import annotations

import re
from typing import Any

import pytest

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.builtins.http_client.message import HTTPRequest, HTTPResponse, SendError
from doorward.rego.errors import BuiltinError, EvaluationAborted, LimitError, OperandError

URL = "https://keys.example/jwks"
SECOND = 1_000_000_000


class Answers:
    """A sender that answers from a list and remembers what it was asked."""

    def __init__(self, *answers: HTTPResponse | SendError) -> None:
        self.answers = list(answers)
        self.requests: list[HTTPRequest] = []

    def send(self, request: HTTPRequest, deadline: float | None) -> HTTPResponse:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, SendError):
            raise answer
        return answer


def json_response(body: str = '{"a": 1.0}', status: int = 200, **headers: Any) -> HTTPResponse:
    pairs = {"content-type": "application/json; charset=utf-8"}
    pairs |= {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPResponse(status, f"{status} OK", tuple(pairs.items()), body.encode())


def send(environment: Environment, at: int = 0, **request: Any) -> Any:
    """One request in a decision of its own, `at` seconds after the epoch."""
    context = Context(environment, now_ns=at * SECOND)
    return REGISTRY["http.send"].call(context, {"method": "get", "url": URL, **request})


def test_the_response_is_decoded_by_its_type() -> None:
    sender = Answers(json_response(set_cookie="a"), json_response("nonsense"))
    environment = Environment(http=sender)
    assert send(environment) == {
        "status": "200 OK",
        "status_code": 200,
        "body": {"a": 1},
        "raw_body": '{"a": 1.0}',
        "headers": {"content-type": ["application/json; charset=utf-8"], "set-cookie": ["a"]},
    }
    assert send(environment)["body"] is None


@pytest.mark.parametrize(
    ("options", "kind", "body"),
    [
        ({}, "text/plain", None),
        ({"force_json_decode": True}, "text/plain", {"a": [1]}),
        ({"force_yaml_decode": True}, "text/plain", {"a": [1]}),
        ({}, "application/x-yaml", {"a": [1]}),
    ],
)
def test_decoding_can_be_forced(options: dict[str, Any], kind: str, body: Any) -> None:
    sender = Answers(json_response('{"a": [1]}', content_type=kind))
    assert send(Environment(http=sender), **options)["body"] == body


def test_a_raw_body_is_sent_as_it_is() -> None:
    sender = Answers(json_response())
    send(Environment(http=sender), method="post", body={"a": 1}, raw_body="a=1")
    assert sender.requests[0].body == b"a=1"


@pytest.mark.parametrize("timeout", [True, [1], {"s": 1}])
def test_a_timeout_is_a_duration(timeout: Any) -> None:
    with pytest.raises(BuiltinError, match="`timeout` must be a duration such as"):
        send(Environment(http=Answers()), timeout=timeout)


def test_the_request_says_what_the_object_says() -> None:
    sender = Answers(json_response())
    send(
        Environment(http=sender),
        method="post",
        body={"b": "<", "a": 1},
        headers={"X-A": " 1\t"},
        timeout="1m1.5s",
        enable_redirect=True,
        max_retry_attempts=2,
        tls_ca_cert="PEM",
        tls_server_name="other.example",
    )
    request = sender.requests[0]
    assert (request.method, request.url, request.timeout) == ("POST", URL, 61.5)
    assert request.body == b'{"a":1,"b":"\\u003c"}'
    assert request.headers == (("x-a", "1"),)
    assert request.follow_redirects
    assert request.retries == 2
    assert request.certificates.server_name == "other.example"
    assert request.certificates.verify
    assert not request.certificates.system_authorities
    assert "PEM" not in repr(request)


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [(None, 5.0), (10**400, 600.0), (2_000_000_000, 2.0), ("500ms", 0.5), ("1h", 600.0), (0, 5.0)],
)
def test_timeouts(timeout: Any, seconds: float) -> None:
    sender = Answers(json_response())
    send(Environment(http=sender), **({} if timeout is None else {"timeout": timeout}))
    assert sender.requests[0].timeout == seconds


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bad_key": 1}, 'operand 1 invalid request parameters(s): {"bad_key"}'),
        ({"url": 1}, "operand 1 `url` must be string but got number"),
        ({"cache": "yes"}, "operand 1 `cache` must be boolean but got string"),
        ({"headers": ["a"]}, "operand 1 `headers` must be object but got array"),
    ],
)
def test_what_is_no_request_is_a_type_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(OperandError, match=re.escape(text)):
        send(Environment(http=Answers()), **options)


def test_method_and_url_are_required() -> None:
    with pytest.raises(
        OperandError, match=re.escape('missing required request parameters(s): {"u')
    ):
        REGISTRY["http.send"].call(Context(Environment()), {"method": "get"})


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"a": 1}},
        {"method": "a b"},
        {"method": "GÉT"},
        {"cache_ignored_headers": [1], "headers": {}},
        {"force_cache": True, "force_cache_duration_seconds": "1"},
        {"timeout": None},
        {"timeout": "soon"},
        {"timeout": -1},
        {"force_cache": True},
        {"force_cache": True, "force_cache_duration_seconds": 1.5},
        {"tls_client_cert": "PEM"},
        {"url": 1},
        {"bad_key": 1},
    ],
)
def test_what_cannot_be_sent_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(BuiltinError):
        send(Environment(http=Answers()), **options)
    failed = send(Environment(http=Answers()), **options, raise_error=False)
    assert failed["status_code"] == 0
    assert failed["error"]["code"] == "eval_http_send_internal_error"


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"a": "1\r\nb: 2"}},
        {"headers": {"a b": "1"}},
        {"url": "http://[::1"},
        {"url": "http://localhost/%zz"},
    ],
)
def test_what_go_s_client_refuses_is_an_error_of_the_network(options: dict[str, Any]) -> None:
    """As in OPA."""
    with pytest.raises(BuiltinError):
        send(Environment(http=Answers()), **options)
    failed = send(Environment(http=Answers()), **options, raise_error=False)
    assert failed["error"]["code"] == "eval_http_send_network_error"


def test_a_request_without_a_method_is_a_get() -> None:
    sender = Answers(json_response())
    unread: dict[str, Any] = {
        "cache_ignored_headers": "x",
        "caching_mode": 1,
        "force_cache_duration_seconds": "1",
    }
    send(Environment(http=sender), method="", enable_redirect=1, **unread)
    assert sender.requests[0].method == "GET"
    assert sender.requests[0].follow_redirects


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("APPLICATION/JSON", {"a": 1}),
        ("application/vnd.x+json; a=b", {"a": 1}),
        ('application/json; a="b;c"', {"a": 1}),
        ("xapplication/json", None),
        ("text/html application/json", None),
        ("application/json, text/plain", None),
        ("application/json; a", None),
        ("text/json", None),
    ],
)
def test_json_is_read_where_its_media_type_says_so(kind: str, body: Any) -> None:
    """OPA 1.20.2."""
    sender = Answers(json_response('{"a": 1}', content_type=kind))
    assert send(Environment(http=sender))["body"] == body


def test_the_first_value_of_a_body_counts() -> None:
    """OPA 1.20.2."""
    sender = Answers(json_response('{"a": 1} {"a": 2}'))
    assert send(Environment(http=sender))["body"] == {"a": 1}


def test_a_failure_is_an_error_or_an_answer() -> None:
    sender = Answers(SendError("Get: no route"), SendError("Get: no route"))
    with pytest.raises(BuiltinError, match="Get: no route"):
        send(Environment(http=sender))
    assert send(Environment(http=sender), raise_error=False) == {
        "status_code": 0,
        "error": {"code": "eval_http_send_network_error", "message": "Get: no route"},
    }


def test_the_decision_s_deadline_stops_the_evaluation() -> None:
    late = SendError("timed out")
    late.timed_out = True
    context = Context(Environment(http=Answers(late)), deadline=0.0)
    request = {"method": "get", "url": URL, "raise_error": False}
    with pytest.raises(EvaluationAborted, match="timed out") as caught:
        REGISTRY["http.send"].call(context, request)
    assert caught.value.code == "eval_cancel_error"


def test_only_allowed_hosts_are_reached() -> None:
    sender = Answers(json_response())
    environment = Environment(http=sender, allow_net=frozenset({"keys.example"}))
    assert send(environment, url="https://KEYS.example:8443/")["status_code"] == 200
    for url in ("https://other.example/", "https://keys.example@other.example/", "file:///etc"):
        with pytest.raises(BuiltinError, match="unallowed host"):
            send(environment, url=url)
    assert len(sender.requests) == 1


def test_a_decision_asks_once() -> None:
    sender = Answers(json_response())
    context = Context(Environment(http=sender))
    request = {"method": "get", "url": URL}
    first = REGISTRY["http.send"].call(context, request)
    assert REGISTRY["http.send"].call(context, dict(request)) is first


def test_without_caching_every_decision_asks() -> None:
    sender = Answers(json_response(cache_control="max-age=60"), json_response("2"))
    environment = Environment(http=sender)
    assert [send(environment)["raw_body"] for _ in range(2)] == ['{"a": 1.0}', "2"]


def test_a_fresh_response_is_not_asked_for_again() -> None:
    sender = Answers(
        json_response("1", cache_control="public, max-age=60", age="10"), json_response("2")
    )
    environment = Environment(http=sender)
    bodies = [send(environment, at=at, cache=True)["body"] for at in (100, 149, 150)]
    assert bodies == [1, 1, 2]


def test_expires_counts_from_date() -> None:
    sender = Answers(
        json_response(
            "1",
            date="Thu, 01 Jan 1970 01:00:00 GMT",
            expires="Thu, 01 Jan 1970 01:01:00 GMT",
        ),
        json_response("2"),
    )
    environment = Environment(http=sender)
    assert [send(environment, at=at, cache=True)["body"] for at in (0, 59, 60)] == [1, 1, 2]


def test_a_stale_response_is_revalidated() -> None:
    fresh: dict[str, Any] = {"etag": '"x"', "cache_control": "max-age=1"}
    sender = Answers(
        json_response("1", **fresh),
        json_response("", status=304, **fresh),
        json_response("3", **fresh),
    )
    environment = Environment(http=sender)
    bodies = [send(environment, at=at, cache=True)["body"] for at in (0, 5, 5, 10)]
    assert bodies == [1, 1, 1, 3]
    assert sender.requests[1].headers == (("if-none-match", '"x"'),)


@pytest.mark.parametrize(
    "second",
    [
        json_response("", status=304, cache_control="no-store"),
        json_response("2", cache_control="no-store"),
        json_response("2", status=500),
    ],
)
def test_a_response_that_must_not_be_stored_removes_the_stale_one(second: HTTPResponse) -> None:
    sender = Answers(
        json_response("1", etag='"x"', cache_control="max-age=1"), second, json_response("3")
    )
    environment = Environment(http=sender)
    bodies = [send(environment, at=at, cache=True)["body"] for at in (0, 5)]
    assert bodies == [1, 1 if second.status_code == 304 else 2]
    assert len(environment.responses) == 0
    assert send(environment, at=6, cache=True)["body"] == 3
    assert sender.requests[2].headers == ()


@pytest.mark.parametrize(
    ("response", "request_"),
    [
        (json_response(cache_control="no-store, max-age=60"), {}),
        (json_response(cache_control="no-cache, max-age=60"), {}),
        (json_response(), {}),
        (json_response(cache_control="max-age=abc"), {}),
        (json_response(expires="0", date="now"), {}),
        (json_response(status=500, cache_control="max-age=60"), {}),
        (json_response(cache_control="max-age=60"), {"method": "POST"}),
    ],
)
def test_what_is_not_to_be_stored_is_not(response: HTTPResponse, request_: dict[str, Any]) -> None:
    sender = Answers(response, response)
    environment = Environment(http=sender)
    for _ in range(2):
        send(environment, cache=True, **request_)
    assert not sender.answers


def test_a_forced_cache_overrides_the_server() -> None:
    sender = Answers(json_response("1", cache_control="no-store"), json_response("2"))
    environment = Environment(http=sender)
    forced: dict[str, Any] = {"force_cache": True, "force_cache_duration_seconds": 60}
    assert [send(environment, at=at, **forced)["body"] for at in (0, 59, 60)] == [1, 1, 2]


def test_headers_that_are_ignored_share_a_response() -> None:
    sender = Answers(json_response(cache_control="max-age=60"), json_response("2"))
    environment = Environment(http=sender)
    ignoring: dict[str, Any] = {"cache": True, "cache_ignored_headers": ["X-Id"]}
    send(environment, headers={"x-id": "1", "x-a": "1"}, **ignoring)
    send(environment, headers={"x-id": "2", "x-a": "1"}, **ignoring)
    assert send(environment, headers={"x-id": "2", "x-a": "2"}, **ignoring)["body"] == 2


def test_a_request_nested_too_deeply_is_an_error() -> None:
    body: Any = []
    for _ in range(5000):
        body = [body]
    with pytest.raises(LimitError, match="nested too deeply"):
        send(Environment(http=Answers()), method="post", body=body)
