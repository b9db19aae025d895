"""Lists of logged responses are filtered again: another item that stays is a change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.envoy.ext_proc.test_exchange import Calls

from doorward.bundles.loader import Loaded
from doorward.enforcement.lists import ListOptions
from doorward.rego import from_python, to_json
from doorward.replay.compare import kind_of
from doorward.replay.deciding import Version, comparable, recorded_answer
from doorward.replay.events import events_of

POLICY = """package envoy.response

default allow := false

allow if input.attributes.request.http.path == "/a"

owned if input.item.owner == 1
"""
OTHER = POLICY.replace("input.item.owner == 1", "input.item.owner == 2")
BODY = b'{"docs": [{"owner": 1}, {"owner": 2}, {"owner": 1}, {"owner": 2}]}'
LISTS = {"docs": ListOptions(("docs",), "envoy/response/owned")}


def kind(
    candidate: str, policy: str = POLICY, body: bytes = BODY, *, log_bodies: bool = True
) -> tuple[str, str]:
    """What becomes of a logged response with other policies, and what the log lacks."""
    calls = Calls(policy, lists=LISTS, log_bodies=log_bodies)
    calls.respond(body)
    [logged] = calls.events()
    [event] = events_of(to_json(from_python(logged)).encode())
    assert event is not None
    now = comparable(event, Version.compile(Loaded({"p.rego": candidate})).answer(event))
    return kind_of(recorded_answer(event), now), now.missing


def test_the_same_rule_hides_the_same_items() -> None:
    assert kind(POLICY) == ("unchanged", "")


@pytest.mark.parametrize(
    "candidate",
    [
        OTHER,  # as many items, and others
        POLICY.replace("owner == 1", "owner > 0"),
        POLICY.replace("owner == 1", "owner > 9"),
        POLICY + "\nlists := []\n",
    ],
)
def test_other_items_are_a_change(candidate: str) -> None:
    assert kind(candidate) == ("changed", "")


def test_a_list_that_showed_all_is_filtered_now() -> None:
    shows_all = POLICY.replace("owner == 1", "owner > 0")
    assert kind(shows_all, shows_all) == ("unchanged", "")
    assert kind(OTHER, shows_all) == ("changed", "")


def test_a_denial_hides_more_than_any_list() -> None:
    assert kind(POLICY.replace('"/a"', '"/b"')) == ("new-deny", "")


def test_a_rule_that_is_gone_denies() -> None:
    without = POLICY.replace("owned if input.item.owner == 1\n", "")
    assert kind(without) == ("new-deny", "")


def test_a_list_that_the_log_does_not_have_is_missing() -> None:
    assert kind(POLICY + '\nlists := ["other"]\n') == (
        "not-replayable",
        "the rule of the list other",
    )


def test_without_a_body_the_verdict_is_compared() -> None:
    assert kind(OTHER, log_bodies=False) == ("unchanged", "")


def test_masked_values_of_a_body_are_missing() -> None:
    body = BODY.replace(b'{"docs"', b'{"password": "x", "docs"')
    calls = Calls(POLICY, lists=LISTS, log_bodies=True)
    calls.respond(body)
    [logged] = calls.events()
    logged["erased"] = ["/input/response/parsed_body/password"]
    [event] = events_of(to_json(from_python(logged)).encode())
    assert event is not None
    answer = Version.compile(Loaded({"p.rego": POLICY})).answer(event)
    assert answer.missing == "the body, of which /input/response/parsed_body/password is masked"


@pytest.mark.parametrize(
    "record",
    [
        1,
        {"items": "4", "shown": 2, "rule": "r", "name": "n", "hidden": "h", "path": []},
        {"items": 4, "shown": 2, "rule": None, "name": "n", "hidden": "h", "path": []},
        {"items": 4, "shown": 2, "rule": "r", "name": "n", "hidden": "h", "path": [None]},
        {"items": 4, "shown": 2},
    ],
)
def test_a_record_of_another_form_is_not_filtered(record: Any) -> None:
    calls = Calls(POLICY, lists=LISTS, log_bodies=True)
    calls.respond(BODY)
    [logged] = calls.events()
    logged["custom"]["response"]["lists"] = {"docs": record}
    [event] = events_of(to_json(from_python(logged)).encode())
    assert event is not None
    assert Version.compile(Loaded({"p.rego": OTHER})).answer(event).lists is None
    assert recorded_answer(event).lists is None
