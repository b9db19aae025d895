"""The settings that a server makes of its options."""

from __future__ import annotations

from pathlib import Path

from doorward.bundles.loader import Loaded
from doorward.pdp.snapshot import build
from doorward.rego.modules import ParsedLater
from doorward.rego.saved.keys import LEAST_TEXT
from doorward.server.sidecar_options import SidecarOptions, settings_of

POLICY = "package a\n\nallow if input.user == data.owner\n\n" + "#" * LEAST_TEXT + "\n"


def test_a_second_start_finds_what_the_first_compiled(tmp_path: Path) -> None:
    options = SidecarOptions(cache_folder=tmp_path / "programs")
    loaded = Loaded({"a.rego": POLICY}, {"owner": "ann"})
    first, second = (build(loaded, settings_of(options)) for _ in range(2))
    # What is saved is the code, which is there once the server is ready.
    assert not isinstance(second.engine.trees, ParsedLater)
    first.engine.policies.warm()
    third = build(loaded, settings_of(options))
    assert isinstance(third.engine.trees, ParsedLater)
    assert third.revision == first.revision
    for snapshot in (first, third):
        assert snapshot.engine.prepare("data.a.allow").value({"user": "ann"}) is True


def test_without_a_folder_nothing_is_saved() -> None:
    assert settings_of(SidecarOptions()).saved is None
