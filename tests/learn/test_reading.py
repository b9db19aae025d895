"""Lines of all logs become the same accesses; what cannot be used says why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.learn.access import ALLOWED, DENIED, FAILED, Access
from doorward.learn.reading import Options, read_access, request_id_of, status_of

HTTP = {
    "method": "GET",
    "path": "/orders/17?of=ann",
    "host": "App.example:8080",
    "headers": {"x-request-id": "r-1"},
}
TOKEN = {"path": "/input/…", "scheme": "Bearer", "key": "k", "header": {}}
CLAIMS = {"sub": "ann", "roles": ["clerk"], "team": "blue", "exp": 1, "realm": {"roles": ["x"]}}


def ours(**more: Any) -> dict[str, Any]:
    return {
        "decision_id": "d-1",
        "path": "envoy/authz/allow",
        "timestamp": "2027-01-15T08:00:00.5Z",
        "input": {
            "attributes": {"request": {"http": HTTP}},
            "parsed_path": ["orders", "17"],
            "parsed_query": {"of": ["ann"]},
        },
        "result": True,
        "erased": ["/input/attributes/request/http/headers/authorization"],
        "custom": {"claims": {"digest": {**TOKEN, "payload": CLAIMS}}},
        **more,
    }


def opa(**more: Any) -> dict[str, Any]:
    return {
        "decision_id": "o-1",
        "path": "httpapi/authz/allow",
        "input": {"method": "GET", "path": ["orders", "17"], "user": "ann", "claims": CLAIMS},
        "result": True,
        **more,
    }


def envoy(**more: Any) -> dict[str, Any]:
    return {
        "start_time": "2027-01-15T08:00:00Z",
        "method": "GET",
        "path": "/orders/17?of=ann",
        "response_code": 200,
        "authority": "app.example",
        "request_id": "r-1",
        "user": "ann",
        **more,
    }


def read(document: Any, options: Options | None = None) -> Any:
    return read_access(document, options or Options())


def test_decisions_of_ours_and_of_opa_and_lines_of_envoy_are_the_same_access() -> None:
    for document in (ours(), opa(), envoy(claims=CLAIMS)):
        access = read(document)
        assert isinstance(access, Access)
        assert (access.method, access.segments, access.outcome) == (
            "GET",
            ("orders", "17"),
            ALLOWED,
        )
        assert access.subject.name == "ann"
        values = dict(access.subject.values)
        assert values["claims", "roles"] == ("clerk",)
        assert values["claims", "realm", "roles"] == ("x",)
        assert ("claims", "exp") not in values
        assert access.subject.lists == {("claims", "roles"), ("claims", "realm", "roles")}
    assert read(ours()).host == read(envoy()).host == "app.example"
    assert read(ours()).seconds == read(envoy()).seconds > 0
    assert read(ours()).parameters == {("query", "of"): "ann"} == read(envoy()).parameters


OUTCOMES = {
    "allowed": (ours(), ALLOWED),
    "denied": (ours(result=False), DENIED),
    "object": (ours(result={"allowed": True}), ALLOWED),
    "undefined": ({k: v for k, v in ours().items() if k != "result"}, DENIED),
    "status 403": (envoy(response_code=403), DENIED),
    "status 404": (envoy(response_code=404), FAILED),
    "status 500 as text": (envoy(response_code="500"), FAILED),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_how_it_ended(name: str) -> None:
    document, outcome = OUTCOMES[name]
    assert read(document).outcome == outcome


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(document))
    inner = copy
    *above, last = path.split("/")
    for name in above:
        inner = inner[name]
    inner[last] = value
    return copy


USELESS = {
    "error": (ours(error={"code": "x"}), "the decision failed"),
    "hidden result": (ours(erased=["/result"]), "the result is hidden"),
    "hidden path": (ours(masked=["/input/parsed_path/0"]), "the path is hidden"),
    "hidden subject": (ours(custom={}), "the subject is hidden"),
    "no subject": (changed(changed(opa(), "input/user", 1), "input/claims", []), "no subject"),
    "no user": (envoy(user="-"), "no subject"),
    "two tokens": (ours(custom={"claims": {"a": {}, "b": {}}}), "more than one token"),
    "escaped": (
        changed(ours(), "input/attributes/request/http/path", "/orders%2f17"),
        "the path can be read in two ways",
    ),
    "two slashes": (envoy(path="//orders/17"), "the path can be read in two ways"),
    "bad escape": (envoy(path="/orders/%zz"), "the path can be read in two ways"),
    "dots": (envoy(path="/orders/../17"), "the path can be read in two ways"),
    "parameters of a path": (envoy(path="/orders;v=1/17"), "the path can be read in two ways"),
    "another form": (
        changed(ours(), "input/parsed_path", ["orders", 17]),
        "the path can be read in two ways",
    ),
    "method": (envoy(method="GET /x"), "no method"),
    "status": (envoy(response_code=0), "no status"),
    "many parameters": (
        envoy(path="/o?" + "&".join([f"p{n}=1" for n in range(40)])),
        "more than 32 parameters",
    ),
    "many claims": (
        changed(opa(), "input/claims", {f"c{n}": "v" for n in range(40)}),
        "more than 32 claims",
    ),
    "response": (changed(ours(), "input/response", {"status": 200}), "a decision on a response"),
    "host": (changed(ours(), "input/attributes/request/http/host", "ä"), "no host"),
    "input": (ours(input=[]), "no input"),
}


@pytest.mark.parametrize("name", USELESS)
def test_what_cannot_be_used_says_why(name: str) -> None:
    document, reason = USELESS[name]
    assert read(document) == reason


@pytest.mark.parametrize("document", [None, [], "x", 1, {}, {"level": "info", "msg": "started"}])
def test_what_is_no_event_is_none(document: Any) -> None:
    assert read(document) is None


def test_options_choose_decisions_paths_and_places() -> None:
    assert read(ours(), Options(frozenset({"other"}))) == "another decision"
    assert read(opa(), Options(ignored=("/orders",))) == "ignored"
    assert read(opa(), Options(only="bob")) == "another subject"
    placed = changed(opa(), "input/who", {"sub": "eve"})
    assert read(placed, Options(claims=("who",))).subject.name == "ann"
    assert read(changed(placed, "input/user", ""), Options(claims=("who",))).subject.name == "eve"


def test_a_request_that_failed_by_another_log_is_not_use() -> None:
    failed = status_of(envoy(response_code=404))
    assert failed is not None
    assert failed[1] == 404
    options = Options(failed=frozenset({failed[0]}))
    assert read(ours(), options).outcome == FAILED
    response = changed(ours(), "input/response", {"status": 500})
    assert status_of(response) == (request_id_of("r-1"), 500)
    assert status_of(envoy(request_id="")) is None
    assert status_of([]) is None


def test_scopes_are_words_and_numbers_are_texts() -> None:
    access = read(changed(opa(), "input/claims", {"sub": 17, "scope": "a b", "ok": True}))
    values = dict(access.subject.values)
    assert values["claims", "scope"] == ("a", "b")
    assert values["claims", "sub"] == ("17",)
    assert values["claims", "ok"] == ("true",)
