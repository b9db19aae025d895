"""What `not` covers: the last step only. Each case is held against the steps written one by one."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from doorward.rego import UNDEFINED, CompileError, Engine, Environment
from doorward.rego.errors import EvalError

pytestmark = pytest.mark.long

CASES: Final[list[tuple[str, list[str], str]]] = [
    # the expression, what is asked before the negation, what is negated
    ("input.a", [], "input.a"),
    ("input.a == 1", [], "input.a == 1"),
    ("input.a = input.b", [], "input.a = input.b"),
    ("input", [], "input"),
    ("q", [], "q"),
    ("q == input.b", [], "q == input.b"),
    ("none == 1", [], "none == 1"),
    ('to_number("x")', [], 'to_number("x")'),
    ('g("x")', [], 'g("x")'),
    ("[y | some y in input.xs]", [], "[y | some y in input.xs]"),
    ("[y | some y in input.xs] == [1]", [], "[y | some y in input.xs] == [1]"),
    ('$"{input.a}" == "x"', [], '$"{input.a}" == "x"'),
    ("input.xs[0]", [], "input.xs[0]"),
    ("walk(1, [[], 1])", [], "walk(1, [[], 1])"),
    ('startswith(input.a, "x")', ["v0 := input.a"], 'startswith(v0, "x")'),
    ('startswith(q, "x")', ["v0 := q"], 'startswith(v0, "x")'),
    ('startswith("x", none)', ["v0 := none"], 'startswith("x", v0)'),
    ("g(input.a)", ["v0 := input.a"], "g(v0)"),
    ("g(input)", ["v0 := input"], "g(v0)"),
    ("g([input.a])", ["v0 := input.a"], "g([v0])"),
    ('g({"k": {input.a}})', ["v0 := input.a"], 'g({"k": {v0}})'),
    ("g({input.a: 1})", ["v0 := input.a"], "g({v0: 1})"),
    ("g(g(input.a))", ["v0 := g(input.a)"], "g(v0)"),
    ("g(to_number(input.a))", ["v0 := to_number(input.a)"], "g(v0)"),
    ("g([y | y := input.xs[_]])", [], "g([y | y := input.xs[_]])"),
    ("walk(input.a, [[], 1])", ["v0 := input.a"], "walk(v0, [[], 1])"),
    ("input.a != 1", ["v0 := input.a"], "v0 != 1"),
    ("input.n < input.m", ["v0 := input.n", "v1 := input.m"], "v0 < v1"),
    ("input.n + 1", ["v0 := input.n"], "v0 + 1"),
    ("(input.n + 1) * 2 == 4", ["v0 := (input.n + 1) * 2"], "v0 == 4"),
    ("input.n - input.m > 1", ["v0 := input.n - input.m"], "v0 > 1"),
    ("input.a in input.xs", ["v0 := input.a", "v1 := input.xs"], "v0 in v1"),
    ("0, input.a in input.xs", ["v0 := input.a", "v1 := input.xs"], "0, v0 in v1"),
    ('input.a in {"x", "y"}', ["v0 := input.a"], 'v0 in {"x", "y"}'),
    ("1 in none", ["v0 := none"], "1 in v0"),
    ('lower(input.a) == "x"', ["v0 := lower(input.a)"], 'v0 == "x"'),
    ('"x" == lower(input.a)', ["v0 := lower(input.a)"], '"x" == v0'),
    ("lower(input.a) == input.b", ["v0 := lower(input.a)"], "v0 == input.b"),
    ('to_number("x") == 1', ['v0 := to_number("x")'], "v0 == 1"),
    ("count([y | some y in input.xs]) == 1", ["v0 := count([y | some y in input.xs])"], "v0 == 1"),
    ("[input.a]", ["v0 := input.a"], "[v0]"),
    ("[input.a] == [1]", ["v0 := input.a"], "[v0] == [1]"),
    ('{"k": input.a} == {"k": 1}', ["v0 := input.a"], '{"k": v0} == {"k": 1}'),
    ("{input.a} == {1}", ["v0 := input.a"], "{v0} == {1}"),
    ("input.o[input.a]", ["v0 := input.a"], "input.o[v0]"),
    ("input.o[input.a] == 1", ["v0 := input.a"], "input.o[v0] == 1"),
    ("input.o[input.p[input.a]]", ["v0 := input.p[input.a]"], "input.o[v0]"),
    ("input.o[lower(input.a)]", ["v0 := lower(input.a)"], "input.o[v0]"),
    ("data.base.k[input.a].x", ["v0 := input.a"], "data.base.k[v0].x"),
    ("s[input.a]", ["v0 := input.a"], "s[v0]"),
    ("[1, input.a][0]", ["v0 := [1, input.a]"], "v0[0]"),
    ('{"k": input.a}.k == 1', ['v0 := {"k": input.a}'], "v0.k == 1"),
    ("object.get(input, input.a, 1)", ["v0 := input", "v1 := input.a"], "object.get(v0, v1, 1)"),
    ("g2(input.a, g(input.b))", ["v0 := g(input.b)", "v1 := input.a"], "g2(v1, v0)"),
    ("g2(g(input.xs[_]), input.a)", ["v0 := g(input.xs[_])", "v1 := input.a"], "g2(v0, v1)"),
    ("g(g(input.xs[i]))", ["v0 := g(input.xs[i])"], "g(v0)"),
]

RULES: Final = """package t

