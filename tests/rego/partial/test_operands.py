"""Operands of `and`, `or` and infix calls, and what is known under a `with`, in residuals."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from doorward.rego import Engine, from_python
from doorward.rego.syntax.format import format_tree

HEAD = """package a

import future.keywords.and
import future.keywords.or

o[k] := v if some k, v in data.e

"""
DATA = {"e": ["a"], "g": {"h": 1}}
VALUES: dict[str, list[Any]] = {"x": [False, True, 3, 5], "y": [True, -1], "xs": [[], [2, 0]]}


@pytest.mark.parametrize(
    "body",
    [
        "not input.x and input.y",
        "input.y and not input.x",
        "not input.x and not input.y == -1",
        "(not input.x and input.y) or input.x == 3",
        "{ some z in input.xs; z > 1 } and { some z in input.xs; z < 1 }",
        "{ z := input.x; z == 3 } and { z := input.y; z == -1 }",
        '{ input.x with input as {"x": 1} } and input.y',
        '{ input.x with input as {"x": 1} } and input.y with input.y as true',
        "input.x and { not input.y; input.x } with input.y as false",
        "{ input.x; input.y } and input.xs",
    ],
)
def test_operands_keep_what_is_theirs(body: str) -> None:
    compare(f"p if {{\n\t{body}\n}}\n")


@pytest.mark.parametrize(
    "body",
    [
        "(input.x - (1 - input.y)) == 3",
        "((input.x in [3]) == true) == true",
        "(input.x in [3]) == false",
        "(input.x == 3) != (input.y == -1)",
    ],
)
def test_operands_of_infix_calls_keep_their_parentheses(body: str) -> None:
    compare(f"p if {{\n\t{body}\n}}\n")


@pytest.mark.parametrize(
    "known",
    [
        'count([1 | o["zz"]]) == 0',
        "count([1 | o[0]]) == 1",
        'not q("zz")',
        "q(0)",
        "every k in [0] { o[k] }",
        'every k in [0, "zz"] { o[k] }',
        "r == [1, {0}]",
    ],
)
def test_what_is_known_leaves_nothing_under_a_with(known: str) -> None:
    """The documents of an expression with `with` are not inlined; in a comprehension, an `every`, a
    negation or a value that is known, the residual would have nowhere to keep them."""
    rules = 'q(k) if count([1 | o[k]]) == 1\n\nr := [count(o), {k | o[k]}]\n\nt := [q("zz")]\n\n'
    compare(f'{rules}p if {{\n\tinput.x\n\t{known} with data.g.h as o["zz"]\n}}\n')
    compare(f"{rules}p if {{\n\tinput.x\n\t{known} with data.g.h as 2\n}}\n")


def compare(rules: str) -> None:
    """Assert that the residual of `p` decides as `p` does for all values, by its text
    and by the text that the formatter writes."""
    modules = {"a.rego": HEAD + rules}
    engine = Engine(modules, data=from_python(DATA))
    partial = engine.partial("data.a.p = true", ["input"])
    support = {f"s{n}.rego": text for n, text in enumerate(partial.support_texts)}
    both = engine.with_modules({**modules, **support})
    query = engine.prepare("data.a.p = true")
    residuals = [
        [both.prepare(text) for text in partial.query_texts],
        [both.prepare(format_tree(tree)) for tree in partial.queries],
    ]
    for values in product(*VALUES.values()):
        names = dict(zip(VALUES, values, strict=True))
        for absent in (None, *names):
            input = from_python({k: v for k, v in names.items() if k != absent})
            expected = bool(query.results(input))
            for texts in residuals:
                assert any(each.results(input) for each in texts) is expected, input
