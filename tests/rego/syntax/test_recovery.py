"""Reading on behind what cannot be read: every statement is looked at, none twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.corpora import GOLDEN, rows
from tests.growth import grows

from doorward.rego import REGISTRY, Diagnostic
from doorward.rego.shared import ParseError, Source
from doorward.rego.syntax.parser import MAX_ERRORS, Parsed, parse_module, parse_with_recovery, texts

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
POLICIES = sorted((ROOT / "examples").rglob("*.rego"))


def parsed(text: str, *, v0: bool = False) -> Parsed:
    return parse_with_recovery(Source("p.rego", text), v0=v0, builtins=REGISTRY)


def places(text: str) -> list[str]:
    errors = parsed(f"package p\n\n{text}\n").errors
    return list(dict.fromkeys(f"{e.span.row}:{e.span.col}" for e in errors))


def rules(text: str) -> list[str]:
    module = parsed(f"package p\n\n{text}\n").module
    assert module is not None
    return [rule.head.ref.span.text for rule in module.rules]


def key(error: Diagnostic) -> tuple[int, int, str]:
    return error.span.row, error.span.col, error.message


@pytest.mark.parametrize(
    ("text", "errors", "names"),
    [
        ("a := )\n\nb := 1\n\nc := ]\n\nd if true", ["3:6", "7:6"], ["b", "d"]),
        ("a if {\n    x y\n    z\n}\n\nb := 1", ["4:7"], ["b"]),
        ("a if {\nx y\n}\n\nb := 1", ["4:3"], ["b"]),
        ("a if {\n    true\n\nb if {\n    true\n}", ["6:3"], ["b"]),
        ("a if {\n    ) }\nelse := 2\n\nb := 1", ["4:5"], ["b"]),
        ("a := `x\nb := 1\n`\n\nc := )\n\nd := 1", ["7:6"], ["a", "d"]),
        ("a := [`x\nb := 1\n`\n\nc := 2", ["7:1"], ["c"]),
        ('a := "x\n\nb := 1', ["3:6"], ["b"]),
        ("a := `x\n\nb := 1", ["3:6"], ["b"]),
        ('a := $"x {1\n\nb := 1', ["5:1"], ["b"]),
        ("a := {\n\n# comment\nb := 1", ["6:3"], ["b"]),
        ("import foo\n\nimport data.x as y.z\n\nb := 1", ["3:8", "7:1"], ["b"]),
        ("import future.keywords.inn\n\nb := 1", ["3:8"], ["b"]),
        (
            "a {\n    true\n}\n\nb := )\n\nc[x] {\n    x := 1\n}",
            ["3:1", "7:6", "9:1"],
            ["a", "c[x]"],
        ),
        ("default a := x\n\nb := 1", ["3:1"], ["b"]),
        ("p.q[x].r if )\n\nf(x, y) := ) \n\ng(x) if {\n    x\n}", ["3:13", "5:12"], ["g"]),
        ("package q\n\nb := 1", ["3:1"], ["b"]),
    ],
)
def test_an_error_hides_no_more_than_its_statement(
    text: str, errors: list[str], names: list[str]
) -> None:
    assert (places(text), rules(text)) == (errors, names)


def test_what_is_lost_has_names() -> None:
    text = "package p\n\na.b := )\n\nf(x) if {\n    )\n\nimport data.lib )\n\nc iff d\n"
    actual = parsed(text)
    assert {"a", "b", "f", "lib", "c"} <= actual.lost
    assert not {"input", "if", "true"} & actual.lost
    assert parsed("package p\n\na {\n    true\n}\n").lost == set()


@pytest.mark.parametrize("text", ["", "# nothing\n", "p := 1\n", "package )\n\np := 1\n", ")"])
def test_without_a_package_there_is_no_module(text: str) -> None:
    actual = parsed(text)
    assert actual.module is None
    assert actual.errors


def test_nesting_that_is_too_deep_is_one_error_of_many() -> None:
    deep = "[" * 200
    assert places(f"a := {deep}\n\nb := )\n\nc := 1")[-1] == "5:6"
    assert rules(f"a := {deep}\n\nb := )\n\nc := 1") == ["c"]
    # Words that were turned off for the path of an import are on again.
    assert rules(f"import data.x{deep}\n\nc if 1 in [1]") == ["c"]


def check_against_the_parser(text: str, *, v0: bool = False) -> None:
    """What the parser says is said here too, and a text in order is read as it is."""
    actual = parsed(text, v0=v0)
    said: tuple[Diagnostic, ...] = ()
    try:
        module = parse_module(Source("p.rego", text), v0=v0, builtins=REGISTRY)
    except ParseError as error:
        said = error.diagnostics
    if said:
        assert {key(each) for each in said} <= {key(each) for each in actual.errors}
    else:
        assert actual == (module, (), frozenset())


def test_nothing_that_the_parser_says_is_left_out() -> None:
    for case in rows(GOLDEN / "errors.jsonl.gz"):
        for text in case["modules"].values():
            check_against_the_parser(text, v0=bool(case.get("v0")))


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_broken_policies_are_read_to_their_end(path: Path) -> None:
    text = path.read_text()
    check_against_the_parser(text)
    random_of = random.Random(7)
    for _ in range(60):
        start, end = sorted(random_of.choices(range(len(text)), k=2))
        check_against_the_parser(text[:start])
        check_against_the_parser(text[:start] + text[min(end, start + 20) :])
        check_against_the_parser(text[:start] + random_of.choice(')]}{`"&x') + text[start:])


@pytest.mark.parametrize(
    "text",
    ["a := )\n", "a := {\n", "a {\n", "a := `\n", "x y z\n", "if\n", "else\n", "a := [$`{\n"],
)
def test_many_errors_cost_in_proportion(text: str) -> None:
    assert not grows(parsed, lambda count: "package p\n\n" + text * count, 300)


def test_errors_beyond_the_limit_are_dropped() -> None:
    broken = parsed("package p\n\n" + "\n\n".join(f"p{n} := )" for n in range(MAX_ERRORS + 9)))
    assert len(broken.errors) == MAX_ERRORS
    assert broken.errors[0].span.row == 3
    late = parsed("package p\n\nq := )\n\n" + "\n\n".join(["package q"] * (MAX_ERRORS + 9)))
    assert len(late.errors) == MAX_ERRORS
    assert late.errors[0].span.row == 3


def test_a_text_too_deep_for_the_stack_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(texts, "_parse_with_recovery", fail)
    parsed = parse_with_recovery(Source("p.rego", "package p\n"))
    assert parsed.module is None
    assert [error.message for error in parsed.errors] == ["max parsing recursion depth exceeded"]
