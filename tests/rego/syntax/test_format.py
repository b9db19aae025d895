"""The formatted text is OPA's, means the same, keeps every comment and stays as it is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.rego.syntax.differences import FORMAT

from doorward.rego.errors import ParseError
from doorward.rego.source import Source
from doorward.rego.syntax.format import Target, format_module, format_source
from doorward.rego.syntax.lexer import EOF, Lexer
from doorward.rego.syntax.nodes import Call, Expr, Module, Ref, Rule, Scalar, Var
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.walk import Node, rewrite


def rows(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def options(flags: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"drop_v0_imports": "--drop-v0-imports" in flags}
    if "--v0-v1" in flags:
        return found | {"v0": "--v1-compatible" not in flags, "target": "v0v1"}
    return found | ({"v0": True, "target": "v0"} if "--v0-compatible" in flags else {})


def test_recorded_layouts(shared: Path) -> None:
    differing = {
        case["id"]
        for case in rows(shared / "data/golden/fmt.jsonl.gz")
        if format_source(Source("p.rego", case["source"]), **options(case.get("flags", [])))
        != case["formatted"]
    }
    assert differing == set(FORMAT)


def meaning(module: Module) -> Module:
    """The module without what a layout may change: `=` in heads, values and bodies of true."""

    def plain(node: Node) -> Node:
        match node:
            case Rule(head=head):
                if not head.args:
                    head = replace(head, args=None)
                if head.value is None and head.key is None:
                    head = replace(head, value=Scalar(True))
                body = node.body or (Expr(Scalar(True)),)
                return replace(node, head=replace(head, assign=True), body=body)
            case Call(args=(left, right, result)) if node.name in ("plus", "minus", "mul", "div"):
                return Call(Ref(Var("eq"), ()), (result, Call(node.operator, (left, right))))
            case _:
                return node

    return rewrite(replace(module, imports=()), plain)


def check(text: str, *, v0: bool) -> list[str]:
    """What formatting did to a text that it must not do."""
    target: Target = "v0" if v0 else "v1"
    before = parse_module(Source("", text), v0=v0)
    try:
        formatted = format_source(Source("", text), v0=v0, target=target)
        after = parse_module(Source("", formatted), v0=v0)
    except ParseError:
        return ["does not parse any more"]
    faults = []
    if meaning(before) != meaning(after):
        faults.append("changed the meaning")
    if sorted(c.text.rstrip() for c in before.comments) != sorted(c.text for c in after.comments):
        faults.append("lost a comment")
    if format_source(Source("", formatted), v0=v0, target=target) != formatted:
        faults.append("is not stable")
    return faults


def test_formatting_keeps_meaning_and_comments_and_is_stable(shared: Path) -> None:
    texts: set[tuple[str, bool]] = set()
    for case in rows(shared / "data/golden/fmt.jsonl.gz"):
        texts.add((case["source"], any("v0" in flag for flag in case.get("flags", ()))))
    for case in rows(shared / "data/golden/errors.jsonl.gz"):
        texts.update((text, case.get("v0", False)) for text in case["modules"].values())
    faults = []
    for text, v0 in sorted(texts):
        try:
            found = check(text, v0=v0)
        except ParseError:
            continue
        if found:
            faults.append((text, found))
    assert not faults


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("p := (1 in [1]) == true", "p := (1 in [1]) == true"),
        ("p if { (1 in [1]) == true }", "p if (1 in [1]) == true"),
        ("p if { x == (y == z) }", "p if x == (y == z)"),
        ("p if { 1; -x.y == 2; -1 < 0 }", "p if {\n\t1\n\t(-x.y) == 2\n\t(-1) < 0\n}"),
        ("p if { not {x} }", "p if {\n\tnot {x}\n}"),
        ("p := eq(1, 2)", "p := eq(1, 2)"),
        ("p := eq(1)", "p := eq(1)"),
        ("p if { plus(1) }", "p if plus(1)"),
        ('p := $"a\\{b{x+1} c"', 'p := $"a\\{b{x + 1} c"'),
        ("p := $`a\n{ x }`", "p := $`a\n{x}`"),
        ('p := ("a")', 'p := "a"'),
        ('p := a.if["b c"].d', 'p := a.if["b c"].d'),
        ("p contains x if { x := -1 }", "p contains x if x := -1"),
        ("p := f(x).y[_][0]", "p := f(x).y[_][0]"),
        ("p := [x, y][0]", "p := [x, y][0]"),
        ("p := {x|y, 1}", "p := {(x | y), 1}"),
        ("p := f((x | y), x | y)", "p := f((x | y), x | y)"),
    ],
)
def test_layouts_that_only_we_get_right(text: str, formatted: str) -> None:
    source = f"package p\n\n{text}\n"
    assert check(source, v0=False) == []
    assert format_source(Source("", source)) == f"package p\n\n{formatted}\n"


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("p if x   and not y or {a:=1;a}", "p if x and not y or { a := 1; a }"),
        ("p if { {x == 1} or y }", "p if x == 1 or y"),
        ("p if not {x;y}", "p if not { x; y }"),
        ("p if not {x\ny}", "p if not {\n\tx\n\ty\n}"),
        ("p if not ({x})", "p if not ({x})"),
        ("p if { {x or y} and z }", "p if { x or y } and z"),
        ("p if x or ({}) with input as 1", "p if x or ({}) with input as 1"),
    ],
)
def test_imported_words(text: str, formatted: str) -> None:
    imports = "import future.keywords.and\nimport future.keywords.not\nimport future.keywords.or"
    source = f"package p\n\n{imports}\n\n{text}\n"
    assert format_source(Source("", source)) == f"package p\n\n{imports}\n\n{formatted}\n"
    again = format_source(Source("", format_source(Source("", source))))
    assert again == f"package p\n\n{imports}\n\n{formatted}\n"


def test_a_comment_without_a_place_leaves_the_rule_as_it_was() -> None:
    rule = "p := {\n# alone\n  x: 1 }"
    assert format_source(Source("", f"package p\n{rule}\nq:=1")) == (
        f"package p\n\n{rule}\n\nq := 1\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "package # a\np # b",
        "package p\nimport # a\ndata.x # b\nimport data.a",
        "package p\np := # a\n[1, # b\n2] # c",
        "package p\np # a\n:= # b\n1 # c\nq := 1",
        "package p\np[ # a\n1] := 2 # b",
        "package p\np if { x[{ # a\n1: # b\n2 # c\n}] # d\n}",
        "package p\np if { x == (y # a\n| # b\nz) # c\n}",
        "package p\np if x # a\nelse := 1 # b\nif y # c",
        "package p\np if { some {1 # a\n: x # b\n} in y }",
        "package p\nf(x, # a\n# b\ny) := 1 if { x }",
        "package p\n# METADATA\n# title: a\n# METADATA\n# title: b\np := 1",
        "package p\np contains x # a\nif { # b\n  x }",
        "package p\np := [ # a\nx # b\n| x # c\n]",
        "package p\nf\n# a\n(x) := 1\n# b\nif { x # c\n} else\n:= 2",
        'package p\nf(_, [a, b], {"c": d\n}) # a\n=\na if { a == b; # b\nb == d }',
        "package p\np if { x == (y # a\n== z # b\n) }",
    ],
)
def test_comments_in_odd_places_are_kept(text: str) -> None:
    assert check(text, v0=False) == []


@pytest.mark.property
def test_comments_anywhere_are_kept(shared: Path) -> None:
    chance = Random(1)
    cases = [c for c in rows(shared / "data/golden/fmt.jsonl.gz") if not c.get("flags")]
    for _ in range(400):
        text = chance.choice(cases)["source"]
        lexer = Lexer(Source("", text))
        token = lexer.first()
        places = [token.start]
        while token.kind not in (EOF, "illegal"):
            token = lexer.after(token.end)
            places.append(token.start)
        for place in sorted(chance.sample(places, min(4, len(places))), reverse=True):
            comment = chance.choice(["\n", f"# {place}\n", f"\n# {place}\n"])
            text = text[:place] + comment + text[place:]
        try:
            found = check(text, v0=False)
        except ParseError:
            continue
        assert not found, text


def test_v0_keeps_its_forms() -> None:
    text = 'package p\n\np["x"] {\n\tinput.x\n}\n\np[x] = y {\n\tinput.x\n}\n\nq.a.b\n'
    assert format_source(Source("", text), v0=True, target="v0") == text.replace(
        "q.a.b", "q.a.b = true"
    ).replace('p["x"] {', 'p["x"] {')


def test_imports_are_dropped_where_they_say_nothing() -> None:
    text = "package p\nimport rego.v1\nimport future.keywords.not\nimport future.keywords.if\n"
    assert format_source(Source("", text), drop_v0_imports=True) == (
        "package p\n\nimport future.keywords.not\n"
    )


def test_v0_gets_the_imports_that_it_needs() -> None:
    text = "package p\nimport future.keywords.every\np { every x in y { x } }\n"
    found = format_source(Source("", text), v0=True, target="v0v1")
    assert found == "package p\n\nimport rego.v1\n\np if every x in y { x }\n"
    text = "package p\nimport future.keywords\np { x in y }\nq { every z in y { z } }\n"
    module = parse_module(Source("", text), v0=True)
    bare = replace(module, imports=())
    found = format_module(bare, target="v0")
    assert "import future.keywords.every\n" in found
    assert "import future.keywords.in\n" not in found
    bare = replace(bare, rules=bare.rules[:1])
    assert "import future.keywords.in\n" in format_module(bare, target="v0")
