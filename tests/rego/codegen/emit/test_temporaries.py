"""Local names."""

from __future__ import annotations

import ast

import pytest

from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.emit.temporaries import Temporaries


def test_a_name_is_given_once() -> None:
    temps = Temporaries(["ctx"])
    names = [temps.fresh(wish) for wish in ("x", "x", "", "", "ctx", "x1")]
    assert names == ["x", "x2", "_2", "_3", "ctx2", "x1"]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["for", "None", "__debug__"])
def test_what_python_reserves_is_only_a_wish(name: str) -> None:
    assert Temporaries().fresh(name) == f"{name}2"


def test_names_to_share_and_to_bind_at_the_start_are_kept() -> None:
    temps = Temporaries()
    assert temps.shared == set()
    assert temps.fresh_shared("x") in temps.shared
    first, second = load("a"), load("b")
    assert temps.bind_at_start("n", first).id == "n"
    temps.bind_at_start("n", second)
    assert {n: ast.unparse(code) for n, code in temps.at_start.items()} == {"n": "a"}


def test_the_original_of_a_copy_is_known() -> None:
    temps = Temporaries()
    temps.note_copy("b", "a")
    temps.note_copy("c", "b")
    assert [temps.original(name) for name in "abcd"] == ["a", "a", "a", "d"]
