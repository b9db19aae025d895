"""What a policy may answer, and what is an error; recorded answers are in tests/envoy."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.type.v3 import http_status_pb2

from doorward.rego import UNDEFINED
from doorward.rego.shared import to_key
from doorward.verdicts import STATUS_CODES, ResultError, is_allowed, read_verdict


def test_the_codes_are_envoys() -> None:
    assert set(http_status_pb2.StatusCode.values()) - {0} == STATUS_CODES


def test_a_boolean_is_a_verdict() -> None:
    assert read_verdict(True, "id")[:2] == (True, 403)
    assert read_verdict(False).allowed is False


def test_a_denial_may_answer_any_final_status() -> None:
    for status in (200, 302, 403, 511):
        assert read_verdict({"allowed": False, "http_status": status}).status == status


def test_a_denial_and_an_allowed_request_use_their_own_fields() -> None:
    shared: dict[Any, Any] = {"headers": [{"A": "1"}, {"B": ["2", "3"]}], "body": "b"}
    denied = read_verdict({**shared, "allowed": False, "http_status": 404})
    assert (denied.status, denied.body) == (404, "b")
    assert denied.headers == (("A", "1"), ("B", "2"), ("B", "3"))
    allowed = read_verdict(
        {
            **shared,
            "allowed": True,
            "http_status": "ignored",
            "request_headers_to_remove": ["X-A"],
            "response_headers_to_add": {"c": "4"},
        }
    )
    assert allowed.removed == ("x-a",)
    assert allowed.response_headers == (("c", "4"),)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (UNDEFINED, "undefined decision"),
        (1, "illegal value for policy evaluation result: json.Number"),
        ({}, 'missing "allowed" key'),
        ({"allowed": 1}, "expected allowed to be of type 'boolean'"),
        ({"allowed": False, "http_status": 100}, "HTTP status code 100 ends no request"),
        ({"allowed": False, "http_status": 299}, "Invalid HTTP status code 299"),
        ({"allowed": False, "body": 1}, "expected body to be of type 'string'"),
        ({"allowed": False, "http_status": 199}, "Invalid HTTP status code 199"),
        ({"allowed": False, "headers": {"a": {"b": "1"}}}, "type assertion error for header 'a'"),
        ({"allowed": True, "headers": {"a": None}}, "type assertion error for header 'a'"),
        ({"allowed": False, "headers": {"a b": "1"}}, 'header "a b" has a name or value that HTTP'),
        ({"allowed": False, "headers": {"a": "1\r\nb: 2"}}, 'header "a" has a name or value that'),
        ({"allowed": True, "headers": {"a": "\u0100"}}, 'header "a" has a name or value that'),
        ({"allowed": True, "response_headers_to_add": {"": "1"}}, "that HTTP does not allow"),
        ({"allowed": False, "http_status": "403"}, "expected http_status to be of type 'number'"),
        ({"allowed": False, "http_status": True}, "expected http_status to be of type 'number'"),
        ({"allowed": False, "headers": {"a": [1]}}, "invalid value type json.Number for header"),
        ({"allowed": False, "headers": ["a"]}, "expected headers to be of type 'object'"),
        ({"allowed": True, "request_headers_to_remove": "a"}, "request_headers_to_remove"),
        ({"allowed": True, "query_parameters_to_set": ["a"]}, "to be a map but got"),
        (
            {"allowed": True, "query_parameters_to_set": {"a": "1"}},
            "are only supported for Envoy",
        ),
        (
            {"allowed": True, "query_parameters_to_remove": ["a"]},
            "are only supported for Envoy",
        ),
    ],
)
def test_everything_else_is_an_error_and_not_allowed(result: Any, message: str) -> None:
    with pytest.raises(ResultError) as raised:
        read_verdict(result)
    assert message in str(raised.value)
    assert is_allowed(result) is False


@pytest.mark.parametrize("allowed", [True, False])
def test_a_verdict_is_allowed_where_its_result_says_so(allowed: bool) -> None:
    assert is_allowed(allowed) is allowed
    assert is_allowed({"allowed": allowed, "headers": {"a": "1"}}) is allowed


def test_sets_are_read_in_order_and_names_as_texts() -> None:
    values = frozenset(to_key(each) for each in ("c", "a", "b"))
    verdict = read_verdict({"allowed": False, "headers": {"A": values}})
    assert verdict.headers == (("A", "a"), ("A", "b"), ("A", "c"))
    named = read_verdict({"allowed": False, "headers": {to_key(1): "x"}})
    assert named.headers == (("1", "x"),)
