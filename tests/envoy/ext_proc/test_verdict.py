"""Which results are verdicts on responses."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.envoy.ext_proc.verdict import read_response_verdict
from doorward.rego import UNDEFINED, Engine
from doorward.verdicts import ResultError


def document(policy: str) -> Any:
    return Engine({"p.rego": f"package p\n{policy}"}).prepare("data.p").value({})


def test_a_document_of_rules_is_a_verdict() -> None:
    verdict = read_response_verdict(
        document(
            """
            allow := true
            keep contains ["items", "*", "id"]
            remove contains ["a", 0]
            set contains {"path": ["b"], "value": {"c": [1]}}
            lists contains "people"
            response_headers_to_add := {"x-a": "1"}
            response_headers_to_remove := ["X-B"]
            """
        )
    )
    assert verdict.allowed
    assert verdict.keep == (("items", "*", "id"),)
    assert verdict.remove == (("a", 0),)
    assert verdict.set == ((("b",), {"c": [1]}),)
    assert verdict.lists == frozenset({"people"})
    assert verdict.added == (("x-a", "1"),)
    assert verdict.removed == ("x-b",)


def test_a_denial_has_status_headers_and_body() -> None:
    verdict = read_response_verdict(
        document('allow := false\nhttp_status := 404\nheaders := {"a": "b"}\nbody := "gone"')
    )
    assert (verdict.allowed, verdict.status) == (False, 404)
    assert (verdict.headers, verdict.body) == ((("a", "b"),), "gone")


@pytest.mark.parametrize("name", ["removes", "Keep", "helper", "response"])
def test_a_name_that_means_nothing_is_an_error_and_hides_nothing(name: str) -> None:
    with pytest.raises(ResultError, match=f"`{name}`: unknown field"):
        read_response_verdict(document(f'allow := true\n{name} contains ["salary"]'))


@pytest.mark.parametrize("policy", ["", "allow if false", "allow := false"])
def test_what_does_not_allow_denies(policy: str) -> None:
    assert not read_response_verdict(document(policy)).allowed


@pytest.mark.parametrize(
    "result",
    [
        UNDEFINED,
        True,
        False,
        None,
        [],
        "allow",
        {"allow": "true"},
        {"allow": 1},
        {"allow": None},
        {"allow": True, "remove": "a"},
        {"allow": True, "remove": ["a"]},
        {"allow": True, "remove": [[1.5]]},
        {"allow": True, "keep": None},
        {"allow": True, "keep": {"a": True}},
        {"allow": True, "set": [["a"]]},
        {"allow": True, "set": [{"path": ["a"]}]},
        {"allow": True, "set": [{"path": ["a"], "value": 1, "more": 1}]},
        {"allow": True, "set": [{"path": ["a"], "value": frozenset()}]},
        {"allow": True, "set": [{"path": ["a"], "value": {1: 2}}]},
        {"allow": True, "stream": "yes"},
        {"allow": True, "lists": [1]},
        {"allow": True, "lists": "people"},
        {"allow": True, "response_headers_to_add": {"Content-Length": "1"}},
        {"allow": True, "response_headers_to_add": {"a\n": "1"}},
        {"allow": True, "response_headers_to_remove": ["content-encoding"]},
        {"allow": False, "http_status": 204},
        {"allow": False, "http_status": 100},
        {"allow": False, "http_status": "403"},
        {"allow": False, "headers": {"a": "b\r\nc"}},
        {"allow": False, "body": 1},
    ],
)
def test_what_is_not_a_verdict_is_an_error(result: Any) -> None:
    with pytest.raises(ResultError):
        read_response_verdict(result)
