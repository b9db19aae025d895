"""The variables of a tree are found in the order of the text, with closures or without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doorward.rego import analysis
from doorward.rego.analysis.opa_diagnostics.flat_variables import all_vars
from doorward.rego.analysis.variables import ROOTS, body_vars, term_vars
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_query, parse_term


def names(text: str, *, closures: bool = True) -> list[str]:
    return [v.name for v in body_vars(parse_query(Source("", text)), closures=closures)]


@pytest.mark.parametrize(
    ("text", "all_names", "outside"),
    [
        ("x = input.a[y]", ["x", "y"], ["x", "y"]),
        ("[v | v = xs[i]]", ["v", "v", "xs", "i"], []),
        ("{k: v | v = xs[k]; z}", ["k", "v", "v", "xs", "k", "z"], []),
        ("every k, v in xs { f(k, w) }", ["xs", "v", "k", "k", "w"], ["xs"]),
        ("some k, v in xs", ["k", "v", "xs"], ["k", "v", "xs"]),
        ("p with input.a as b", ["p", "b"], ["p", "b"]),
        ('$"{a}"', ["a"], ["a"]),
        ("data.lib.f(x)", ["x"], ["x"]),
    ],
)
def test_variables(text: str, all_names: list[str], outside: list[str]) -> None:
    assert names(text) == all_names
    assert names(text, closures=False) == outside


def test_documents_are_not_variables() -> None:
    assert {"data", "input"} == ROOTS
    assert list(term_vars(parse_term("[data.a, input.b, input]"))) == []


def test_opa_does_not_count_what_names_a_function() -> None:
    term = parse_term("[y | y = 1 with f as io.jwt.decode]")
    assert [v.name for v in term_vars(term)] == ["y", "y", "io"]
    flat = parse_term("[y | f(y) with f as io.jwt.decode]")
    assert [v.name for v in all_vars(flat)] == ["y", "y"]


def test_the_names_of_documents_are_written_once() -> None:
    home = Path(analysis.__path__[0]).parent
    sets = re.compile(r"""frozenset\(\{"(input|data)", "(input|data)"\}\)""")
    holders = [path.name for path in home.rglob("*.py") if sets.search(path.read_text())]
    assert holders == ["keywords.py"]
