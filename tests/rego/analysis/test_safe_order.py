"""The order of flat bodies: which expression is ready when, and what the others lack."""

from __future__ import annotations

import pytest

from doorward.rego.analysis.opa_diagnostics.flattening import Flattener
from doorward.rego.analysis.safe_order import SafeOrder
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.shared import Source
from doorward.rego.syntax.nodes import Call
from doorward.rego.syntax.parser import parse_query


def arity(call: Call) -> int | None:
    return 1 if call.name == "f" else None


def ordered(text: str, *around: str) -> tuple[list[int], set[str]]:
    """The numbers of the flat expressions in order, and what is missing."""
    flattener = Flattener(arity, unify_equals=False)
    body = flattener.body(parse_query(Source("q", text)))
    order = SafeOrder(arity, flattener.templates)
    unsafe = order.body(body, ROOTS.union(around))
    exprs = order.orders[id(body)].exprs
    missing = {name for _, names in unsafe.values() for name in names}
    numbers = [n for expr in exprs for n, each in enumerate(body) if each is expr]
    assert order.orders[id(body)].is_as_written is (numbers == list(range(len(body))))
    return numbers, missing


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("x = 1; x", [0, 1]),
        ("x; x = 1", [1, 0]),
        ("f(x, y); x = 1", [1, 0]),
        ("f(y, x); y = 1; x", [1, 0, 2]),
        ("x = y; y = z; z = 1", [2, 1, 0]),
        ("[x, y] = [1, x]", [0]),
        ("input[x] = y; y", [0, 1]),
        ("not x; x = 1", [1, 0]),
        ("y = [x | x]; x = 1", [1, 0]),
        ("every k, v in x { k; v }; x = 1", [2, 0, 1]),
    ],
)
def test_expressions_are_taken_when_they_are_ready(text: str, numbers: list[int]) -> None:
    assert ordered(text) == (numbers, set())


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("x", {"x"}),
        ("x = y", {"x", "y"}),
        ("[x] = [y]; y = f(x)", {"x", "y", "__local0__@"}),
        ("x = [y | y = x]", {"x"}),
        ("input with input as x", {"x"}),
        ("x = 1; y = [z | w]", {"w", "z"}),
    ],
)
def test_what_has_no_order_lacks_variables(text: str, missing: set[str]) -> None:
    assert ordered(text)[1] == missing


def test_what_is_bound_around_a_body_is_not_missing() -> None:
    assert ordered("x > 1", "x") == ([0], set())
    assert ordered("y = [z | z = x]", "x") == ([0], set())
