"""The formatted text is OPA's, means the same, keeps every comment and stays as it is."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Literal

import pytest
from tests.corpora import GOLDEN, rows
from tests.differences import load
from tests.rego.engine.programs import program

from doorward.rego.errors import CompileError, ParseError, RegoError
from doorward.rego.source import Source
from doorward.rego.syntax import format
from doorward.rego.syntax.format import Target, format_module, format_policy, format_source
from doorward.rego.syntax.lexer import EOF, Lexer
from doorward.rego.syntax.nodes import Call, Expr, Module, Object, Ref, Rule, Scalar, Set, Var
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.walk import Node, rewrite

pytestmark = pytest.mark.long


def options(flags: list[str]) -> dict[str, Any]:
    actual: dict[str, Any] = {"drop_v0_imports": "--drop-v0-imports" in flags}
    if "--v0-v1" in flags:
        return actual | {"v0": "--v1-compatible" not in flags, "target": "v0v1"}
    return actual | ({"v0": True, "target": "v0"} if "--v0-compatible" in flags else {})


SETS = ("fmt.jsonl.gz", "fmt-more.jsonl.gz")


def formatted(case: dict[str, Any]) -> str | None:
    try:
        return format_source(Source("p.rego", case["source"]), **options(case.get("flags", [])))
    except RegoError:
        return None


def test_recorded_layouts() -> None:
    cases = [case for name in SETS for case in rows(GOLDEN / name) if "formatted" in case]
    differing = {case["id"] for case in cases if formatted(case) != case["formatted"]}
    known = {each for difference in load("format") for each in difference.ids}
    assert differing == known & {case["id"] for case in cases}


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
            case Set(items=items):
                return replace(node, items=tuple(dict.fromkeys(items)))
            case Object(items=pairs):
                keys = {key: key for key, _ in reversed(pairs)}
                values = dict(pairs)
                return replace(node, items=tuple((keys[key], values[key]) for key in values))
            case _:
                return node

    return rewrite(replace(module, imports=()), plain)


def check(text: str, *, v0: bool, target: Target | None = None) -> list[str]:
    """What formatting did to a text that it must not do."""
    target = target or ("v0" if v0 else "v1")
    before = parse_module(Source("", text), v0=v0)
    try:
        formatted = format_source(Source("", text), v0=v0, target=target)
        after = parse_module(Source("", formatted), v0=target == "v0")
    except ParseError:
        return ["does not parse any more"]
    faults = []
    if meaning(before) != meaning(after):
        faults.append("changed the meaning")
    if sorted(c.text.rstrip() for c in before.comments) != sorted(c.text for c in after.comments):
        faults.append("lost a comment")
    if format_source(Source("", formatted), v0=target == "v0", target=target) != formatted:
        faults.append("is not stable")
    return faults


def recorded() -> list[tuple[str, bool]]:
    """Every text that was given to OPA's formatter or compiler, and whether it is v0."""
    texts: set[tuple[str, bool]] = set()
    for case in (case for name in SETS for case in rows(GOLDEN / name)):
        flags = case.get("flags", ())
        v0 = any("v0" in flag for flag in flags) and "--v1-compatible" not in flags
        texts.add((case["source"], v0))
    for case in rows(GOLDEN / "errors.jsonl.gz"):
        texts.update((text, case.get("v0", False)) for text in case["modules"].values())
    return sorted(texts)


def test_formatting_keeps_meaning_and_comments_and_is_stable() -> None:
    faults = []
    for text, v0 in recorded():
        try:
            actual = check(text, v0=v0)
        except (CompileError, ParseError):
            continue
        if actual:
            faults.append((text, actual))
    assert not faults


# What v1 has no way to say, or refuses.
ONLY_V0 = ("if", "in", "every", "contains", "input", "data")