q := input.a

none := input.nothing

s contains x if some x in input.xs

g(x) := x if x != "no"

g2(x, y) := y if x

"""

CONSTRUCTS: Final[dict[str, str]] = {
    "body": "P if { BODY }",
    "after another": "P if { input; BODY }",
    "before another": "P if { BODY; input }",
    "else": "P := 1 if { input.never } else := 2 if { BODY } else := 3",
    "default": "default P := false\n\nP if { BODY }",
    "set": "P contains x if { some x in [1, 2]; BODY }",
    "object": "P[x] := 1 if { some x in [1, 2]; BODY }",
    "array comprehension": "P := [1 | BODY]",
    "set comprehension": "P := {x | some x in [1, 2]; BODY}",
    "every": "P if { every x in [1, 2] { x > 0; BODY } }",
    "every of nothing": "P if { every x in [] { x > 0; BODY } }",
    "function": "P_f(x) := x if { BODY }\n\nP := P_f(1)",
    "negated": "P_r if { BODY }\n\nP if { not P_r }",
    "template": 'P := $"{[1 | BODY]}"',
    "several rules": "P if { BODY }\n\nP if { input.b == 2 }",
    "either": "P if { { BODY } or input.b == 2 }",
    "both": "P if { { BODY } and input.b == 1 }",
}

WITHS: Final = ("", ' with input as {"a": "x", "xs": ["x"]}', " with input.a as input.b")


INPUTS: Final[list[Any]] = [
    {},
    {"a": 1, "b": 1, "n": 1, "m": 3, "xs": [1, 2], "o": {"1": 1}, "p": {}},
    {"a": "x", "b": "x", "n": 4, "m": "s", "xs": ["x"], "o": {"x": 1}, "p": {"x": "x"}},
    {"a": False, "b": 2, "n": "1", "m": 0, "xs": {}, "o": [0, 1], "p": {"x": "no"}},
    {"a": "no", "b": "no", "xs": ["no"], "o": {"no": False}},
    {"a": None, "b": None, "xs": None},
]

DATA: Final = {"base": {"k": {"x": {"x": 1}, "no": {"x": False}}}}
IMPORTS: Final = "import future.keywords.and\n\nimport future.keywords.or\n\n"


def answer(engine: Engine, value: Any, rule: str = "p", *, strict: bool = False) -> Any:
    try:
        return engine.prepare(f"data.t.{rule}", strict_builtin_errors=strict).value(value)
    except EvalError as error:
        return error.code, error.diagnostics[0].message


def test_what_always_has_a_value_is_never_negated() -> None:
    printed: list[str] = []
    environment = Environment(on_print=lambda text, _span: printed.append(text))
    rules = 'package t\n\np if not print("a")\n\nq if not $"{input.x}"\n'
    engine = Engine({"t.rego": rules}, environment=environment)
    assert answer(engine, {}) is UNDEFINED
    assert printed == ["a"]
    assert answer(engine, {}, "q") is UNDEFINED


def rule(construct: str, name: str, *steps: str) -> str:
    return CONSTRUCTS[construct].replace("BODY", "; ".join(steps)).replace("P", name)


def compared(construct: str) -> tuple[str, list[str]]:
    """A module with rules `a0`, `a1`, … that negate and `b0`, `b1`, … that take the steps one by
    one, and the names' endings with what they stand for."""
    texts = [RULES.replace("package t\n", f"package t\n\n{IMPORTS}")]
    names = []
    for number, ((expression, before, last), replaced) in enumerate(product(CASES, WITHS)):
        steps = [f"{step}{replaced}" for step in (*before, f"not {last}")]
        names.append(f"not {expression}{replaced}")
        texts.append(rule(construct, f"a{number}", names[-1]))
        texts.append(rule(construct, f"b{number}", *steps))
    return "\n\n".join(texts) + "\n", names


