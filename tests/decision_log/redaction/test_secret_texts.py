"""A secret that a policy hands to a built-in is not in the log of decisions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.bundles.loader import Loaded
from doorward.config.configuration import DecisionLogs
from doorward.decision_log.log import DecisionLog
from doorward.decision_log.redaction.secret_texts import SecretTexts
from doorward.pdp.builtin_answers import noting
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rego import REGISTRY, Environment
from doorward.rego.shared import HTTPRequest, HTTPResponse
from doorward.telemetry.log import line_for

POLICY = """package p

asked := http.send({"method": "GET", "url": "http://h/", "headers": {"x-own": data.keys.main}})

answered := http.send({"method": "GET", "url": "http://h/"})
"""


class Answers:
    """A sender without a network."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def send(self, request: HTTPRequest, deadline: float | None) -> HTTPResponse:
        return HTTPResponse(200, "200 OK", body=self.body)


def logged(
    rule: str, secret: Any, body: bytes = b"", path: tuple[str, ...] = ("keys",)
) -> dict[str, Any]:
    """The event of a decision, whose policy has `secret` at data.keys."""
    settings = Settings(
        registry=noting(REGISTRY), notes_answers=True, environment=Environment(http=Answers(body))
    )
    data: dict[Any, Any] = {"keys": {"main": secret, "more": [secret, 1]}, "other": "plain-text"}
    snapshot = build(Loaded({"p.rego": POLICY}, data), settings)
    lines: list[bytes] = []
    log = DecisionLog(
        lines.append,
        line_for("json"),
        labels={},
        options=DecisionLogs(console=True),
        secrets=[path],
    )
    pdp = PDP(snapshot, log)
    pdp.record(pdp.decide(f"p/{rule}", {}))
    pdp.close()
    event: dict[str, Any] = json.loads(b"".join(lines))
    return event


@pytest.mark.parametrize(
    "secret", ["correct-horse", 'with "quotes" and \\\\ more', "grüße & <html>"]
)
def test_what_a_built_in_was_asked_with_is_not_shown(secret: str) -> None:
    event = logged("asked", secret)
    assert event["erased"] == ["/nd_builtin_cache/http.send"]
    assert event["nd_builtin_cache"] == {}


@pytest.mark.parametrize("secret", ["correct-horse", 'with "quotes" and \\ more', "grüße & <html>"])
@pytest.mark.parametrize("form", ["{}", '<a key="{}">', "Bearer {}", "a{}b", "{}.b"])
def test_what_a_built_in_answered_is_not_shown(form: str, secret: str) -> None:
    event = logged("answered", secret, form.format(secret).encode())
    assert event["nd_builtin_cache"] == {}


def test_other_texts_stay() -> None:
    event = logged("answered", "correct-horse", b"plain-text")
    assert "http.send" in event["nd_builtin_cache"]
    assert "erased" not in event


def test_too_many_secrets_hide_everything() -> None:
    snapshot = build(Loaded({}, {"keys": [f"secret-{number}" for number in range(2_000)]}))
    event = {"nd_builtin_cache": {"time.now_ns": {"[]": 1}}}
    shown = SecretTexts([("keys",)]).hide(event, snapshot)
    assert shown["nd_builtin_cache"] == {}
    assert SecretTexts([("none",)]).hide(event, snapshot) is event


@pytest.mark.parametrize("event", [{"input": 1}, {"nd_builtin_cache": {}}])
def test_an_event_without_answers_of_built_ins_stays(event: dict[str, Any]) -> None:
    snapshot = build(Loaded({}, {"keys": "correct-horse"}))
    assert SecretTexts([("keys",)]).hide(event, snapshot) is event


def test_a_secret_in_an_array_is_not_shown() -> None:
    assert logged("asked", "correct-horse", path=("keys", "more", "0"))["nd_builtin_cache"] == {}
    assert logged("asked", "correct-horse", path=("keys", "more", "1"))["nd_builtin_cache"] != {}
