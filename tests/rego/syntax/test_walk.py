"""All nodes below a node, and trees with parts replaced."""

from __future__ import annotations

from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Call, Expr, Rule, Scalar, Var
from doorward.rego.syntax.parser import parse_module, parse_term
from doorward.rego.syntax.walk import Node, children, rewrite, walk

TEXT = """package p
import data.a as b
f(x) := {"k": [y | some y in x; not y with input.z as 1]} if {
    every e in x { e == $"t{x}" }
} else := 2
"""


def test_walk_meets_every_name_in_the_order_of_the_text() -> None:
    module = parse_module(Source("p.rego", TEXT))
    names = [n.name for n in walk(module) if isinstance(n, Var)]
    assert names == ["data", *"fxyyxy", "input", *"ex", "equal", *"exfx"]


def test_children_are_the_direct_ones() -> None:
    assert list(children(parse_term("{1: x, 2: y}"))) == [Scalar(1), Var("x"), Scalar(2), Var("y")]
    assert list(children(Scalar(1))) == []


def test_an_untouched_tree_comes_back_as_itself() -> None:
    module = parse_module(Source("p.rego", TEXT))
    assert rewrite(module, lambda node: node) is module


def test_rewrite_replaces_below_and_keeps_the_rest() -> None:
    def renamed(node: Node) -> Node:
        return Var("z") if node == Var("x") else node

    assert rewrite(parse_term("f(x, [x, y])"), renamed) == parse_term("f(z, [z, y])")
    module = parse_module(Source("p.rego", TEXT))
    changed = rewrite(module, renamed)
    assert changed == parse_module(Source("p.rego", TEXT.replace("x", "z")))
    assert changed.imports[0] is module.imports[0]


def test_rewrite_goes_from_the_leaves_up() -> None:
    seen: list[type] = []

    def note(node: Node) -> Node:
        seen.append(type(node))
        return node

    rewrite(parse_module(Source("p.rego", "package p\np := f(1)")), note)
    assert seen.index(Scalar) < seen.index(Call) < seen.index(Rule)
    assert Expr not in seen
