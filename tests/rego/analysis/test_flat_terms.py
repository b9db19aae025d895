"""Which variables equations, references and calls bind: the same in both trees of flat bodies."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego.analysis.flat_terms import FlatTerms
from doorward.rego.analysis.opa_diagnostics.flat_variables import FLAT
from doorward.rego.partial import core
from doorward.rego.partial.order import FLAT as FLAT_OF_PARTIAL
from doorward.rego.syntax import nodes
from doorward.rego.syntax.parser import parse_term


def lowered(term: nodes.Term) -> core.Term:
    """The term in the tree of partial evaluation."""
    match term:
        case nodes.Scalar(value):
            return core.Constant(value)
        case nodes.Var(name):
            return core.Ref((core.Var(name),)) if name in ("input", "data") else core.Var(name)
        case nodes.Ref(head, args):
            first = lowered(head)
            inside = first.parts if isinstance(first, core.Ref) else (first,)
            return core.Ref((*inside, *map(lowered, args)))
        case nodes.Array(items):
            return core.array(map(lowered, items))
        case nodes.Set(items):
            return core.set_(map(lowered, items))
        case nodes.Object(items):
            return core.object_([(lowered(key), lowered(value)) for key, value in items])
        case nodes.ArrayComprehension(head):
            return core.Comprehension("array", None, lowered(head), ())
        case nodes.ObjectComprehension(key, value):
            return core.Comprehension("object", lowered(key), lowered(value), ())
    raise AssertionError(term)


def in_both(text: str) -> list[tuple[FlatTerms, Any]]:
    term = parse_term(text)
    return [(FLAT, term), (FLAT_OF_PARTIAL, lowered(term))]


@pytest.mark.parametrize(
    ("left", "right", "safe", "bound"),
    [
        ("x", "1", "", "x"),
        ("x", "y", "", ""),
        ("x", "y", "y", "x"),
        ("x", "input", "", "x"),
        ("x", "input.a", "", "x"),
        ("x", "y.a", "", ""),
        ("x", "[y, z]", "", ""),
        ("x", "[y, z]", "x", "y z"),
        ("x", "[y, z]", "y z", "x"),
        ("[x, y]", "[y, z]", "z", "x y"),
        ("[x, y]", "[[1], x]", "", "x y"),
        ("[x, y]", "[z]", "z", ""),
        ("[x, y]", "[input.a, x[0]]", "", "x y"),
        ("[x, {y}]", "input.a", "", "x"),
        ("[x]", "input", "", "x"),
        ("[x]", "[1 | true]", "", "x"),
        ("[x]", "y[0]", "", ""),
        ('{"a": x, y: 1}', "input.a", "", "x"),
        ('{"a": x}', '{"a": [y]}', "x", "y"),
        ('{"a": x}', '{"b": y}', "y", ""),
        ('{"a": x}', "{1: 2 | true}", "", "x"),
        ('{"a": x}', "[1 | true]", "", ""),
        ("{x}", "{1}", "", ""),
    ],
)
def test_equations_bind_what_the_other_side_knows(
    left: str, right: str, safe: str, bound: str
) -> None:
    for one, other in ((left, right), (right, left)):
        for (terms, a), (_, b) in zip(in_both(one), in_both(other), strict=True):
            assert terms.equation_names(a, b, set(safe.split())) >= set(bound.split())
            assert terms.equation_names(a, b, set(safe.split())) <= {*bound.split(), *safe.split()}


@pytest.mark.parametrize(
    ("text", "safe", "names"),
    [
        ("input[x].a[y]", "", "x y"),
        ("z[x]", "", ""),
        ("z[x]", "z", "x"),
        ("input[data.a[x]]", "", "x"),
        ("input[z[x]]", "", "x"),
        ('[input[x], {"a": data[y]}, {input[z]}]', "", "x y z"),
        ("[input[x] | true]", "", ""),
        ("x", "", ""),
    ],
)
def test_references_bind_their_operands(text: str, safe: str, names: str) -> None:
    for terms, term in in_both(text):
        assert terms.walked_names([term], set(safe.split())) == set(names.split())


@pytest.mark.parametrize(
    ("args", "count", "names"),
    [
        ("[input.a, x]", 1, "x"),
        ("[y, x]", 1, ""),
        ("[y, x]", 2, ""),
        ("[input[y], [x, z]]", 1, "x y z"),
        ("[input[y], x]", None, ""),
    ],
)
def test_calls_bind_their_results(args: str, count: int | None, names: str) -> None:
    for terms, term in in_both(args):
        assert terms.call_names(term.items, count, set()) == set(names.split())
