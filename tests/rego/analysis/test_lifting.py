"""Terms without calls, and without references in operands: the two grains of a body."""

from __future__ import annotations

import pytest

from doorward.rego.analysis.lifting import Origins
from doorward.rego.analysis.opa_diagnostics.flattening import Flattener
from doorward.rego.shared import Source
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Body,
    Call,
    Expr,
    Ref,
    Scalar,
    Var,
)
from doorward.rego.syntax.parser import parse_query


def text(term: object) -> str:
    """A term, short."""
    match term:
        case Var(name):
            return name.replace("__local", "").replace("__@", "")
        case Scalar(value):
            return str(value)
        case Ref(head, args):
            return ".".join(map(text, (head, *args)))
        case Call(operator, args):
            return f"{text(operator)}({', '.join(map(text, args))})"
        case Array(items):
            return f"[{', '.join(map(text, items))}]"
        case ArrayComprehension(head, body):
            return f"[{text(head)} | {'; '.join(texts(body))}]"
    raise AssertionError(term)


def texts(body: Body) -> list[str]:
    return [text(expr.term) for expr in body]


def query(source: str) -> Body:
    return parse_query(Source("", source))


def no_functions(_: Call) -> None:
    return None


@pytest.mark.parametrize(
    ("source", "calls", "operands"),
    [
        (
            'startswith(input.a, trim(input.b, "x"))',
            ["trim(input.b, x, 0)", "startswith(input.a, 0)"],
            ["eq(1, input.b)", "trim(1, x, 0)", "eq(2, input.a)", "startswith(2, 0)"],
        ),
        ("input.a[input.b]", ["input.a.input.b"], ["eq(0, input.b)", "input.a.0"]),
        ("input.a = [input.b]", ["eq(input.a, [input.b])"], ["eq(0, input.b)", "eq(input.a, [0])"]),
        (
            "f([g(x) | h(x[y])])",
            ["f([0 | h(x.y); g(x, 0)])"],
            ["eq(2, [0 | eq(1, x.y); h(1); g(x, 0)])", "f(2)"],
        ),
        ("some x in input.xs", ["eq(x, input.xs.0)"], ["eq(x, input.xs.0)"]),
        ("x == f(1)", ["f(1, 0)", "equal(x, 0)"], ["f(1, 0)", "equal(x, 0)"]),
    ],
)
def test_calls_come_first_and_operands_then(
    source: str, calls: list[str], operands: list[str]
) -> None:
    flattener = Flattener(no_functions, unify_equals=False)
    body = flattener.body(query(source))
    assert texts(body) == calls
    assert texts(flattener.with_operands(body)) == operands


def test_a_body_without_operands_to_bind_is_the_same_one() -> None:
    flattener = Flattener(no_functions, unify_equals=True)
    body = flattener.body(query('input.a == "x"; x = 1; data.b[x]'))
    again = flattener.with_operands(body)
    assert all(a is b for a, b in zip(body, again, strict=True))


def test_the_origin_of_each_part_is_the_expression_that_was_written() -> None:
    origins = Origins()
    written = query("f(g(1)); input.x = h(2)")
    body = Flattener(no_functions, unify_equals=True, origins=origins).body(written)
    parts = [origins.part_of(expr) for expr in body]
    assert [isinstance(each, Expr) and written.index(each) for each in parts] == [0, 0, 1, 1]
    assert origins.flat(written) is body
