"""The engine in the plugin's process: the same verdict, be it asked for its reasons or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import to_input


@pytest.mark.parametrize("shows_answers", [False, True])
def test_allowed_request_has_its_rule_and_no_reasons(shows_answers: bool) -> None:
    pdp = EmbeddedPdp([str(PACK)], watch=False, shows_answers=shows_answers)
    view = to_input(AuthzRequest("GET", "/v1.41/containers/json"))
    result: Any = pdp.decide(view).result
    answers = {"answers": {"env": True, "owner": ""}} if shows_answers else {}
    assert result == {"allow": True, "rule": "roles", **answers}
    denied: Any = pdp.decide({**view, "action": "swarm.init"}).result
    assert denied["allow"] is False
    assert denied["messages"]
    assert denied["lines"]
    pdp.close()


@pytest.mark.parametrize(
    ("text", "path", "is_warned"),
    [
        (None, "a/allow", True),
        ("package a\n\nallow := true", "policy/docker/authz", True),
        ("package a\n\nallow := true", "a/alow", True),
        ("package a\n\nallow := true", "a/allow", False),
        ("package a\n\nallow := true", "/a", False),
        ("package a\n\nallow if input.x", "a/allow", False),
    ],
)
def test_a_decision_that_does_not_exist_is_a_warning_at_the_start(
    tmp_path: Path,
    text: str | None,
    path: str,
    is_warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if text is not None:
        (tmp_path / "policy.rego").write_text(text)
    EmbeddedPdp([str(tmp_path)], path=path, watch=False).close()
    warnings = [each for each in caplog.records if "No request can be decided" in each.message]
    assert [getattr(each, "decision", None) for each in warnings] == [path] * is_warned


@pytest.mark.parametrize(
    ("text", "path", "result"),
    [
        ("package a\n\nallow := true", "a/allow", True),
        ("package a\n\nallow := true", "a", {"allow": True}),
        ("package a\n\nallow := true\n\nrule := 1 if input.x", "a", {"allow": True}),
        ('package a\n\nb := {"allow": true, "rule": "own", "more": 1}', "a/b",
         {"allow": True, "rule": "own"}),
        ('package a\n\nallow := "true"\n\nrule := "own"', "a", {"allow": "true", "rule": "own"}),
        ("package a\n\nallow := true\n\nrule := 1\n\nmore := 2", "a", {"allow": True, "rule": 1}),
    ],
)  # fmt: skip
def test_policies_of_others_give_what_they_say(
    tmp_path: Path, text: str, path: str, result: object
) -> None:
    (tmp_path / "policy.rego").write_text(text)
    pdp = EmbeddedPdp([str(tmp_path)], path=path, watch=False)
    assert pdp.decide({"action": "container.list"}).result == result
    pdp.close()
