"""Bodies in steps, as OPA takes them: seen by what codegen makes of them."""

from __future__ import annotations

import pytest

from doorward.rego import Engine, EvalError
from doorward.rego.analysis.body_order import order_steps
from doorward.rego.analysis.evaluation_order import is_step, query_in_steps, rule_in_steps
from doorward.rego.analysis.negation import Negations
from doorward.rego.codegen.plan import Plan
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Call, Every, Expr, Ref, Scalar, Term, Var
from doorward.rego.syntax.parser import parse_module, parse_query


def text(term: Term) -> str:
    """A term, short."""
    match term:
        case Var(name):
            return name.removesuffix("__@operand").partition("@")[0]
        case Scalar(value):
            return str(value)
        case Ref(head, args):
            return ".".join(map(text, (head, *args)))
        case Call(operator, args):
            return f"{text(operator)}({', '.join(map(text, args))})"
    return type(term).__name__


def exact_plan(engine: Engine) -> Plan:
    exact = engine.policies.code.exact()
    assert exact is not None
    return exact.plan


def steps(body: str, module: str = "") -> list[str]:
    engine = Engine({"t.rego": f"package t\n\n{module}\n\np if {{ {body} }}\n"})
    plan = exact_plan(engine)
    rule = plan.root.children["t"].children["p"].definitions[0].rule
    return [shown(expr) for expr in rule_in_steps(rule, plan.callees).body]


def shown(expr: Expr) -> str:
    assert not isinstance(expr.term, Every)
    name = "not " if expr.negated else ""
    return name + text(expr.term)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("input.a == 1", ["equal(input.a, 1)"]),
        (
            "startswith(input.a, lower(input.b))",
            [
                "eq(__step1, input.b)",
                "eq(__step0, lower(__step1))",
                "eq(__step2, input.a)",
                "startswith(__step2, __step0)",
            ],
        ),
        ("input.a[input.b]", ["eq(__step0, input.b)", "input.a.__step0"]),
        ("not f(input.a)", ["eq(__negated0, input.a)", "not data.t.f(__negated0)"]),
        (
            # What is negated binds nothing, though its reference is read before it.
            "not f(input.a[n]); n = data.t.k",
            ["eq(n, data.t.k)", "eq(__negated0, input.a.n)", "not data.t.f(__negated0)"],
        ),
        (
            "not f(lower(input.a[n]))",
            [
                "eq(__step1, input.a.n)",
                "eq(__step0, lower(__step1))",
                "eq(__local0, __step0)",
                "not data.t.f(__local0)",
            ],
        ),
        ("print(input.a)", ["print(input.a)"]),
        (
            "count([1 | input.a]) == 1",
            [
                "eq(__step1, ArrayComprehension)",
                "eq(__step0, count(__step1))",
                "equal(__step0, 1)",
            ],
        ),
        (
            "x = input.xs[i]; i == f(i)",
            ["eq(x, input.xs.i)", "eq(__step0, data.t.f(i))", "equal(i, __step0)"],
        ),
    ],
)
def test_operands_are_steps_before_their_expression(body: str, want: list[str]) -> None:
    assert steps(body, "f(x) := x\n\nk := 1") == want


def test_an_operand_in_a_template_is_read_before_the_rule_it_stands_in() -> None:
    """Nothing is read at an undefined key: the conflict in `r` never comes up."""
    text = """package t

f(x) := 1

f(x) := x

r contains f("A")

p contains $"<{r[input.a]}>"

q := $"{r}"
"""
    engine = Engine({"t.rego": text})
    assert engine.prepare("data.t.p").value({}) == {"<<undefined>>"}
    with pytest.raises(EvalError, match="multiple outputs"):
        engine.prepare("data.t.q").value({})


def test_a_template_that_reads_another_through_a_variable_has_a_value() -> None:
    text = 'package t\n\np := x if { x := $"{y}"; y = z; z = $"{1}" }\n'
    for strict in (False, True):
        query = Engine({"t.rego": text}).prepare("data.t.p", strict_builtin_errors=strict)
        assert query.value() == "1"


def test_added_steps_of_a_query_are_known() -> None:
    engine = Engine()
    query = engine.prepare("x := input.a; f = lower(input.b); f == x")
    body = query_in_steps(query.body, exact_plan(engine).callees)
    assert [expr for expr in body if not is_step(expr)] != list(body)
    assert len([expr for expr in body if not is_step(expr)]) == 3
    rows = engine.prepare("x := lower(input.b); x == 1", strict_builtin_errors=True)
    assert rows.rows({"b": "B"}) == [("b", True, False)]


def test_what_has_no_order_stays_as_it_is() -> None:
    callees = exact_plan(Engine({"t.rego": "package t"})).callees
    body = parse_query(Source("", "x > 1; startswith(y, input.z)"))
    assert query_in_steps(body, callees) is body
    (rule,) = parse_module(Source("t.rego", "package t\n\np if startswith(x, input.z)\n")).rules
    assert rule_in_steps(rule, callees) == rule
    assert order_steps(body, (), callees, Negations(in_query=True)) is None
    assert order_steps(body, ("x", "y"), callees, Negations(in_query=True)) == body


@pytest.mark.parametrize(
    "query", ["not count(input.x) = 3", "count(input.x) = 3", "count([1]) == 1"]
)
def test_an_equation_with_a_result_is_no_step(query: str) -> None:
    engine = Engine({"t.rego": "package t"})
    body = engine.prepare(query).body
    steps = query_in_steps(body, exact_plan(engine).callees)
    assert [expr.span for expr in steps if not is_step(expr)] == [expr.span for expr in body]
