"""A decision point that keeps what it decides, for tests."""

from __future__ import annotations

from typing import Any

from doorward.bundles.loader import Loaded
from doorward.console import Ring
from doorward.console.ring import Entry
from doorward.pdp.pdp import PDP, Tee
from doorward.pdp.snapshot import Settings, build
from doorward.rego import Environment
from doorward.rego.shared import VerifiedTokens

__all__ = ["PEOPLE", "Point"]

PEOPLE = """package app

default allow := false

allow if {
	not input.cut
	is_allowed
}

is_allowed if {
	input.method == "GET"
	role == "guest"
}

is_allowed if {
	input.method == "POST"
	role == "admin"
}

role := input.user.role if input.user.active
"""


SETTINGS = Settings(marked=True, environment=Environment(tokens=VerifiedTokens()))


class Point:
    """Policies in files, and a ring of what they decided."""

    def __init__(self, *texts: str, folder: str = "/srv/policies") -> None:
        self.ring = Ring()
        self.texts = {f"{folder}/{number}.rego": text for number, text in enumerate(texts)}
        snapshot = build(Loaded(self.texts), SETTINGS)
        self.pdp = PDP(snapshot, Tee(self.ring, None))

    def decide(self, input: Any, path: str = "app/allow") -> Entry:
        """Decide, and return what is kept of it."""
        decision = self.pdp.decide(path, input)
        self.pdp.record(decision, input)
        entry = self.ring.get(decision.decision_id)
        assert entry is not None
        return entry

    def replace(self, *texts: str) -> None:
        """Put other policies into force."""
        files = {f"/srv/policies/{number}.rego": text for number, text in enumerate(texts)}
        self.pdp.replace(build(Loaded(files), SETTINGS))
