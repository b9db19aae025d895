"""What somebody pastes becomes the input that the sidecar would make of it."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.console import pasted
from doorward.console.pasted import PastedError, read_pasted
from doorward.rego import to_python

TYPE = "Content-Type: application/json"
BODY = '{"firstname": "Charlie"}'


def http_of(text: str) -> dict[str, Any]:
    input: Any = to_python(read_pasted(text))
    request: dict[str, Any] = input["attributes"]["request"]["http"]
    return {**request, "parsed": input.get("parsed_body"), "segments": input["parsed_path"]}


@pytest.mark.parametrize(
    "text",
    [
        f"curl -X POST -H 'Content-Type: application/json' -d '{BODY}' http://api.example/people?x=1",
        f"curl -XPOST 'http://api.example/people?x=1' --json '{BODY}'",
        f"curl --url=http://api.example/people?x=1 \\\n  --json='{BODY}' -s -o /dev/null",
        f"POST /people?x=1 HTTP/1.1\r\nHost: api.example\r\n{TYPE}\r\n\r\n{BODY}",
        f"post /people?x=1\nhost: api.example\ncontent-type: application/json\n\n{BODY}",
    ],
)
def test_a_request_is_the_same_however_it_is_written(text: str) -> None:
    http = http_of(text)
    assert (http["method"], http["path"], http["host"]) == ("POST", "/people?x=1", "api.example")
    assert http["headers"]["content-type"] == "application/json"
    assert (http["parsed"], http["segments"]) == ({"firstname": "Charlie"}, ["people"])


def test_headers_are_there_and_a_body_makes_a_post() -> None:
    http = http_of(
        "curl api.example/people -H 'Authorization: Bearer x' -H 'A: 1' -H 'a: 2' -d q=1"
    )
    assert (http["method"], http["path"], http["host"]) == ("POST", "/people", "api.example")
    assert (http["headers"]["authorization"], http["headers"]["a"]) == ("Bearer x", "1,2")
    assert http_of("curl -I http://x")["method"] == "HEAD"
    assert http_of("GET")["path"] == "/"


def test_options_of_curl_that_set_headers_set_them() -> None:
    text = "curl http://x -A a -b s=1 -uann:pw --cookie=t=2 --user-agent b -e /r"
    headers = http_of(text)["headers"]
    assert (headers["user-agent"], headers["referer"]) == ("b", "/r")
    assert (headers["cookie"], headers["authorization"]) == ("s=1; t=2", "Basic YW5uOnB3")
    text = "curl http://x -u ann:pw -H 'Authorization: Bearer x' -b s=1 -H 'cookie: t=2'"
    headers = http_of(text)["headers"]
    assert (headers["cookie"], headers["authorization"]) == ("t=2", "Bearer x")


@pytest.mark.parametrize("text", ['{"user": "ann"}', '{"input": {"user": "ann"}}'])
def test_json_is_the_input(text: str) -> None:
    assert read_pasted(text) == {"user": "ann"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "paste a command"),
        ("podman run alpine", "paste a command"),
        ("{", "not JSON"),
        ("curl 'x", "not complete"),
        ("curl -X", "needs a value"),
        ("curl -X DELETE", "has no URL"),
        ("curl -X DELETEGEThttp://localhost/people -H 'a: b'", "has no URL"),
        ("curl http://x -d @/etc/passwd", "replace the file of the curl option"),
        ("curl http://x -b cookies.txt", "cookies must be in the command"),
        ("curl http://[x", "URL of the pasted request is invalid"),
        ("{" * 300_000, "longer than"),
    ],
)
def test_what_is_no_request_says_so(text: str, problem: str) -> None:
    with pytest.raises(PastedError, match=problem):
        read_pasted(text)


def test_a_long_text_is_refused_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted, "MAX_PASTED", 10)
    with pytest.raises(PastedError, match="longer than 10"):
        read_pasted("GET /" + "x" * 10)
