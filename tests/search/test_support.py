"""Support modules are read as their texts, and compiled with the policies they belong to."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.tools import format_tree
from doorward.search.support import add_support, reparse

POLICY = "package p\n\nallow if not denied\n\ndenied if input.n > 5\n\ndenied if input.blocked\n"


def test_trees_are_those_of_the_text() -> None:
    modules = (
        Engine({"p.rego": POLICY}).partial("data.p.allow", ["input"], namespace="left").support
    )
    again = reparse(modules, "left")
    assert [*again] == [f"left_{number}.rego" for number in range(len(modules))]
    assert [*map(format_tree, again.values())] == [*map(format_tree, modules)] != []


def test_rules_of_the_support_can_be_asked() -> None:
    engine = Engine({"p.rego": POLICY})
    modules = reparse(
        list(Engine({"q.rego": "package left\n\nr := data.p.allow\n"}).trees.values()), "left"
    )
    assert add_support(engine, modules).prepare("data.left.r").value({"n": 1}) is True
    assert add_support(engine, {}) is engine


def test_support_that_does_not_compile_is_an_error() -> None:
    modules = reparse(
        list(Engine({"q.rego": "package p.denied\n\nr := 1\n"}).trees.values()), "left"
    )
    with pytest.raises(CompileError):
        add_support(Engine({"p.rego": POLICY}), modules)