@pytest.mark.parametrize(
    ("construct", "traced"),
    [*((name, False) for name in CONSTRUCTS), ("body", True), ("every", True), ("set", True)],
)
def test_only_the_last_step_is_negated(construct: str, traced: bool) -> None:
    text, names = compared(construct)
    query = Engine({"p.rego": text}, DATA, traced=traced).prepare("data.t")
    for value in INPUTS:
        actual: Any = query.value(value)
        for number, name in enumerate(names):
            have, want = (actual.get(f"{side}{number}", UNDEFINED) for side in "ab")
            assert have == want, (name, value)


def test_errors_are_those_of_the_steps() -> None:
    text, names = compared("body")
    engine = Engine({"p.rego": text}, DATA)
    for value, (number, name) in product(INPUTS, enumerate(names)):
        have, want = (answer(engine, value, f"{side}{number}", strict=True) for side in "ab")
        assert have == want, (name, value)


QUERIES: Final = [
    # In queries `==` is a call like any other.
    ("not input.a == 1", ["v0 = input.a"], "v0 == 1"),
    ("not input.a = 1", [], "input.a = 1"),
    ("not input.a", [], "input.a"),
    ("not data.base.k[input.a]", ["v0 = input.a"], "data.base.k[v0]"),
    ("not lower(input.a) == input.b", ["v0 = lower(input.a)", "v1 = input.b"], "v0 == v1"),
    ('not startswith(input.a, "x")', ["v0 = input.a"], 'startswith(v0, "x")'),
]


@pytest.mark.parametrize(("query", "before", "last"), QUERIES)
def test_queries_negate_the_last_step(query: str, before: list[str], last: str) -> None:
    engine = Engine(data=DATA)
    negated, steps = engine.prepare(query), engine.prepare("; ".join([*before, f"not {last}"]))
    assert negated.variables == []
    for value in INPUTS:
        results = negated.results(value)
        assert results == [{}] * len(steps.results(value)), value
        assert negated.rows(value) == [(True,)] * len(results)
        assert negated.value(value) is (True if results else UNDEFINED)


@pytest.mark.parametrize("expression", [expression for expression, _, _ in CASES])
def test_with_the_import_all_of_it_is_negated(expression: str) -> None:
    rules = f"{RULES}r if {{ {expression} }}\n\np if {{ not r }}\n"
    imported = RULES.replace("t\n\n", "t\n\nimport future.keywords.not\n\n", 1)
    if "g(input.xs[" in expression:
        with pytest.raises(CompileError, match="is unsafe"):
            Engine({"p.rego": f"{imported}p if {{ not {expression} }}\n"})
        return
    wanted = Engine({"p.rego": rules}, DATA)
    texts = [f"{{ {expression} }}", *([expression] if expression[0] != "{" else [])]
    for text in texts:
        engine = Engine({"p.rego": f"{imported}p if {{ not {text} }}\n"}, DATA)
        for value in INPUTS:
            assert answer(engine, value) == answer(wanted, value), (text, value)


def test_the_import_of_all_keywords_brings_the_other_negation_in_v1_only() -> None:
    text = "package t\n\nimport future.keywords\n\np if not g(input.a)\n\ng(1) = true\n"
    assert Engine({"p.rego": text}).prepare("data.t.p").value({}) is True
    assert Engine({"p.rego": text}, v0=True).prepare("data.t.p").value({}) is UNDEFINED


@pytest.mark.parametrize("body", ["not {1}", "not {1, 2}", "not {x | x := 1}", "not {1 == 2}"])
def test_a_set_after_not_is_no_body(body: str) -> None:
    engine = Engine({"p.rego": f"package t\n\np if {body}\n"})
    assert engine.prepare("data.t.p").value() is UNDEFINED


@pytest.mark.parametrize("text", ['not {"k": input.a}.k', "not {}", 'not {"k": 1}', "not {1}[1]"])
def test_braces_are_terms_without_the_import(text: str) -> None:
    engine = Engine({"p.rego": f"package t\n\nimport future.keywords\n\np {{ {text} }}\n"}, v0=True)
    assert engine.prepare("data.t.p").value({"a": 1}) in (UNDEFINED, True)


