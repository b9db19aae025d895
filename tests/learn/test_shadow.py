"""The configuration for trying a learned policy beside the present one."""

from __future__ import annotations

from pathlib import Path

import pytest

from doorward.config.configuration import read_config
from doorward.learn.documents import POLICY
from doorward.learn.observations import LearnError
from doorward.learn.shadow import entry_for, shadow_text
from doorward.rego import Engine


def test_the_entry_answers_under_the_name_of_the_present_policy() -> None:
    data = {
        "learned": {"form": "list", "subject": {"from": "input", "claims": [], "user": ["user"]}}
    }
    engine = Engine({"policy.rego": POLICY, "entry.rego": entry_for("envoy/authz/allow")}, data)
    assert engine.prepare("data.envoy.authz.allow").value({}) is False


@pytest.mark.parametrize(
    "document",
    ["allow", "a b/c", "a/if", "../etc/passwd", "a/b\nallow := true", "learned/authz/x", "a/ö"],
)
def test_what_is_no_document_is_refused(document: str) -> None:
    with pytest.raises(LearnError, match="--shadow"):
        entry_for(document)


def test_the_configuration_is_read(tmp_path: Path) -> None:
    file = tmp_path / "doorward.yaml"
    file.write_text(shadow_text(Path("a: b #'\"")))
    assert read_config(str(file)).warnings == ()
