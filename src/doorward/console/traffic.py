"""Definitions that decisions reached: counts by definition, for the policies in force.

`observe` runs in each request. Most decisions leave one of a few patterns of marks, so it only
counts patterns; the reader adds them up.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from doorward.console.policy_texts import notes_of
from doorward.console.reasons import short_names
from doorward.pdp.decision import Answered
from doorward.pdp.snapshot import Snapshot
from doorward.rego import Policies
from doorward.rego.tools import Rule

__all__ = ["Traffic", "document"]

PATTERNS: Final = 2_000
"""The most patterns that are counted separately; more are added up."""


class Traffic:
    """Counts of the decisions by the newest policies; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._policies: Policies | None = None
        self._reset()

    def _reset(self) -> None:
        """Reset all counts, for policies that are new; called with `_lock` held once the object is
        shared.
        """
        self._decisions = 0
        self._digest: str | None = None
        self._patterns: Counter[tuple[Any, ...]] = Counter()
        self._answered: Counter[int] = Counter()
        self._failed: Counter[tuple[int, int]] = Counter()

    def observe(self, answered: Answered) -> None:
        """Count a decision, and by its marks which definitions were true and at which condition
        others failed. All counts are reset when the policies in force have changed; a decision
        without marks, or by earlier policies, is not counted.
        """
        decision, _, snapshot = answered[:3]
        if decision.marks is None or decision.marks.policies is not snapshot.engine.policies:
            return
        marks = decision.marks.outcomes
        pattern = tuple(marks) if isinstance(marks, list) else tuple(marks.items())
        with self._lock:
            if snapshot.engine.policies is not self._policies:
                self._policies = snapshot.engine.policies
                self._reset()
            self._decisions += 1
            self._patterns[pattern] += 1
            if len(self._patterns) > PATTERNS:
                self._add_up()

    def _add_up(self) -> None:
        """Add the counts of patterns (the outcomes of all definitions in one decision) to those of
        single definitions and conditions, and clear them; called with `_lock` held.
        """
        for pattern, count in self._patterns.items():
            for index, each in enumerate(pattern):
                if each is not None:
                    number, failed = each if isinstance(each, tuple) else (index, each)
                    if failed:
                        self._failed[number, failed] += count
                    else:
                        self._answered[number] += count
        self._patterns.clear()

    def counts(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return, for the policies in force, the number of decisions, and for each definition how
        often it answered and how often each of its rows failed (`definitions`). `policies` is a
        digest that is the same in every process with the same policies. Other policies than before
        reset all counts.
        """
        policies = snapshot.engine.policies
        with self._lock:
            if policies is not self._policies:
                self._policies = policies
                self._reset()
            self._add_up()
            failed: dict[int, list[list[int]]] = {}
            for (number, row), count in sorted(self._failed.items()):
                failed.setdefault(number, []).append([row, count])
            numbers = sorted({*self._answered, *failed})
            definitions = [[each, self._answered[each], failed.get(each, [])] for each in numbers]
            return {
                "policies": self._digest_of(policies),
                "decisions": self._decisions,
                "definitions": definitions,
            }

    def _digest_of(self, policies: Policies) -> str:
        """Return a digest of the names and texts of the policies, cached until they change."""
        if self._digest is None:
            digest = blake2b(digest_size=16)
            for name, module in policies.modules.items():
                for text in (name, module.span.source.text):
                    digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
            self._digest = digest.hexdigest()
        return self._digest


Failures = Mapping[int, Mapping[int, int]]
"""How often conditions failed: by the number of their definition, then by row."""


def document(
    snapshot: Snapshot, decisions: int, answered: Mapping[int, int], failed: Failures
) -> dict[str, Any]:
    """Return `decisions`, the `revision` of the policies in force, and `files`: by short file name,
    the texts, METADATA, the definitions with how often each answered and failed, and for each row
    of a condition how often it held and failed.

    Definitions without a body, and properties, have `counted` False: their numbers mean nothing.
    """
    policies = snapshot.engine.policies
    names = short_names(policies)
    files: dict[str, Any] = {
        names[name]: {
            "text": module.span.source.text,
            "definitions": [],
            "rows": {},
            "notes": notes_of(module.span.source.text, names[name]),
        }
        for name, module in policies.modules.items()
    }
    for mark in policies.definitions:
        rule, name = mark.rule, names.get(mark.rule.span.file, mark.rule.span.file)
        if name not in files:
            continue
        failures = failed.get(mark.number, {})
        answers = answered.get(mark.number, 0)
        files[name]["definitions"].append(
            {
                "path": mark.path.removeprefix("data."),
                "row": rule.span.row,
                "answered": answers,
                "failed": sum(failures.values()),
                # Without a body it always answers, and is not noted; nobody asks for a property.
                "counted": bool(rule.body) and not is_property(mark.path),
            }
        )
        _add_rows(files[name]["rows"], rule, answers, failures)
    for file in files.values():
        file["definitions"].sort(key=lambda each: each["row"])
    return {"decisions": decisions, "revision": snapshot.revision, "files": files}


def is_property(path: str) -> bool:
    """Return True for the path of a property, a rule that must never hold."""
    return path.rpartition(".")[2].startswith("never_")


def _add_rows(
    rows: dict[int, list[int]], rule: Rule, answered: int, failures: Mapping[int, int]
) -> None:
    """Add the counts of a definition's conditions to `rows`, as [held, failed] by row. Conditions
    are evaluated in order: one held as often as the definition answered or a later condition
    failed.
    """
    answers = answered
    for expr in reversed(rule.body):
        row = expr.span.row
        failed = failures.get(row, 0)
        counts = rows.setdefault(row, [0, 0])
        counts[0] += answers
        counts[1] += failed
        answers += failed
