"""Masks take values out of an event, as OPA's do, and never change what they copy from."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from doorward.decision_log.redaction.masking import Mask, MaskError, apply, read_masks
from doorward.rego.values import Value, make_set

EVENT: dict[str, Any] = {
    "input": {"user": "ann", "password": "p", "list": [{"k": 1}, {"k": 2}], "a/b": 5},
    "result": True,
}


def applied(*rules: Value) -> dict[str, Any]:
    before = copy.deepcopy(EVENT)
    event = apply(EVENT, read_masks(list(rules)))
    assert before == EVENT
    return event


def test_a_path_removes() -> None:
    event = applied("/input/password", "/input/list/0/k")
    assert event["input"] == {"user": "ann", "list": [{}, {"k": 2}], "a/b": 5}
    assert event["erased"] == ["/input/password", "/input/list/0/k"]
    assert "masked" not in event


def test_a_whole_document_can_go() -> None:
    event = applied("/input", {"op": "upsert", "path": "/result", "value": "masked"})
    assert "input" not in event
    assert event["result"] == "masked"
    assert (event["erased"], event["masked"]) == (["/input"], ["/result"])


@pytest.mark.parametrize(
    "path",
    [
        "/input/nope/x",
        "/input/list/9",
        "/input/list/-1",
        "/input/list/*/k",
        "/input/user/x",
        "/input/a~1b",
        "/input/password/",
        "/input//password",
        "/nd_builtin_cache",
    ],
)
def test_a_mask_that_finds_nothing_is_not_listed(path: str) -> None:
    assert applied(path) == EVENT


def test_upsert_replaces_and_makes_what_is_missing() -> None:
    event = applied(
        {"op": "upsert", "path": "/input/new/deep", "value": {"x": 1}},
        {"op": "upsert", "path": "/input/list/1", "value": "m"},
        {"op": "upsert", "path": "/input/user/x", "value": "no"},
    )
    assert event["input"]["new"] == {"deep": {"x": 1}}
    assert event["input"]["list"] == [{"k": 1}, "m"]
    assert event["masked"] == ["/input/new/deep", "/input/list/1"]


def test_a_set_of_rules_is_taken_in_order() -> None:
    rules = make_set(
        [{"op": "upsert", "path": "/input/user", "value": "x"}, "/input/user"],
    )
    assert apply(EVENT, read_masks(rules))["input"]["user"] == "x"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{"op": "zip", "path": "/input/a"}], "mask op is not supported: zip"),
        ([{"path": "/input/a"}], "mask op is not supported: "),
        (["/labels/id"], "mask prefix not allowed: labels"),
        (["/"], "mask prefix not allowed: "),
        (["input/a"], "mask must be slash-prefixed"),
        ([""], "mask must be non-empty"),
        ([1], "invalid mask rule format encountered: number"),
        ([{"op": "remove", "path": 1}], "mask path and op must be strings"),
        ([{"op": 1, "path": "/input/a"}], "mask path and op must be strings"),
        ("/input/a", "unexpected rule format"),
        ({"a": "/input/a"}, "unexpected rule format"),
    ],
)
def test_a_mask_that_means_nothing_is_an_error(rules: Value, message: str) -> None:
    with pytest.raises(MaskError) as caught:
        read_masks(rules)
    assert str(caught.value).startswith(message)


def test_a_mask_reads_as_its_path() -> None:
    assert str(Mask(("input", "a", "b"))) == "/input/a/b"
