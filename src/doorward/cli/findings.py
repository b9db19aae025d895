"""Findings for machines that review code: SARIF, GitHub's annotations, JUnit XML.

A finding is a `Diagnostic`: an error of a policy, or a test that failed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from doorward import __version__
from doorward.bundles.loader import LoadError
from doorward.rego import Diagnostic, RegoError
from doorward.rego.shared import render

__all__ = ["findings_of", "github", "junit", "sarif"]


def findings_of(error: RegoError | LoadError) -> list[Diagnostic]:
    """Return the findings of an error; those about a file that cannot be read have no position."""
    if isinstance(error, LoadError):
        named = (Diagnostic("load_error", p) if isinstance(p, str) else p for p in error.problems)
        return list(named)
    return list(error.diagnostics)


def sarif(findings: Sequence[Diagnostic]) -> str:
    """Return the findings as one run of SARIF 2.1.0, indented."""
    codes = sorted({finding.code for finding in findings})
    driver = {"name": "doorward", "version": __version__, "rules": [{"id": code} for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in findings],
    }
    return json.dumps({"version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _result(finding: Diagnostic) -> dict[str, Any]:
    """Return a finding as a SARIF result; one without a file has no location."""
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": "error",
        "message": {"text": finding.message},
    }
    span = finding.span
    if span.file:
        location: dict[str, Any] = {"artifactLocation": {"uri": span.file}}
        if span.row:
            location["region"] = {"startLine": span.row, "startColumn": max(span.col, 1)}
        result["locations"] = [{"physicalLocation": location}]
    return result


def github(findings: Sequence[Diagnostic]) -> str:
    """Return one `::error` line for each finding, which GitHub shows beside the code."""
    return "".join([_annotation(finding) for finding in findings])


def _annotation(finding: Diagnostic) -> str:
    """Return a finding as one line for GitHub Actions: `::error
    title=CODE,file=…,line=…,col=…::message`. Fields that are not known are left out.
    """
    fields = {"title": finding.code}
    span = finding.span
    if span.file:
        fields["file"] = span.file
        if span.row:
            fields |= {"line": str(span.row), "col": str(max(span.col, 1))}
    properties = ",".join([f"{name}={_property(value)}" for name, value in fields.items()])
    return f"::error {properties}::{_data(finding.message)}\n"


def _data(text: str) -> str:
    """Return a text as the message of a GitHub annotation."""
    # The percent sign first: the other escapes contain it.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text as the value of a GitHub annotation's field."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def junit(files: Sequence[str], findings: Sequence[Diagnostic]) -> str:
    """Return a JUnit report with a test case for each file, which fails with the findings in it."""
    # Its package brings in the runner of tests, which other formats have no need of.
    from doorward.testing.xml_text import attribute, text

    names = sorted({*files, *(finding.span.file or "policies" for finding in findings)})
    failed = {finding.span.file or "policies" for finding in findings}
    counts = f'tests="{len(names)}" failures="{len(failed)}" errors="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites {counts}>\n  <testsuite name="check" {counts}>',
    ]
    for name in names:
        members = [finding for finding in findings if (finding.span.file or "policies") == name]
        lines.append(f'    <testcase classname="check" name={attribute(name)}>')
        for finding in members:
            message = attribute(f"{finding.code}: {finding.message}")
            details = text(render(finding))
            lines.append(f"      <failure message={message}>{details}</failure>")
        lines.append("    </testcase>")
    return "\n".join([*lines, "  </testsuite>", "</testsuites>"]) + "\n"
