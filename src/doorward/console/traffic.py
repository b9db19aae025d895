"""Which definitions real decisions reached: counts by definition, for the policies in force.

`observe` is on the path of a request. Most decisions of a policy note one of a few patterns, so
that it counts patterns, and the reader adds up.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from doorward.pdp.decision import Answered
from doorward.pdp.snapshot import Snapshot
from doorward.rego import Policies

__all__ = ["Traffic", "document"]

PATTERNS: Final = 2_000
"""Patterns that are counted apart; then they are added up."""


class Traffic:
    """Counts of the decisions by the newest policies; safe in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._policies: Policies | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self._decisions = 0
        self._digest: str | None = None
        self._patterns: Counter[tuple[Any, ...]] = Counter()
        self._answered: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()

    def observe(self, answered: Answered) -> None:
        """Count what one decision noted; policies that are new begin at nothing."""
        decision, _, snapshot = answered[:3]
        marks = decision.marks
        if marks is None:
            return
        pattern = tuple(marks) if isinstance(marks, list) else tuple(marks.items())
        with self._lock:
            if snapshot.engine.policies is not self._policies:
                self._policies = snapshot.engine.policies
                self._start_anew()
            self._decisions += 1
            self._patterns[pattern] += 1
            if len(self._patterns) > PATTERNS:
                self._add_up()

    def _add_up(self) -> None:
        for pattern, count in self._patterns.items():
            for index, each in enumerate(pattern):
                if each is not None:
                    number, failed = each if isinstance(each, tuple) else (index, each)
                    (self._failed if failed else self._answered)[number] += count
        self._patterns.clear()

    def counts(self, snapshot: Snapshot) -> dict[str, Any]:
        """How often each definition of the policies in force answered, and how often its conditions
        failed: `definitions`, by number. `policies` is the same wherever policies are."""
        policies = snapshot.engine.policies
        with self._lock:
            if policies is not self._policies:
                self._policies = policies
                self._start_anew()
            self._add_up()
            numbers = sorted({*self._answered, *self._failed})
            definitions = [[each, self._answered[each], self._failed[each]] for each in numbers]
            return {
                "policies": self._digest_of(policies),
                "decisions": self._decisions,
                "definitions": definitions,
            }

    def _digest_of(self, policies: Policies) -> str:
        if self._digest is None:
            digest = blake2b(digest_size=16)
            for name, module in policies.modules.items():
                for text in (name, module.span.source.text):
                    digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
            self._digest = digest.hexdigest()
        return self._digest


def document(
    snapshot: Snapshot, decisions: int, answered: Mapping[int, int], failed: Mapping[int, int]
) -> dict[str, Any]:
    """The policies in force with their definitions: how often each answered, how often its
    conditions failed. Functions, defaults and what depends on data alone are not counted."""
    policies = snapshot.engine.policies
    files: dict[str, Any] = {
        name: {"text": module.span.source.text, "definitions": []}
        for name, module in policies.modules.items()
    }
    by_source = {id(module.span.source): name for name, module in policies.modules.items()}
    for mark in policies.definitions:
        span = mark.rule.span
        name = by_source.get(id(span.source), span.file)
        if name in files:
            files[name]["definitions"].append(
                {
                    "path": mark.path.removeprefix("data."),
                    "row": span.row,
                    "answered": answered.get(mark.number, 0),
                    "failed": failed.get(mark.number, 0),
                }
            )
    for file in files.values():
        file["definitions"].sort(key=lambda each: each["row"])
    return {"decisions": decisions, "revision": snapshot.revision, "files": files}
