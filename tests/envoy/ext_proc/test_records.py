"""Decisions on responses in logs, replays, shadows, explanations and the console's rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.envoy.ext_proc.test_exchange import BODY, Calls
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.loader import Loaded
from doorward.cli.main import run
from doorward.config.configuration import Shadow as ShadowOptions
from doorward.console.responses import response_of
from doorward.console.ring import Ring
from doorward.console.rows import row_of
from doorward.console.views import detail
from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.envoy.ext_proc.options import ListOptions
from doorward.rego import from_python, to_json
from doorward.replay.deciding import Version
from doorward.replay.shadow import Shadow

POLICY = """package envoy.response

default allow := false

allow if input.attributes.request.http.path == "/a"

remove contains ["secret"]

set contains {"path": ["pin"], "value": "CANARY"}
"""
NARROWER = POLICY.replace('"/a"', '"/b"')
READS_BODY = POLICY.replace(
    'allow if input.attributes.request.http.path == "/a"',
    'allow if {\n\tinput.attributes.request.http.path == "/a"\n'
    "\tinput.response.parsed_body.id == 1\n}",
)


def events_of(policy: str = POLICY, **options: Any) -> list[dict[str, Any]]:
    """A response that passes, one that the policy denies, and one that cannot be read."""
    calls = Calls(policy, **options)
    calls.respond()
    calls.respond(path="/c")
    calls.respond(b"{")
    return [json.loads(to_json(from_python(each))) for each in calls.events()]


def kinds(
    folder: Path, policy: str, events: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> dict[str, int]:
    (folder / "log.jsonl").write_text("".join([json.dumps(each) + "\n" for each in events]))
    (folder / "p.rego").write_text(policy)
    arguments = ["--log", str(folder / "log.jsonl"), "--policy", str(folder / "p.rego")]
    run(["replay", *arguments, "--parallel", "1", "--format", "json"])
    counted: dict[str, int] = json.loads(capsys.readouterr().out)["kinds"]
    return {kind: number for kind, number in counted.items() if number}


def test_a_log_without_bodies_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = events_of()
    assert "CANARY" not in json.dumps(events)
    assert kinds(tmp_path, POLICY, events, capsys) == {"unchanged": 2, "not-replayable": 1}
    narrower = kinds(tmp_path, NARROWER, events, capsys)
    assert narrower == {"new-deny": 1, "unchanged": 1, "not-replayable": 1}
    hides_less = POLICY.replace('remove contains ["secret"]\n', "")
    assert kinds(tmp_path, hides_less, events, capsys)["changed"] == 2


def test_a_decision_that_reads_a_body_is_replayed_where_bodies_are_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = kinds(tmp_path, READS_BODY, events_of(READS_BODY), capsys)
    assert without == {"not-replayable": 3}
    events = events_of(READS_BODY, log_bodies=True)
    assert kinds(tmp_path, READS_BODY, events, capsys) == {"unchanged": 2, "not-replayable": 1}


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (POLICY, {"unchanged": 2, "not-replayable": 1}),
        (NARROWER, {"new-deny": 1, "unchanged": 1, "not-replayable": 1}),
        (READS_BODY, {"not-replayable": 3}),
    ],
)
def test_a_shadow_compares_what_it_has_of_a_response(
    candidate: str, expected: dict[str, int]
) -> None:
    calls = Calls(POLICY)
    seen: Counter[str] = Counter()
    shadow = Shadow(
        Version.compile(Loaded({"c.rego": candidate})),
        ShadowOptions(("c.rego",), share=1.0, max_age=PATIENCE),
        on_kind=lambda kind: seen.update([kind]),
        on_dropped=lambda reason: seen.update([reason]),
    )
    calls.respond()
    calls.respond(path="/c")
    calls.respond(b"{")
    for each in calls.log.answered:
        shadow.observe(each)
    wait_until(lambda: seen.total() == 3)
    shadow.close()
    assert seen == expected


def test_a_logged_denial_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    denied = events_of()[1]
    (tmp_path / "p.rego").write_text(POLICY)
    (tmp_path / "input.json").write_text(json.dumps(denied["input"]))
    files = ["-d", str(tmp_path / "p.rego"), "-i", str(tmp_path / "input.json")]
    run(["eval", *files, "--why", "data.envoy.response.allow"])
    printed = capsys.readouterr().out
    assert 'input.attributes.request.http.path == "/a"' in printed


def test_the_console_has_a_row_for_each_response_and_no_body() -> None:
    calls = Calls(POLICY)
    calls.respond()
    calls.respond(path="/c")
    calls.respond(b"{")
    ring = Ring()
    for each in calls.log.answered:
        ring.observe(each)
    rows = [row_of(entry) for entry in ring._entries]
    assert [each["verdict"] for each in rows] == ["allow", "deny", "error"]
    assert [each["request"] for each in rows] == ["GET /a", "GET /c", "GET /a"]
    assert {each["path"] for each in rows} == {"envoy/response"}
    assert "CANARY" not in json.dumps(rows) + repr([each.input for each in ring._entries])


def test_the_console_says_what_became_of_a_response() -> None:
    calls = Calls(POLICY)
    calls.respond()
    calls.respond(path="/c")
    calls.respond(b"{")
    ring = Ring()
    for each in calls.log.answered:
        ring.observe(each)
    seen = [detail(entry)["response"] for entry in ring._entries]
    assert [each["outcome"] for each in seen] == ["filtered", "denied", "failed"]
    assert [each["reason"] for each in seen] == ["", "denied", "response_malformed"]
    assert [each["left_out"] for each in seen] == [True, True, False]


def test_the_console_counts_the_items_of_lists() -> None:
    rule = "\nowned if input.item.owner == 1\n"
    lists = {"docs": ListOptions(("docs",), "envoy/response/owned")}
    calls = Calls(POLICY + rule, lists=lists)
    calls.respond(b'{"docs": [{"owner": 1}, {"owner": 2}, {"owner": 1}]}')
    ring = Ring()
    ring.observe(calls.log.answered[0])
    [entry] = ring._entries
    told = {"name": "docs", "items": 3, "shown": 2}
    assert detail(entry)["response"]["lists"] == [told]
    [event] = calls.events()
    assert response_of(event["custom"], event["erased"])["response"]["lists"] == [told]


@pytest.mark.parametrize(
    "custom", [None, {}, {"response": 1}, {"response": {"lists": {"a": 1, "b": {"items": "x"}}}}]
)
def test_a_record_of_another_form_shows_nothing_of_it(custom: Any) -> None:
    assert response_of(custom, ()).get("response", {}).get("lists", []) == []


def test_credentials_in_a_logged_body_are_masked() -> None:
    calls = Calls(POLICY.replace('["secret"]', '["x"]'), log_bodies=True)
    calls.respond(
        b'{"password": "CANARY-1", "nested": [{"api_key": "CANARY-2"}], "pin": 1, "x": 1}'
    )
    [event] = calls.events()
    event = hide_credentials(event)
    logged = to_json(from_python(event))
    assert "CANARY-1" not in logged
    assert "CANARY-2" not in logged
    assert "/input/response/parsed_body/password" in event["erased"]


def test_fields_that_rules_made_of_a_body_stay_out_of_the_log() -> None:
    policy = """package envoy.response

allow := true

remove contains ["users", name] if some name, _ in input.response.parsed_body.users

keep contains ["users"]

response_headers_to_add := {"x-owner": input.response.parsed_body.owner}

response_headers_to_remove contains input.response.headers["x-gone"]
"""
    calls = Calls(policy)
    body = b'{"users": {"CANARY-1": 1}, "owner": "CANARY-2"}'
    answer = calls.respond(body, **{"x-gone": "x-other"})
    assert b"CANARY-2" in answer.SerializeToString()
    [event] = calls.events()
    assert "CANARY" not in to_json(from_python(event))
    assert set(event["result"]) == {"allow", "keep", "response_headers_to_remove"}
    assert set(event["erased"]) == {
        "/input/response/parsed_body",
        "/result/remove",
        "/result/response_headers_to_add",
    }


def test_metrics_have_no_text_of_a_response() -> None:
    calls = Calls(POLICY)
    calls.respond(BODY)
    calls.respond(path="/c")
    calls.respond(b"{")
    assert (calls.count("filtered"), calls.count("denied", "denied")) == (1, 1)
    assert calls.count("failed", "response_malformed") == 1