def test_v0_becomes_v1_without_a_change_of_meaning() -> None:
    faults = []
    for text, v0 in recorded():
        if not v0 or any(name in text for name in ONLY_V0):
            continue
        try:
            actual = check(text, v0=True, target="v0v1")
        except (CompileError, ParseError):
            continue
        if actual:
            faults.append((text, actual))
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
        ("p := {x|y, 1}", "p := {x | y, 1}"),
        ("p := f((x | y), x | y)", "p := f((x | y), x | y)"),
        ("p := f(x | y | z)", "p := f(((x | y) | z))"),
        ('p := {"a": 1, "b": x | y}', 'p := {"a": 1, "b": x | y}'),
        ("p := [1, x | y, x | y | z]", "p := [1, x | y, ((x | y) | z)]"),
        ("f(x) := [\n1,\n2,\n] if x", "f(x) := [\n\t1,\n\t2,\n] if {\n\tx\n}"),
        (
            "p := 1 if y\nelse := [\n1,\n2,\n] if x",
            "p := 1 if y\n\nelse := [\n\t1,\n\t2,\n] if x",
        ),
        (
            "p := 1 if y\nelse := [\n1,\n] if { x }",
            "p := 1 if y\n\nelse := [1] if {\n\tx\n}",
        ),
        ("p := 1 if y\nelse := 2 if\n[\nx] == 1", "p := 1 if y\n\nelse := 2 if [x] == 1"),
    ],
)
def test_layouts_that_no_recorded_row_has(text: str, formatted: str) -> None:
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


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        # OPA writes none of these so that it stays: each comment gets a line, or the end of one.
        ("p := {\n# alone\n  x: 1 }", "p := {\n\t# alone\n\tx: 1,\n}"),
        ("p := [ # open\n1\n]", "p := [1] # open"),
        # OPA writes `(false.x % 2) == 1 == x`, which no parser reads.
        ("p if {\n  false.x%2 ==1 == x\n}\nq  :=  1", "p if {\n  false.x%2 ==1 == x\n}\n\nq := 1"),
        ("p := [\n# empty\n]\n\n\nq := 1", "p := []\n\n# empty\n\nq := 1"),
        (
            "p if { not [\n# why\n] == 1 }",
            "p if not [\n\t# why\n] == 1",
        ),
        (
            "p := [{\n# why\n'a': 1}]".replace("'", '"'),
            'p := [{\n\t# why\n\t"a": 1,\n}]',
        ),
        (
            "p if {\n\tx == [\n\t\t1\n\t] # why\n\ty\n}",
            "p if {\n\tx == [1] # why\n\ty\n}",
        ),
        ("p if f(\n# why\nx)", "p if f(\n\t# why\n\tx,\n)"),
        # A comment that has no place even so leaves the rule as it was.
        ("p if x == (y # a\n| # b\nz) # c", "p if x == (y # a\n| # b\nz) # c"),
    ],
)
def test_comments_that_opa_moves_for_ever_get_a_place(text: str, formatted: str) -> None:
    source = f"package p\n\n{text}\n"
    assert check(source, v0=False) == []
    assert format_source(Source("", source)) == f"package p\n\n{formatted}\n"


def test_comments_that_have_no_place_in_v1_stand_above_their_rule() -> None:
    text = "package p\n\np[x] = # a\n\ny # b\n\n{ x := 1; y := # c\n2 }\n"
    formatted = format_source(Source("", text), v0=True, target="v0v1")
    assert formatted == (
        "package p\n\nimport rego.v1\n\n# a\n# b\n# c\np[x] := y if {\n\tx := 1\n\ty := 2\n}\n"
    )


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        # OPA counts only the lines between the brackets of a body.
        ("p if\n{ x\n# a\n}", "p if {\n\tx\n} # a"),
        ("p if\n\n{ x\n\ny\n# a\n}", "p if {\n\tx\n\n\ty\n}\n\n# a"),
    ],
)
def test_comments_go_where_opa_puts_them(text: str, formatted: str) -> None:
    assert format_source(Source("", f"package p\n\n{text}\n")) == f"package p\n\n{formatted}\n"


def test_a_comment_below_the_name_of_a_package_stands_below_it() -> None:
    assert format_source(Source("", "package\n# a\np # b\n")) == "package p\n\n# a\n# b\n"


def test_equal_comments_of_two_rules_are_two() -> None:
    text = "package p\n\np # a\n{ # b\nx } { # b\ny }\n"
    assert check(text, v0=True, target="v0v1") == []


def test_what_the_target_cannot_say_comes_out_as_text_that_it_refuses() -> None:
    text = "package p\n\np { if := 1; if # a\n} # b\n"
    formatted = format_source(Source("", text), v0=True, target="v0v1")
    with pytest.raises(ParseError):
        parse_module(Source("", formatted), v0=True)


