"""Findings become text for people, JSON for programs, and SARIF for code hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from doorward import __version__
from doorward.base.counting import counted
from doorward.envoy.lint.finding import RULES, Finding

__all__ = ["FORMATS", "write_report"]


def write_report(findings: Sequence[Finding], form: str) -> str:
    """Return the findings as a text in a form of `FORMATS` (`text`, `json`, `sarif`), with a final
    newline.
    """
    return FORMATS[form](findings)


def _to_text(findings: Sequence[Finding]) -> str:
    """Return two lines for each finding and a line with their numbers; `nothing found` without
    any.
    """
    if not findings:
        return "nothing found\n"
    lines = [
        f"{each.file}:{each.line}: {each.level}: {each.rule}: {each.message}\n    {each.reason}"
        for each in findings
    ]
    errors = sum(each.level == "error" for each in findings)
    warnings = counted(len(findings) - errors, "warning")
    lines.append(f"{counted(errors, 'error')}, {warnings}")
    return "\n".join(lines) + "\n"


def _to_json(findings: Sequence[Finding]) -> str:
    """Return the findings as an indented JSON list of objects."""
    documents = [
        {
            "file": each.file,
            "line": each.line,
            "level": each.level,
            "rule": each.rule,
            "message": each.message,
            "reason": each.reason,
        }
        for each in findings
    ]
    return json.dumps(documents, indent=2) + "\n"


def _to_sarif(findings: Sequence[Finding]) -> str:
    """Return the findings as SARIF 2.1.0, with the rules that they violate."""
    rules = sorted({each.rule for each in findings})
    driver = {
        "name": "doorward kit check",
        "version": __version__,
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": RULES[name].reason},
                "defaultConfiguration": {"level": RULES[name].level},
            }
            for name in rules
        ],
    }
    results = [_to_result(each, rules.index(each.rule)) for each in findings]
    document = {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(document, indent=2) + "\n"


def _to_result(finding: Finding, index: int) -> dict[str, Any]:
    """Return a finding as a SARIF result; `index` is the position of its rule in the driver's
    rules.
    """
    location = {
        "artifactLocation": {"uri": finding.file},
        "region": {"startLine": finding.line},
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": f"{finding.message}: {finding.reason}"},
        "locations": [{"physicalLocation": location}],
    }


FORMATS: Final[Mapping[str, Callable[[Sequence[Finding]], str]]] = {
    "text": _to_text,
    "json": _to_json,
    "sarif": _to_sarif,
}
