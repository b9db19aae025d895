"""What OPA accepts we accept, what it refuses we refuse, in the same row and mostly in its words.

tests/differences/parser.toml says where we differ, and why.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.corpora import GOLDEN, SUITE, needs, rows
from tests.differences import reasons

from doorward.rego.errors import PARSE_ERROR, Diagnostic, ParseError
from doorward.rego.source import Source
from doorward.rego.syntax.parser import MAX_ERRORS, parse_module, parse_query

pytestmark = pytest.mark.long

BUILTINS = frozenset({"count"})
"""Enough of the built-ins' names for the sources there."""


def refusal(name: str, text: str, *, v0: bool, query: bool = False, **options: Any) -> list[Any]:
    """What the parser says against a text, as (row, column, message)."""
    try:
        if query:
            parse_query(Source(name, text), v0=v0)
        else:
            parse_module(Source(name, text), v0=v0, builtins=BUILTINS, **options)
    except ParseError as error:
        return [said(d) for d in error.diagnostics]
    return []


def said(actual: Diagnostic) -> tuple[int, int, str]:
    assert actual.code == PARSE_ERROR
    return actual.span.row, actual.span.col, actual.message


def wanted(error: dict[str, Any]) -> tuple[int, int, str]:
    position = error.get("location") or {"row": 0, "col": 0}
    return position["row"], position["col"], error["message"]


@needs(SUITE)
def test_the_conformance_suite_parses() -> None:
    refused = [
        (case["note"], actual)
        for case in rows(SUITE)
        for query, text in [
            (True, case["query"]),
            *((False, m) for m in case.get("modules", ())),
        ]
        if (actual := refusal("m.rego", text, v0=False, query=query))
    ]
    assert not refused


def test_recorded_modules_and_queries_parse_or_fail_as_in_opa() -> None:
    differing = {}
    seen: dict[tuple[str, bool, bool], list[Any]] = {}
    for case in rows(GOLDEN / "language.jsonl.gz"):
        texts = [(False, n, t) for n, t in sorted(case.get("modules", {}).items())]
        actual = []
        for query, name, text in [*texts, (True, "", case["query"])]:
            key = (text, query, case.get("v0", False))
            if key not in seen:
                seen[key] = refusal(name, text, v0=key[2], query=query)
            actual += seen[key]
        error = case.get("error", {})
        want = [wanted(error)] if error.get("code") == PARSE_ERROR else []
        if actual[:1] != want:
            differing[case["id"]] = want, actual
    stated = reasons("parser", "recorded")
    assert stated.keys() <= differing.keys()
    assert not [row for row in differing.items() if row[0] not in stated]


@pytest.fixture(scope="module")
def error_cases() -> list[dict[str, Any]]:
    """The newest recording of each case."""
    cases = {case["id"]: case for case in rows(GOLDEN / "errors.jsonl.gz")}
    return [case for case in cases.values() if f"{case['id']}@1.18.2" not in cases]


def test_errors_are_found_where_opa_finds_them(error_cases: list[dict[str, Any]]) -> None:
    differing: dict[str, set[str]] = {"verdict": set(), "first": set(), "others": set()}
    for case in error_cases:
        rows: list[Any] = []
        for name, text in sorted(case["modules"].items()):
            annotations = case["engine"] == "1.9.0"
            rows += refusal(name, text, v0=case.get("v0", False), annotations=annotations)
        want = [wanted(e) for e in case["errors"] if e["code"] == PARSE_ERROR][:MAX_ERRORS]
        if bool(rows) != bool(want):
            differing["verdict"].add(case["id"])
        elif rows[:1] != want[:1]:
            differing["first"].add(case["id"])
        elif rows != want:
            differing["others"].add(case["id"])
    assert differing == {part: set(reasons("parser", part)) for part in differing}