def test_keywords_that_v1_has_to_import_stay_imported() -> None:
    imports = "import future.keywords\nimport future.keywords.not"
    text = f"package p\n\n{imports}\n\np {{ not {{input.x}} }}\n"
    assert check(text, v0=True, target="v0v1") == []
    formatted = format_source(Source("", text), v0=True, target="v0v1")
    assert "import future.keywords.not\n" in formatted
    text = "package p\n\nimport future.keywords\n\np { input.x or input.y }\n"
    assert check(text, v0=True, target="v0v1") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input = 1", "rules must not shadow input (use a different rule name)"),
        ("f([{1: data}]) = 1", "args must not shadow data (use a different variable name)"),
        (
            "p { x := [y | input := 1; y = 1] }",
            "variables must not shadow input (use a different variable name)",
        ),
        ("import data.a\nimport input.b as a\np { a }", "import must not shadow import data.a"),
        ("p { [all([true]) | true] }", "deprecated built-in function calls in expression: all"),
        ("if = 1", "if keyword cannot be used for rule name"),
    ],
)
def test_what_v1_does_not_have_is_refused(text: str, message: str) -> None:
    source = Source("p.rego", f"package p\n\n{text}\n")
    targets: tuple[Target, ...] = ("v0v1", "v1")
    for target in targets:
        with pytest.raises(CompileError) as caught:
            format_source(source, v0=True, target=target, removed={"all"})
        assert [each.message for each in caught.value.diagnostics] == [message]
        assert {each.span.row > 2 for each in caught.value.diagnostics} == {True}
    format_source(source, v0=True, target="v0", removed={"all"})


def test_an_import_that_is_added_comes_first() -> None:
    text = "package p\n\nimport data.x\nimport future.keywords.in\n\np { 1 in x }\n"
    assert format_source(Source("", text), v0=True, target="v0v1") == (
        "package p\n\nimport rego.v1\n\nimport data.x\n\np if 1 in x\n"
    )


