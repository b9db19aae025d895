"""What a page may ask about policies is answered, bounded, and reaches nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.console.play_requests import MAX_TEXT, PlaygroundError
from doorward.console.playground import MAX_PRINTED, answer

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


LONG = 'long := concat("", ["0123456789" | some _ in numbers.range(1, 2000)])\n'


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        # A value of a hundred million items, in nine rules.
        (
            "package a\n\np0 := [1, 1]\n"
            + "".join([f"p{n} := [{', '.join([f'p{n - 1}'] * 10)}]\n" for n in range(1, 9)])
            + "p := p8\n",
            "eval_cancel_error",
        ),
        # One text a hundred thousand times.
        (f"package a\n\n{LONG}p := [long | some _ in numbers.range(1, 100000)]\n", "larger than"),
        ("package a\n\np := count([1 | some _ in numbers.range(1, 2000000)])\n", "limit_error"),
    ],
)
def test_what_is_small_to_write_and_large_to_show_is_not_shown(
    policy: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if message != "eval_cancel_error":  # a busy machine meets the deadline first
        monkeypatch.setattr("doorward.console.playground.DEADLINE", PATIENCE)
    shown = answer("evaluate", {"files": {"a.rego": policy}, "query": "data.a.p"})
    assert message in shown["errors"][0]["message"]


def test_what_is_printed_is_cut() -> None:
    body = "some i in numbers.range(1, 100)\n\tprint(long)\n\ti < 0"
    policy = f"package a\n\n{LONG}p if {{\n\t{body}\n}}\n"
    printed = answer("evaluate", {"files": {"a.rego": policy}, "query": "data.a.p"})["printed"]
    assert printed[-1] == "further output is not shown"
    assert sum(map(len, printed)) < MAX_PRINTED + 100


@pytest.mark.parametrize("action", ["check", "evaluate", "python", "test"])
def test_policies_are_compiled_within_a_time(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doorward.console.playground.WITHIN", 0.0)
    files = {"a.rego": "package a\n\n" + "".join([f"p{n} := {n}\n" for n in range(600)])}
    with suppress(PlaygroundError):  # which says so, where no evaluation does
        shown = answer(action, {"files": files, "query": "data.a.p1"})
        assert "cancel" in str(shown)


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "..\\x.rego", "file:///etc/passwd", "a\0b", "<img src=x>"],
)
def test_the_name_of_a_file_is_a_text_and_nothing_is_read(name: str) -> None:
    shown = answer("check", {"files": {name: "package a\n\np := q"}})
    assert "unsafe" in shown["diagnostics"][name][0]["message"]
    with pytest.raises(PlaygroundError, match="must be the name of a file"):
        answer("format", {"files": FILES, "file": name})
    shown = answer("evaluate", {"files": {name: "package a\n\np := 1"}, "query": "data.a.p"})
    assert shown["result"] == [1]


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


def test_a_file_has_a_query_and_an_input_for_which_it_is_true() -> None:
    request = {"files": FILES, "file": "p.rego", "data": {"readers": ["ann"]}}
    given = answer("begin", request)
    assert given == {"query": "data.app.allow", "input": {"user": "ann"}}
    shown = answer("evaluate", {**request, **given})
    assert shown["result"] == [True]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("package a.b", "data.a.b"),
        ("package a\n\nf(x) := x", "data.a"),
        ("package a\n\nother := 1\n\nallow if input.x", "data.a.allow"),
        ("package a\n\nother := 1", "data.a.other"),
        ("package", ""),
    ],
)
def test_the_first_query_belongs_to_the_file(text: str, query: str) -> None:
    assert answer("begin", {"files": {"p.rego": text}, "file": "p.rego"})["query"] == query


def test_a_test_that_fails_says_why() -> None:
    text = 'package t\n\ntest_it if input.x == 1 with input as {"x": 2}\n\ntest_ok if true'
    failed, passed = answer("test", {"files": {"t_test.rego": text}})["tests"]
    assert (failed["outcome"], passed["outcome"], passed["why"]) == ("FAIL", "PASS", "")
    assert "input.x" in failed["why"]


def test_what_must_never_be_has_a_counterexample_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doorward.console.playground.PROVING", PATIENCE)
    text = (
        "package t\n\nnever_a if input.x == 1\n\nnever_b if {\n\tinput.x == 1\n\tinput.x == 2\n}\n"
    )
    text += "\nnever_c if {\n\tinput.n + input.k == 7\n\tinput.k + input.n == 8\n}\n"
    request = {"files": {"t.rego": text}, "file": "t.rego"}
    broken, proved, unknown = answer("prove", request)["properties"]
    assert (broken["outcome"], broken["input"]) == ("counterexample", {"x": 1})
    assert (proved["outcome"], proved["input"]) == ("none exists", None)
    assert "not refuted" in unknown["text"]


def test_properties_that_are_not_shown_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doorward.console.playground.PROVING", PATIENCE)
    monkeypatch.setattr("doorward.console.playground.MAX_FILES", 1)
    text = "package t\n\nnever_a if input.x == 1\n\nnever_b if input.x == 2\n"
    shown = answer("prove", {"files": {"t.rego": text}, "file": "t.rego"})
    assert [each["name"] for each in shown["properties"]] == ["data.t.never_a"]
    assert "more than 1 properties" in shown["error"]


def test_the_rules_of_a_file_are_judged_apart_from_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("doorward.console.playground.PROVING", PATIENCE)
    never = "never_a if {\n\tinput.x == 1\n\tinput.x == 2\n}\n"
    files = {f"{name}.rego": f"package {name}\n\n{never}" for name in "ab"}
    request: dict[str, Any] = {"files": files, "file": "b.rego"}
    assert [each["name"] for each in answer("prove", request)["properties"]] == ["data.b.never_a"]
    others = answer("prove", {**request, "others": True})
    assert [each["name"] for each in others["properties"]] == ["data.a.never_a"]
    monkeypatch.setattr("doorward.console.playground.PROVING", 0.0)
    late = answer("prove", request)
    assert (len(late["properties"]), "longer than" in late["error"]) == (1, True)
    broken = answer("prove", {"files": {"a.rego": "package"}, "file": "a.rego"})
    assert (broken["properties"], "parse" in broken["error"]) == ([], True)


def test_switches_choose_the_language() -> None:
    request: dict[str, Any] = {"files": {"p.rego": "package a\n\nallow { input.x }"}}
    request |= {"query": "data.a.allow", "input": {"x": True}}
    assert "errors" in answer("evaluate", request)
    assert answer("evaluate", {**request, "v0": True})["result"] == [True]
    request["files"] = {"p.rego": "package a\n\nimport data.unused\n\nallow if true"}
    assert answer("evaluate", request)["result"] == [True]
    assert "unused" in str(answer("evaluate", {**request, "strict": True})["errors"])
    with pytest.raises(PlaygroundError, match="must be true or false"):
        answer("evaluate", {**request, "v0": 1})
