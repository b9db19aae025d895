"""Signing for AWS, where the recorded answers are silent."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego.builtins import REGISTRY
from doorward.rego.errors import BuiltinError, OperandError

CONFIG = {
    "aws_access_key": "AKIDEXAMPLE",
    "aws_secret_access_key": "geheim",
    "aws_service": "iam",
    "aws_region": "us-east-1",
}


def sign(request: dict[str, Any], time_ns: Any = 0, **config: Any) -> Any:
    return REGISTRY["providers.aws.sign_req"].call(request, {**CONFIG, **config}, time_ns)


def test_the_request_stays_and_gains_headers() -> None:
    request = {"method": "get", "url": "https://[::1]:8443/a?b=c", "timeout": "1s"}
    signed = sign(request, aws_session_token="token")
    assert {name: signed[name] for name in request} == request
    headers = signed["headers"]
    assert headers["host"] == "[::1]:8443"
    assert headers["x-amz-date"] == "19700101T000000Z"
    assert headers["x-amz-security-token"] == "token"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token," in headers["Authorization"]
    assert "headers" not in request


def test_some_headers_are_not_signed_but_sent() -> None:
    request = {"method": "get", "url": "https://a", "headers": {"User-Agent": "x", "A": "1"}}
    headers = sign(request)["headers"]
    assert headers["User-Agent"] == "x"
    assert headers["A"] == "1"
    assert "SignedHeaders=a;host;x-amz-date," in headers["Authorization"]


def test_headers_that_are_not_strings_are_empty() -> None:
    headers: dict[Any, Any] = {1: "x", "a": ["y", "z"], "b": 1}
    signed = sign({"method": "get", "url": "https://a", "headers": headers})["headers"]
    assert "SignedHeaders=;a;b;host;x-amz-date," in signed["Authorization"]
    assert (signed[""], signed["a"], signed["b"]) == ("x", "", "")


def test_what_is_signed_decides_the_signature() -> None:
    request = {"method": "post", "url": "https://a", "body": {"x": 1}}
    others = [
        sign({**request, "body": {"x": 2}}),
        sign({**request, "raw_body": "x"}),
        sign({**request, "url": "https://a/b"}),
        sign(request, 10**9),
        sign(request, aws_region="eu"),
        sign(request, disable_payload_signing=True),
    ]
    signatures = {signed["headers"]["Authorization"] for signed in [sign(request), *others]}
    assert len(signatures) == 7


@pytest.mark.parametrize("time_ns", [1.5, 1 << 63, -(1 << 63) - 1])
def test_a_time_must_be_one(time_ns: float) -> None:
    with pytest.raises(OperandError, match="operand 3 could not convert time_ns"):
        sign({"method": "get", "url": "https://a"}, time_ns)


def test_empty_fields_and_times_before_the_epoch_are_signed() -> None:
    config = dict.fromkeys(CONFIG, "")
    headers = sign({"method": "", "url": ""}, -1, **config)["headers"]
    assert headers["x-amz-date"] == "19691231T235959Z"
    assert headers["host"] == ""
    assert "Credential=/19691231///aws4_request," in headers["Authorization"]


@pytest.mark.parametrize(
    ("request_", "config", "message"),
    [
        ({"method": "get"}, {}, "missing required request parameters"),
        ({"method": "get", "url": 1}, {}, "invalid values for required request parameters"),
        ({"method": "get", "url": "", "x": 1}, {}, "invalid request parameters"),
        ({"method": "get", "url": "", "headers": []}, {}, "must be object but got array"),
        ({"method": "get", "url": ""}, {"aws_region": 1}, "invalid values for required AWS config"),
        (
            {"method": "get", "url": ""},
            {"disable_payload_signing": 1},
            "invalid value for 'disable",
        ),
    ],
)
def test_fields_of_another_kind_are_errors(
    request_: dict[str, Any], config: dict[str, Any], message: str
) -> None:
    with pytest.raises(OperandError, match=message):
        sign(request_, **config)


def test_no_error_shows_the_secret() -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"method": "get", "url": ":"}, {}),
        ({"method": "get", "url": "https://a", "headers": 1}, {}),
        ({"method": "get", "url": "https://a"}, {"disable_payload_signing": "yes"}),
        ({"method": "get", "url": "https://a"}, {"aws_region": 1}),
    ]
    for request, config in cases:
        with pytest.raises(BuiltinError) as caught:
            sign(request, **config)
        assert "geheim" not in str(caught.value)
