"""What a page may ask about policies is answered, bounded, and reaches nothing."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.console.playground import MAX_TEXT, PlaygroundError, answer

POLICY = """package app

allow if input.user in data.readers

other if input.x
"""
FILES = {"p.rego": POLICY}


def test_a_query_is_answered_with_why_and_the_rows_that_were_evaluated() -> None:
    request = {
        "files": FILES,
        "query": "data.app.allow",
        "input": {"user": "ann"},
        "data": {"readers": ["ann"]},
    }
    shown = answer("evaluate", request)
    assert shown["result"] == [True]
    assert shown["why"].startswith("data.app.allow is true")
    assert shown["covered"] == [["p.rego", 3]]
    request["input"] = {"user": "bob"}
    shown = answer("evaluate", request)
    assert shown["defined"] is False
    assert "does not hold" in shown["why"]


@pytest.mark.parametrize(
    ("policy", "query", "code"),
    [
        ("package a\n\np := http.send({})", "data.a.p", "rego_type_error"),
        ("package a\n\np := opa.runtime()", "data.a.p", "rego_type_error"),
        ("package", "1", "rego_parse_error"),
        ("package a", "x +", "rego_parse_error"),
        ("package a\n\np := count(numbers.range(1, 100000000))", "data.a.p", "limit"),
    ],
)
def test_what_is_wrong_too_long_or_not_allowed_is_said(policy: str, query: str, code: str) -> None:
    shown = answer("evaluate", {"files": {"a.rego": policy}, "query": query})
    assert code in shown["errors"][0]["message"]


def test_an_editor_is_answered_as_by_the_language_server() -> None:
    offset = POLICY.index("readers")
    shown = answer("check", {"files": {"p.rego": POLICY + "p := q\n"}})
    assert "unsafe" in shown["diagnostics"]["p.rego"][0]["message"]
    completions = answer("complete", {"files": FILES, "file": "p.rego", "offset": offset})
    assert completions["completions"]
    hover = answer(
        "hover",
        {"files": {"p.rego": "package a\n\np := count([])"}, "file": "p.rego", "offset": 17},
    )
    assert "count" in hover["text"]
    text = answer("format", {"files": {"p.rego": "package a\np  :=  1\n"}, "file": "p.rego"})
    assert text["text"] == "package a\n\np := 1\n"
    python = answer("python", {"files": FILES})["python"]["p.rego"]
    assert "readers" in python


def test_tests_are_run() -> None:
    tests = "package t\n\ntest_a if data.app.other with input.x as 1\n\ntest_b if false\n"
    shown = answer("test", {"files": {**FILES, "t.rego": tests}})
    assert [each["outcome"] for each in shown["tests"]] == ["PASS", "FAIL"]


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("nothing", {"files": {}}),
        ("check", []),
        ("check", {"files": {"a": 1}}),
        ("check", {"files": {"a": "x" * (MAX_TEXT + 1)}}),
        ("check", {"files": dict.fromkeys(map(str, range(101)), "")}),
        ("evaluate", {"files": {}}),
        ("hover", {"files": FILES, "file": "p.rego", "offset": -1}),
        ("hover", {"files": FILES, "file": "q.rego", "offset": 1}),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(action: str, request_: Any) -> None:
    with pytest.raises(PlaygroundError):
        answer(action, request_)
