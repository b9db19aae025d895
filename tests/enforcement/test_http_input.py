"""One request gives one input in every adapter: that of Envoy, but for what Envoy adds."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from doorward.enforcement.errors import AmbiguousRequestError
from doorward.enforcement.headers import UNTRUSTED
from doorward.enforcement.http_input import HttpRequest, join_headers, to_input
from doorward.envoy.kit.bootstrap import Bootstrap
from doorward.envoy.request import input as envoy

CHECKS = Path(__file__).resolve().parents[1] / "data/checkrequests"
ENVOY_ONLY = {"x-request-id"}
"""Headers that Envoy adds. The id of the stream (`http.id`) is its own, too."""


@pytest.mark.parametrize("name", ["check-1.bin", "check-2.bin"])
def test_the_input_is_envoys(name: str) -> None:
    theirs: Any = envoy.to_input((CHECKS / name).read_bytes())
    attributes, http = theirs["attributes"], theirs["attributes"]["request"]["http"]
    peers = [attributes[end]["address"]["socketAddress"] for end in ("source", "destination")]
    pairs = [
        (key.encode(), value.encode())
        for key, value in http["headers"].items()
        if key[0] != ":" and key not in ENVOY_ONLY and key not in UNTRUSTED
    ]
    headers, _, _ = join_headers([*pairs, (b"Host", b"unused")], UNTRUSTED, strict=True)
    body = http.get("body", "").encode()
    request = HttpRequest(
        http["method"],
        http["path"],
        headers,
        http["host"],
        http["scheme"],
        http["protocol"],
        body,
        source=(peers[0]["address"], peers[0]["portValue"]),
        destination=(peers[1]["address"], peers[1]["portValue"]),
    )
    ours: Any = to_input(request)
    assert ours["attributes"]["request"].pop("time").keys() == {"seconds", "nanos"}
    del attributes["request"]["time"], http["id"]
    for key in ENVOY_ONLY:
        del http["headers"][key]
    if body:
        # The kit's Envoy sends bodies as bytes; this one was recorded with text.
        assert base64.b64decode(ours["attributes"]["request"]["http"].pop("rawBody")) == body
        del http["body"]
    assert ours == theirs


def test_repeated_headers_are_joined_as_envoy_joins_them() -> None:
    pairs = [(b"A", b"1"), (b"a", b"2"), (b"cookie", b"x=1"), (b"cookie", b"y=2"), (b"n", b"\xff")]
    assert join_headers(pairs, frozenset(), strict=True) == (
        {"a": "1,2", "cookie": "x=1; y=2", "n": "!"}, "", False,
    )  # fmt: skip
    for name in (b"content-type", b"Content-Length", b"host"):
        with pytest.raises(AmbiguousRequestError, match="more than one"):
            join_headers([(name, b"1"), (name, b"2")], frozenset(), strict=True)


def test_what_no_client_may_send_is_what_the_kits_envoy_takes_away() -> None:
    assert set(Bootstrap().strip_headers) <= UNTRUSTED
    given = [(b"X-Forwarded-User", b"eve"), (b"a", b"1")]
    assert join_headers(given, UNTRUSTED, strict=True) == ({"a": "1"}, "", True)


def test_what_is_not_known_is_not_there() -> None:
    document: Any = to_input(HttpRequest("GET", "/", {}))
    assert not {"source", "destination"} & document["attributes"].keys()
    assert "host" not in document["attributes"]["request"]["http"]
    assert ":authority" not in document["attributes"]["request"]["http"]["headers"]
    skipped = to_input(HttpRequest("GET", "/", {}, body=b"x"), skip_body=True)
    assert not {"parsed_body", "truncated_body"} & skipped.keys()


def test_what_a_header_is_called_replaces_nothing_of_the_request() -> None:
    given = {":path": "/public", ":method": "GET", ":authority": "other", "x-forwarded-proto": "x"}
    request = HttpRequest("POST", "/admin", given, "host")
    headers = to_input(request)["attributes"]["request"]["http"]["headers"]  # type: ignore[call-overload, index]
    assert headers == {
        ":path": "/admin",
        ":method": "POST",
        ":authority": "host",
        ":scheme": "http",
        "x-forwarded-proto": "http",
    }
