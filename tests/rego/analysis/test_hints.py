"""Hints: what beginners write, and what they are told to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.growth import grows

from doorward.rego import CompileError, Diagnostic, Engine, RegoError
from doorward.rego.shared import Source
from doorward.rego.syntax.parser import parse_module

HERE = Path(__file__).parent


def chunks() -> Iterator[Any]:
    """Each chunk of `hints.rego` is what follows a package line and a blank one."""
    for chunk in (HERE / "hints.rego").read_text().split("---\n"):
        lines = chunk.splitlines()
        hints = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
        text = "\n".join(line for line in lines if not line.startswith("### "))
        yield pytest.param(text, hints, id=text)


def refused(text: str) -> list[Diagnostic]:
    with pytest.raises(RegoError) as caught:
        Engine({"p.rego": f"package p\n\n{text}\n"})
    return list(caught.value.diagnostics)


def hints(text: str) -> list[str]:
    return [f"{d.span.row}:{d.span.col}: {d.hint}" for d in refused(text) if d.hint]


@pytest.mark.parametrize(("text", "expected"), list(chunks()))
def test_what_was_meant_is_hinted_at(text: str, expected: list[str]) -> None:
    assert expected
    assert hints(text) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("allow\u00a0if input.x", "this space is a special character"),
        ("allow if input.x == 1\u200b", "this space is a special character"),
        ("p := {'a': 1}", "write strings in double quotes"),
        ("p := $`a {[1}`", "`}` does not close the `[` of row 3"),
        ('p := [$`a{1} {["]"]} b`, 1', "the `[` of row 3 is not closed"),
        ("p := [1}", "`}` does not close the `[` of row 3"),
        ('q := [$"{1}"]\n\np := )', "nothing is open that `)` could close"),
        (
            "allow if acme.price(input.x) < 3",
            "a function of your own must be loaded with --builtins",
        ),
    ],
)
def test_odd_texts_have_hints(text: str, hint: str) -> None:
    assert any(str(each.hint).startswith(hint) for each in refused(text))


@pytest.mark.parametrize(
    "text",
    [
        'allow if input.x == "a && b" }',
        "allow if input.x } # a || b",
        'p := "it\'s" }',
        "allow if input.x == `'` }",
        "q if not input.ok\n\nallow := )",
    ],
)
def test_what_strings_and_comments_say_is_no_habit(text: str) -> None:
    (hint,) = hints(text)
    assert "nothing is open that" in hint


def test_a_bracket_far_from_the_end_of_a_long_text_is_not_looked_for() -> None:
    statement = "allow if input.x } # a"
    assert "nothing is open that" in hints(statement)[0]
    assert hints(f"{statement}\n#{'x' * (1 << 16)}\n") == []


def test_a_hint_is_given_once() -> None:
    text = "p {\n    true\n}\n\nq {\n    true\n}\n"
    errors = refused(text)
    assert all(each.hint for each in errors)
    assert CompileError(errors).render().count("hint: ") == 1


def test_hints_change_nothing_that_opa_says() -> None:
    error = refused("allow {\n    true\n}")[0]
    assert error.message == "`if` keyword is required before rule body"
    assert str(error) == f"p.rego:3: rego_parse_error: {error.message}"
    assert f"\nhint: {error.hint}" in CompileError([error]).render()


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "repeated"),
    [
        ("p := " + "[" * 99 + "x", "{"),
        ("p := ", "'"),
        ("p := ", "else if "),
        ("p := ) ", '"'),
        ("p := ) ", '"\\'),
        ("p := ) ", "any a in "),
        ("p := ) ", " "),
        ("", "word "),
    ],
)
def test_hints_cost_in_proportion_whatever_the_text(before: str, repeated: str) -> None:
    def refuse(text: str) -> None:
        with pytest.raises(RegoError):
            parse_module(Source("p.rego", text))

    assert not grows(refuse, lambda count: f"package p\n\n{before}{repeated * count}", 1_000)


def test_a_path_that_leads_nowhere_is_compared_with_what_is_there() -> None:
    rules = {
        "a.rego": 'package team.authz\n\nallow := 1\n\nf(x) := x\n\np[x] := {"y": 1} if x := 2\n\n'
        "r[1].x := 1\n"
    }
    data = {"roles": {"admins": {}, "1": {}}, "team": {"names": []}}
    engine = Engine(rules, data)
    expected = {
        "data.team.authz.alow": "data.team.authz.allow",
        "data.team.auth": "data.team.authz",
        "data.tem.authz.allow": "data.team",
        "data.roles.admns.x": "data.roles.admins",
        "data.team.nmes": "data.team.names",
        "data.team.authz.allow": None,
        "data.team.authz.r.y": None,
        "data.roles": None,
        "data.team.authz.p[2].y": None,
        "data.roles.admins.anybody": None,
        "data.nowhere": None,
        "data.roles[1]": None,
        "data.roles[x]": None,
        "input.team": None,
    }
    for query, near in expected.items():
        assert engine.prepare(query).near_misses == ({query: near} if near else {}), query


def fixed(text: str, error: Diagnostic) -> str:
    assert error.fix is not None
    return text[: error.fix.start] + error.fix.text + text[error.fix.end :]


@pytest.mark.parametrize(("text", "expected"), list(chunks()))
def test_a_fix_removes_its_error_and_makes_no_other(text: str, expected: list[str]) -> None:
    before = refused(text)
    for error in before:
        if error.fix is None:
            continue
        after: tuple[Diagnostic, ...] = ()
        try:
            Engine({"p.rego": fixed(f"package p\n\n{text}\n", error)})
        except RegoError as still:
            after = still.diagnostics
        assert (error.message, error.span.start) not in {(e.message, e.span.start) for e in after}
        assert len(after) <= len(before)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("allow {\n    true\n}", "allow if {\n    true\n}"),
        ("deny contains msg {\n    msg := 1\n}", "deny contains msg if {\n    msg := 1\n}"),
        ("p if input.x == 'a \"b\" c'", None),
        ("p if input.x == 'a b'", 'p if input.x == "a b"'),
        ("p if input.x == “a b”", 'p if input.x == "a b"'),
        ("p if !input.x", "p if not input.x"),
        ("p if {\n    1 == 1 && 2 == 2\n}", "p if {\n    1 == 1; 2 == 2\n}"),
        ("p if {\n    not 1 == 2 and 2 == 2\n}", "p if {\n    not 1 == 2; 2 == 2\n}"),
        ('p if {\n    input["a b"] not in [1]\n}', 'p if {\n    not input["a b"] in [1]\n}'),
        ("p := 1 // one", "p := 1 # one"),
        ("import future.keywords.inn", "import future.keywords.in"),
        ("import lib.x", "import data.lib.x"),
        ("function f(x) := x", "f(x) := x"),
        ("p if {\n    let x := 1\n    x\n}", "p if {\n    x := 1\n    x\n}"),
        ('p := {\n    "a": 1\n    "b": 2\n}', 'p := {\n    "a": 1,\n    "b": 2\n}'),
        ("p if {\n    1 == 1,\n    2 == 2\n}", "p if {\n    1 == 1\n    2 == 2\n}"),
        ("p if { 1 == 1, 2 == 2 }", "p if { 1 == 1; 2 == 2 }"),
        ("p := 1;", "p := 1"),
        ("p if { 1 == 1; }", "p if { 1 == 1 }"),
        ("p input.x == 1", "p if input.x == 1"),
        ("p if input.a-b", 'p if input["a-b"]'),
        ("p if input.x == None", "p if input.x == null"),
        ("p if startwith(input.x, 1)", "p if startswith(input.x, 1)"),
        ("long := 1\n\np if lng == 1", "long := 1\n\np if long == 1"),
        ('p if input.@type == "x"', 'p if input["@type"] == "x"'),
    ],
)
def test_what_can_be_fixed_mechanically_is(text: str, result: str | None) -> None:
    fixes = [fixed(f"package p\n\n{text}", e) for e in refused(text) if e.fix is not None]
    assert fixes[:1] == ([] if result is None else [f"package p\n\n{result}"])
