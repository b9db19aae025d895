"""Spans of requests have the attributes that OPA's library sets."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.telemetry.span_attributes import request_attributes, response_attributes


def of(headers: dict[str, str], client: Any = None, **options: Any) -> dict[str, str | int]:
    return request_attributes("POST", "/v1/data/p", headers.get, client, **options)


def test_all_is_named_that_is_known() -> None:
    headers = {
        "content-length": "7",
        "host": "pdp.example:8181",
        "user-agent": "curl/8",
        "x-forwarded-for": "203.0.113.9, 10.0.0.1",
    }
    assert of(headers, ("10.0.0.2", 4711), version="1.0") == {
        "client.address": "203.0.113.9",
        "http.request.body.size": 7,
        "http.request.method": "POST",
        "network.peer.address": "10.0.0.2",
        "network.peer.port": 4711,
        "network.protocol.version": "1.0",
        "server.address": "pdp.example",
        "server.port": 8181,
        "url.path": "/v1/data/p",
        "url.scheme": "http",
        "user_agent.original": "curl/8",
    }


@pytest.mark.parametrize(
    ("host", "is_encrypted", "address", "port"),
    [
        ("a", False, "a", None),
        ("a:80", False, "a", None),
        ("a:443", True, "a", None),
        ("a:80", True, "a", 80),
        ("[::1]:8181", False, "::1", 8181),
        ("a:b", False, "a:b", None),
        ("a:999999", False, "a:999999", None),
    ],
)
def test_a_port_is_named_that_is_not_the_usual_one(
    host: str, is_encrypted: bool, address: str, port: int | None
) -> None:
    attributes = of({"host": host}, is_encrypted=is_encrypted)
    assert (attributes["server.address"], attributes.get("server.port")) == (address, port)


@pytest.mark.parametrize("length", ["x", "²", "0", "-1"])
def test_what_is_not_known_is_not_named(length: str) -> None:
    attributes = of({"content-length": length}, "/run/doorward.sock")
    assert set(attributes) == {
        "http.request.method",
        "network.protocol.version",
        "url.path",
        "url.scheme",
    }
    assert of({}, ("10.0.0.2", 1))["client.address"] == "10.0.0.2"


def test_an_empty_response_has_no_size() -> None:
    assert response_attributes(204, 0) == {"http.response.status_code": 204}
    assert response_attributes(200, 9)["http.response.body.size"] == 9


def test_a_response_names_the_pattern_of_its_path() -> None:
    assert response_attributes(200, 0, "/v1/data/{path...}")["http.route"] == "/v1/data/{path...}"
    assert "http.route" not in response_attributes(404, 0)
