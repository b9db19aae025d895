"""The rules that answered a decision, for the decision log: `custom.rules` and `rule_labels`.

    {"path": "authz.allow", "file": "policy.rego", "row": 12}                answered
    {"path": "authz.allow", "file": "policy.rego", "row": 7, "failed": 9}    failed in row 9

`rule_labels` is OPA's: the `labels` in METADATA of the definitions that answered, merged with those
of their document, package and the packages above; the nearest label wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from doorward.pdp.decision import RecordedMarks
from doorward.rego.shared import Mark

__all__ = ["add_rules", "rule_documents"]

MAX_RULES: Final = 64
"""The largest number of definitions in one event; `custom.rules_left_out` counts the others."""


def add_rules(event: dict[str, Any], recorded: RecordedMarks) -> None:
    """Add to the log event of a decision the definitions that answered or failed, as
    `custom.rules`, and the labels of those that answered, each set once, as `rule_labels`.

    Above `MAX_RULES` definitions the number of the others is added as `custom.rules_left_out`. The
    event stays unchanged if no outcomes were recorded.
    """
    marks = recorded.read()
    if not marks:
        return
    custom = event.setdefault("custom", {})
    custom["rules"] = rule_documents(marks[:MAX_RULES])
    if len(marks) > MAX_RULES:
        custom["rules_left_out"] = len(marks) - MAX_RULES
    labels: list[dict[str, Any]] = []
    for mark in marks:
        labels_of_rule = {} if mark.failed else recorded.policies.labels(mark)
        if labels_of_rule and labels_of_rule not in labels:
            labels.append(labels_of_rule)
    if labels:
        event["rule_labels"] = labels


def rule_documents(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """Return the outcomes of definitions as decision logs and the console show them: path without
    `data.`, file, row and, if the definition failed, the row of the condition that failed.
    """
    documents: list[dict[str, Any]] = []
    for mark in marks:
        span = mark.rule.span
        document = {"path": mark.path.removeprefix("data."), "file": span.file, "row": span.row}
        if mark.failed:
            document["failed"] = mark.failed
        documents.append(document)
    return documents