@pytest.mark.parametrize(
    ("domain", "body", "input_", "want"),
    [
        ("input.xs", "startswith(x.a, `b`)", {}, UNDEFINED),
        ("input.xs", "not startswith(x.a, `b`)", {"xs": [{}]}, UNDEFINED),
        ("input.xs", "not startswith(x.a, `b`)", {"xs": [{"a": "c"}]}, True),
        ("input.xs", "not x.a", {"xs": [{}]}, True),
        ("input.xs", "x", {"xs": 1}, UNDEFINED),
        ("input.xs", "x", {"xs": []}, True),
        ("split(input.s, `,`)", "x != ``", {}, UNDEFINED),
        ("split(input.s, `,`)", "x != ``", {"s": 1}, UNDEFINED),
        ("[input.a, input.b]", "x", {"a": 1}, UNDEFINED),
        ("{y | some y in input.xs}", "not x", {}, True),
        ("input.xs[_]", "x == 1", {"xs": [[2], [1]]}, True),
        ("input.xs[_]", "x == 1", {"xs": [[2], [3]]}, UNDEFINED),
        ("input.xs", "some y in x; not y in input.ys", {"xs": [[1]]}, UNDEFINED),
        ("input.xs", "some y in x; not y in input.ys", {"xs": [[1]], "ys": []}, True),
        ("input.xs", "every y in x { not y in input.ys }", {"xs": [[1]]}, UNDEFINED),
        ("input.xs", "every y in x { not y in input.ys }", {"xs": [[]]}, True),
    ],
)
def test_every_needs_its_domain_and_each_body(
    domain: str, body: str, input_: Any, want: Any
) -> None:
    text = f"package t\n\np if every x in {domain} {{ {body} }}\n"
    for traced in (False, True):
        engine = Engine({"p.rego": text}, traced=traced)
        assert engine.prepare("data.t.p").value(input_) is want


def test_a_variable_that_only_a_negated_call_names_is_unsafe() -> None:
    for expression in ("f(input.xs[_])", "input.xs[_] == 1", "[input.xs[_]] == [1]", "f(x)"):
        with pytest.raises(CompileError, match=r"var (_|x) is unsafe"):
            Engine({"p.rego": f"package t\n\np if not {expression}\n\nf(y) if y\n"})


def test_answers_of_an_operand_are_walked_outside() -> None:
    """`not g(f(xs[_]))` holds if one item makes it hold."""
    text = "package t\n\np contains i if not g(f(input.xs[i]))\n\nf(x) := x\n\ng(x) if x > 1\n"
    query = Engine({"p.rego": text}).prepare("data.t.p")
    assert query.value({"xs": [1, 2, 0]}) == frozenset({0, 2})


def test_what_stands_in_an_operand_may_be_bound_by_another() -> None:
    text = "package t\n\np if not g2(f(i), f(input.xs[i]))\n\nf(x) := x\n\ng2(x, y) if x == y\n"
    query = Engine({"p.rego": text}).prepare("data.t.p")
    assert query.value({"xs": [0, 1]}) is UNDEFINED
    assert query.value({"xs": [0, 0]}) is True


def test_a_replacement_is_asked_once_and_outside() -> None:
    text = (
        "package t\n\np contains x if not f(input.a) with input as input.xs[x]\n\nf(y) if y > 1\n"
    )
    query = Engine({"p.rego": text}).prepare("data.t.p")
    assert query.value({"xs": [{"a": 1}, {"a": 2}, {}]}) == frozenset({0})


def test_an_operand_is_not_asked_before_it_is_replaced() -> None:
    """Several definitions share what they ask first, but not what a `with` replaces."""
    text = """package t

q := 1 if input.a

q := 2 if input.a

p if not f(q) with input as {"a": false}

p if input.b

f(x) if x > 5
"""
    query = Engine({"p.rego": text}).prepare("data.t.p")
    assert query.value({"a": True, "b": True}) is True


@pytest.mark.parametrize(
    "expression",
    [
        "not input.x >= f(1)",
        "not input.x in f(1)",
        "not g(input.x, f(1))",
        "not input.x[f(1)]",
        "not input.x >= f(1) with input.z as 1",
        "input.x >= f(1) or true",
        "not { input.x >= f(1) }",
    ],
)
def test_a_call_fails_before_an_operand_is_undefined(expression: str) -> None:
    conflict = "f(x) := x\n\nf(x) := x + 1\n\ng(x, y) := [x, y]\n"
    policy = f"package t\n\nimport future.keywords\n\np if {{ {expression} }}\n\n{conflict}"
    with pytest.raises(EvalError, match="functions must not produce multiple outputs"):
        Engine({"t.rego": policy}).prepare("data.t.p").value({})
    policy = policy.replace("f(x) := x\n", "f(x) := abs(input.y)\n").replace("f(x) := x + 1\n", "")
    query = Engine({"t.rego": policy}).prepare("data.t.p", strict_builtin_errors=True)
    with pytest.raises(EvalError, match="abs: operand 1 must be number"):
        query.value({"y": "a"})