def test_equal_members_and_keys_are_written_once_as_in_opa() -> None:
    text = 'package p\n\np := {1, 2, 1.0, "a"}\n\nq := {"a": 1, "b": 2, "a": 3}\n'
    assert format_source(Source("", text)) == (
        'package p\n\np := {1, 2, "a"}\n\nq := {"a": 3, "b": 2}\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "package # a\np # b",
        "package # a\np\n\n# a\nq := 1 # a",
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


def boundaries(text: str) -> list[int]:
    """Where a comment may stand: before each token, and at the end."""
    lexer = Lexer(Source("", text))
    token = lexer.first()
    places = [token.start]
    while token.kind not in (EOF, "illegal"):
        token = lexer.after(token.end)
        places.append(token.start)
    return places


def commented(text: str, chance: Random, count: int) -> str:
    """The text with comments, alone or beside something, and some blank lines."""
    places = boundaries(text)
    for position in sorted(chance.sample(places, min(count, len(places))), reverse=True):
        lines = chance.choice(["# {}\n", "\n# {}\n", "# {}\n\n", "\n\n# {}\n", "\n"])
        text = text[:position] + lines.format(position) + text[position:]
    return text


def assert_comments_are_kept(texts: list[tuple[str, bool]], seed: int, count: int) -> None:
    chance = Random(seed)
    tried = 0
    while tried < count:
        text, v0 = chance.choice(texts)
        try:
            text = commented(text, chance, chance.choice([1, 1, 1, 2, 6]))
            actual = check(text, v0=v0)
        except (CompileError, ParseError):
            continue
        tried += 1
        assert not actual, text


def test_comments_between_any_two_tokens_are_kept() -> None:
    assert_comments_are_kept(recorded(), seed=1, count=200)


@pytest.mark.property
@pytest.mark.parametrize("seed", range(20))
def test_comments_anywhere_are_kept(seed: int) -> None:
    assert_comments_are_kept(recorded(), seed=seed, count=400)


def test_generated_programs_are_the_same_when_formatted() -> None:
    texts = ["package p\n\n" + "\n".join(program(seed)) + "\n" for seed in range(15)]
    for text in texts:
        assert check(text, v0=False) == [], text
    assert_comments_are_kept([(text, False) for text in texts], seed=1, count=15)


def test_v0_keeps_its_forms() -> None:
    text = 'package p\n\np["x"] {\n\tinput.x\n}\n\np[x] = y {\n\tinput.x\n}\n\nq.a.b\n'
    assert format_source(Source("", text), v0=True, target="v0") == text


def test_imports_are_dropped_where_they_say_nothing() -> None:
    text = "package p\nimport rego.v1\nimport future.keywords.not\nimport future.keywords.if\n"
    assert format_source(Source("", text), drop_v0_imports=True) == (
        "package p\n\nimport future.keywords.not\n"
    )


def test_v0_gets_the_imports_that_it_needs() -> None:
    text = "package p\nimport future.keywords.every\np { every x in y { x } }\n"
    formatted = format_source(Source("", text), v0=True, target="v0v1")
    assert formatted == "package p\n\nimport rego.v1\n\np if every x in y { x }\n"
    text = "package p\nimport future.keywords\np { x in y }\nq { every z in y { z } }\n"
    module = parse_module(Source("", text), v0=True)
    bare = replace(module, imports=())
    formatted = format_module(bare, target="v0")
    assert "import future.keywords.every\n" in formatted
    assert "import future.keywords.in\n" not in formatted
    bare = replace(bare, rules=bare.rules[:1])
    assert "import future.keywords.in\n" in format_module(bare, target="v0")


AS_OPA: dict[str, tuple[Literal["v0", "v1"], str, str]] = {
    "only what is beside the first row of an import stays beside it": (
        "v1",
        "package a\n\nimport # one\n# two\ndata.foo # three\nas x # four\n\nimport data.y\n",
        "package a\n\nimport data.foo as x # one\n\n# two\n# three\n# four\n\nimport data.y\n",
    ),
    "what is behind the last import goes before the first rule": (
        "v1",
        'package a\n\nimport data.foo[ # c\n  "bar"\n] as x # e\n\np := 1\n',
        "package a\n\nimport data.foo.bar as x # c\n\n# e\n\np := 1\n",
    ),
    "a head that a further body repeats is on one line": (
        "v0",
        "package a\n\nf(x,\n y) = [1,\n 2] {\n x\n} { # c\n y }\n",
        "package a\n\nf(\n\tx,\n\ty,\n) = [\n\t1,\n\t2,\n] {\n\tx\n}\n\n"
        "f(x, y) = [1, 2] { # c\n\ty\n}\n",
    ),
    "keys of objects are written as in errors": (
        "v1",
        'package a\n\np[`r"w`] := 1\n\np[1 + 1] := 1\n\np[{1: 2,\n 0: [3]}] := 1\n',
        'package a\n\np["r\\"w"] := 1\n\np[plus(1, 1)] := 1\n\np[{0: [3], 1: 2}] := 1\n',
    ),
}


@pytest.mark.parametrize("case", AS_OPA)
def test_texts_are_those_of_opa(case: str) -> None:
    target, text, formatted = AS_OPA[case]
    assert format_source(Source("", text), v0=target == "v0", target=target) == formatted
    assert format_source(Source("", formatted), v0=target == "v0", target=target) == formatted


@pytest.mark.parametrize(
    ("text", "v0", "target", "times"),
    [
        ("package p\n\nallow if input.x == 1\n", False, "v1", 1),
        ("package p\n\nallow   if input.x == 1\n", False, "v1", 2),
        ("package p\n\nallow {\n\tinput.x == 1\n}\n", True, "v0", 1),
        ("package p\n\nallow { input.x == 1 }\n", True, "v1", 2),
    ],
)
def test_a_policy_is_parsed_once_and_its_text_once_where_it_is_another(
    text: str, v0: bool, target: Target, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    def parse(source: Source, *, v0: bool = False) -> Module:
        parsed.append(source.text)
        return parse_module(source, v0=v0)

    monkeypatch.setattr(format, "parse_module", parse)
    result = format_policy(Source("", text), v0=v0, target=target)
    assert result.is_read
    assert len(parsed) == times
    module = parse_module(Source("", text), v0=v0)
    again = format_policy(Source("", text), v0=v0, target=target, module=module)
    assert again == result
    assert len(parsed) == 2 * times - 1


def test_what_the_target_refuses_was_not_read() -> None:
    text = "package p\n\nq {\n\tif := 1\n\tif == 1\n}\n"
    assert not format_policy(Source("", text), v0=True).is_read


def test_members_of_a_set_in_a_head_are_sorted() -> None:
    text = 'package p\n\np[{"b", "a", 1}] = 3 { true }\n'
    formatted = format_source(Source("p.rego", text), v0=True)
    assert formatted == 'package p\n\np[{1, "a", "b"}] := 3\n'
