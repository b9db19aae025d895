"""What reads a replaced rule gives any value: as OPA 1.20.2 has it."""

from __future__ import annotations

import pytest

from doorward.rego import Engine, RegoError
from doorward.rego.analysis.dependencies import Dependencies
from doorward.rego.analysis.readers import Readers
from doorward.rego.analysis.tree import RuleNode

REPLACED = "package c\n\ns := 1\n\ng(x) := 1"


def accepts(rules: str, body: str) -> bool:
    modules = {"a": f"package a\n\n{rules}", "b": f"package b\n\nr if {{ {body} }}", "c": REPLACED}
    try:
        Engine(modules).prepare("data")
    except RegoError as error:
        if "rego_type_error" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize(
    ("rules", "document", "target"),
    [
        ("r := data.c.s", "data.a.r", "data.c.s"),
        ('r := "a" if data.c.s', "data.a.r", "data.c.s"),
        ('r := u\n\nu := "a" if data.c.s', "data.a.r", "data.c.s"),
        ('r := "a" if data.c', "data.a.r", "data.c.s"),
        ('r := "a" if data.c[input.k]', "data.a.r", "data.c.s"),
        ('r := "a" if data.c.s', "data.a.r", "data.c"),
        ('r[k] := v if { k := "a"; v := data.c.s }', "data.a.r", "data.c.s"),
        ("r := data.c.g(1)", "data.a.r", "data.c.g"),
        ('f(x) := "a" if data.c.s', "data.a.f(1)", "data.c.s"),
        ('f("s") := "a" if data.c.s', "data.a.f(1)", "data.c.s"),
        ('r := {"x": 1} if data.c.s', "data.a.r.zz", "data.c.s"),
    ],
)
def test_below_with_a_reader_of_what_is_replaced_has_any_type(
    rules: str, document: str, target: str
) -> None:
    assert accepts(rules, f"x := {document} with {target} as 1; [1] == x")
    assert not accepts(rules, f"x := {document} with data.base as 1; [1] == x")
    assert not accepts(rules, f"x := {document}; [1] == x")


@pytest.mark.parametrize(
    ("rules", "target"),
    [
        ('r := "a"', "data.c.s"),
        ('r := "a" if data.c.new', "data.c.new"),
        ('r := "a" if data.base', "data.base"),
        ('r := "a" if input.x', "input.x"),
        ('r := upper("a")', "upper"),
        ('r := "a"', "data.a.r"),
    ],
)
def test_other_rules_keep_their_types(rules: str, target: str) -> None:
    value = '"x"' if target == "upper" else "1" if target != "data.a.r" else '"b"'
    assert not accepts(rules, f"x := data.a.r with {target} as {value}; [1] == x")


def test_readers_are_found_through_others() -> None:
    root = RuleNode(())
    assert Readers(root, Dependencies()).of(("a",)) == []
    engine = Engine({"a": "package a\n\np := q\n\nq := s\n\ns := 1\n\nt := 2"})
    program = engine.policies.program
    readers = Readers(program.root, program.graph)
    assert sorted(readers.of(("a", "s"))) == [("a", "p"), ("a", "q")]
    assert readers.of(("a", "t")) == []
