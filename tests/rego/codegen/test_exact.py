"""Errors are those of OPA's order: what it does not evaluate cannot fail, what it does may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.rego.codegen.writing import program_of

from doorward.rego import UNDEFINED, CompileError, Engine, Environment, EvalError, explain
from doorward.rego.codegen.exact import link_exactly
from doorward.rego.codegen.plan import Plan

CONFLICT = "f(_) := 1\n\nf(x) := 2 if x\n"
"""A function that fails for true."""


def answer(policy: str, query: str, input: Any = None, *, strict: bool = False) -> Any:
    """The value, UNDEFINED, or the code of the error."""
    engine = Engine({"t.rego": f"package t\n\n{CONFLICT}\n{policy}\n"})
    prepared = engine.prepare(query, strict_builtin_errors=strict)
    try:
        return prepared.value({} if input is None else input)
    except EvalError as error:
        return error.code


SKIPPED = {
    "a path that is not there": "p if { f(true); input.a }",
    "another constant": "p if { f(true); input.b == 1 }",
    "in another collection": "p if { f(true); input.b in [3, 4] }",
    "in a path that holds others": "p if { f(true); 7 in input.xs }",
    "an item": "p if { f(true); input.xs[_] == 7 }",
    "another array": 'p if { f(true); ["x", _] = input.xs }',
    "another glob": 'p if { f(true); glob.match("a/*", ["/"], input.c) }',
    "a variable that stands for the path": "p if { f(true); x := input.b; x == 1 }",
    "an operand that is not there": 'p if { f(true); startswith(input.a, "x") }',
    "an operand of a negation": 'p if { f(true); not startswith(input.a, "x") }',
    "the first of a chain": "p := 1 if { f(true); input.a } else := UNDEFINED if input.a",
    "base data": "p if { f(true); data.none }",
}
EVALUATED = {
    "the same constant": "p if { f(true); input.b == 2; 1 == 2 }",
    "an object": 'p if { f(true); input.b == {"x": 1} }',
    "a path that walks": "p if { f(true); some x; input.b[x][_] == 1 }",
    "another comparison": "p if { f(true); input.b < 1 }",
    "with": "p if { f(true); input.a with input.c as 1 }",
    "a negation": "p if { f(true); not input.b }",
    "one of two constants": "p if { f(true); input.b == 1; input.b == 2 }",
    "a rule": "p if { f(true); q }\n\nq if input.a",
}
INPUT = {"b": 2, "xs": [1, "y"], "c": "b/c"}


@pytest.mark.parametrize("policy", SKIPPED.values(), ids=SKIPPED)
def test_a_rule_that_the_index_leaves_out_cannot_fail(policy: str) -> None:
    policy = policy.replace("UNDEFINED", "3")
    assert answer(policy, "data.t.p", INPUT) is UNDEFINED


@pytest.mark.parametrize("policy", EVALUATED.values(), ids=EVALUATED)
def test_a_rule_that_the_index_leaves_in_can_fail(policy: str) -> None:
    assert answer(policy, "data.t.p", INPUT) == "eval_conflict_error"


def test_alternatives_count_together() -> None:
    policy = """import future.keywords

p if { f(true); input.a or input.b == 1 }

q if { f(true); input.a or input.b == 2 }

r if { f(true); input.c == "b/c" and input.b == 1 }
"""
    engine = Engine({"t.rego": f"package t\n\n{policy}\n{CONFLICT}"})
    assert engine.prepare("data.t.p").value(INPUT) is UNDEFINED
    assert engine.prepare("data.t.r").value(INPUT) is UNDEFINED
    with pytest.raises(EvalError, match="functions must not"):
        engine.prepare("data.t.q").value(INPUT)


def test_rules_are_evaluated_in_the_order_of_the_index_until_one_is_enough() -> None:
    # What compares nothing comes first; all that are left say the same.
    policy = "p if { input.b == 2; f(true) }\n\np if 1 == 1\n\np := 3 if { input.b == 3 }"
    assert answer(policy, "data.t.p", INPUT) is True
    assert answer(policy, "data.t.p", {"b": 3}) == "eval_conflict_error"


def test_operands_are_evaluated_before_what_reads_them() -> None:
    policy = 'p if input.a[f(true)]\n\nq if endswith(input.a, trim_prefix("a", input.b))'
    assert answer(policy, "data.t.q", INPUT) is UNDEFINED
    strict = "s := [1 | endswith(input.a, trim(input.c, input.b))]"
    assert answer(strict, "data.t.s", INPUT, strict=True) == "eval_type_error"
    assert answer(strict, "data.t.s", INPUT) == []


@pytest.mark.parametrize(
    "rule",
    [
        "q[k] := v if { some k in [1, 2]; v := f(k == 1) }",
        "q.b.c := 3\n\nq.a[k] := v if { some k in [1, 2]; v := f(k == 1) }\n\nq.d := f(true)",
        "q[k] := v if { some k in [1, 2]; some v in [1, 2]; k == 1 }\n\nq[2] := f(false)",
    ],
)
def test_another_key_cannot_fail_a_lookup(rule: str) -> None:
    for query in ("data.t.q[2]", "data.t.q.a[2]", "data.t.q[x] = y; x = 2"):
        if ("q.a" in rule) is not ("q.a" in query) or ";" in query:
            continue
        assert answer(rule, query) == 1
        assert answer(rule, query.replace("2]", "1]")) == "eval_conflict_error"
    assert answer(rule, "data.t.q") == "eval_conflict_error"


def test_errors_of_built_ins_may_be_skipped_too() -> None:
    policy = (
        "p if { to_number(input.c); input.b == 1 }\n\nq if { to_number(input.c); input.b == 2 }"
    )
    assert answer(policy, "data.t.p", INPUT, strict=True) is UNDEFINED
    assert answer(policy, "data.t.q", INPUT, strict=True) == "eval_builtin_error"


def test_a_default_without_a_value_is_true() -> None:
    assert answer("default p\n\np := 1 if input.a", "data.t.p") is True
    assert answer("default p\n\np := 1 if input.a", "data.t.p", strict=True) is True


def test_what_is_printed_is_printed_once() -> None:
    printed: list[str] = []
    environment = Environment(on_print=lambda text, _: printed.append(text))
    policy = "package t\n\np if { print(1); f(true) }\n"
    engine = Engine({"t.rego": f"{policy}\n{CONFLICT}"}, environment=environment)
    with pytest.raises(EvalError):
        engine.prepare("data.t.p").value({})
    assert printed == ["1"]
    with pytest.raises(EvalError):
        engine.prepare("data.t.p", strict_builtin_errors=True).value({})
    assert printed == ["1", "1"]


MANY = "\n".join(
    [f'q[k] := v if {{ input.n == "{n}"; some [k, v] in input.pairs }}' for n in range(9)]
)


def policies() -> Iterator[str]:
    yield "q[k] := v if some [k, v] in input.pairs"
    yield "q[p[0]] := p[1] if some p in input.pairs"
    yield MANY  # a table chooses among the definitions
    yield "q[k] := v if { some [k, v] in input.pairs; every x in [1] { x == 1 } }\n\nq.z.z := 1"


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("policy", list(policies()), ids=range(4))
def test_every_kind_of_rule_answers_at_keys_without_a_conflict(policy: str, traced: bool) -> None:
    query = "[x | some k in input.keys; x := data.t.q[k]]"
    engine = Engine({"t.rego": f"package t\n\n{policy}\n"}, traced=traced)
    input = {"n": "7", "pairs": [["a", 1], ["b", 2], ["b", 3], ["c", 4]], "keys": ["a", "c", "d"]}
    assert engine.prepare(query).value(input) == [1, 4]
    assert engine.prepare("data.t.q.c").value(input) == 4
    for conflicting in ("data.t.q.b", "data.t.q", "count(data.t.q)", "data.t.q[_] == 1"):
        with pytest.raises(EvalError, match=re.escape("object keys must be unique")):
            engine.prepare(conflicting).results(input)
    whole = {**input, "pairs": [["a", 1], ["c", 4]]}
    assert engine.prepare("data.t.q.a").value(whole) == 1


def test_a_program_is_linked_before_any_of_its_functions_is_written() -> None:
    plan = Plan(program_of("p := 1 if input.x\n\nf(x) := x").callees, exact=True)
    linked = link_exactly(plan)
    assert {"data.t.p", "data.t.f"} <= linked.namespace.keys()
    assert not linked.namespace["data.t.p"].functions
    node = linked.root.find(["t", "p"])
    assert node is not None
    assert node.evaluate is linked.namespace["data.t.p"]


CIRCULAR = """package t

total[name] := price if some name, price in input.prices

total.sum := total.apples + total.pears

total.twice := total.sum * 2

kinds[kind] contains item.name if {
	some item in input.items
	kind := item.kind
}

kinds.all contains name if some name in kinds.fruit

kinds.all contains name if some name in kinds.drink

p := [total, total.twice, kinds.all, kinds]
"""
"""Documents that read themselves, though no rule does."""


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("traced", [False, True])
def test_a_document_may_read_itself_at_other_keys(traced: bool, strict: bool) -> None:
    engine = Engine({"t.rego": CIRCULAR}, traced=traced)
    items = [{"kind": "fruit", "name": "pear"}, {"kind": "drink", "name": "tea"}]
    input_ = {"prices": {"apples": 2, "pears": 3}, "items": items}
    query = engine.prepare("x := data.t.p", strict_builtin_errors=strict)
    total = {"apples": 2, "pears": 3, "sum": 5, "twice": 10}
    kinds = {"all": ["pear", "tea"], "drink": ["tea"], "fruit": ["pear"]}
    assert query.results(input_) == [{"x": [total, 10, ["pear", "tea"], kinds]}]
    (row,) = engine.prepare("x := data.t.total[input.key]").results({**input_, "key": "sum"})
    assert row == {"x": 5}
    assert engine.prepare("data.t.total.sum").value({"prices": {"pears": 1}}) is UNDEFINED
    assert "data.t.total" in "".join(engine.emit().values())


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        ("p[x] := 1 if x := input.x\n\np.a := p[input.y]", "data.t.p.a -> data.t.p.a"),
        ("p[x].y := 1 if x := p.a.z", "data.t.p[x].y -> data.t.p[x].y"),
        ("p[x] := 1 if x := q\n\nq := p.b", "data.t.p[x] -> data.t.q -> data.t.p[x]"),
    ],
)
def test_a_rule_that_comes_to_read_itself_is_refused(rules: str, path: str) -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"t.rego": f"package t\n\n{rules}\n"})
    assert f"is recursive: {path}" in str(caught.value)


def test_a_document_that_asks_itself_without_end_is_an_error() -> None:
    # OPA compiles it as well, since no rule reads a rule of its own prefix, and then panics.
    rules = "p[x] := y if some x, y in input.o\n\np.a.a := p[_].c\n"
    query = Engine({"t.rego": f"package t\n\n{rules}"}).prepare("data.t.p")
    with pytest.raises(EvalError, match="nests too deeply"):
        query.value({"o": {"b": 1}})


def test_a_document_that_reads_itself_is_explained() -> None:
    engine = Engine({"t.rego": CIRCULAR})
    text = explain(engine, "data.t.total.twice", {"prices": {"apples": 1, "pears": 2}}).text(
        full=True
    )
    assert 'data.t.total is {"sum": 3}' in text
    assert "`total.sum := total.apples + total.pears` holds" in text


@pytest.mark.parametrize("pattern", ["abs(input.a)", "[abs(input.a), _]", "1 in abs(input.a)"])
def test_a_call_in_what_some_takes_apart_fails_before_the_domain_is_undefined(pattern: str) -> None:
    policy = f"package t\n\np if some {pattern} in input.missing\n"
    query = Engine({"t.rego": policy}).prepare("data.t.p", strict_builtin_errors=True)
    with pytest.raises(EvalError, match="abs: operand 1 must be number but got string"):
        query.value({"a": "x"})


@pytest.mark.parametrize(
    ("rules", "query", "expected"),
    [
        ("s contains 2 if f(true)", "data.t.s[0]", UNDEFINED),
        ("s contains 2 if f(true)", "data.t.s[2]", "eval_conflict_error"),
        ("s contains 2 if f(true)\n\ns contains input.b", "k := 3; data.t.s[k]", True),
        ("s contains 2 if f(true)\n\ns contains input.b", "data.t.s[_]", "eval_conflict_error"),
        ("s.a contains 2 if f(true)\n\ns.a contains 3", "data.t.s.a[3]", True),
        ('s[x] contains 2 if { x := "a"; f(true) }\n\ns.a contains 3', "data.t.s.a[3]", True),
        ("s contains [1, x] if { x := input.b; f(true) }", "data.t.s[[2, 3]]", UNDEFINED),
        ("s contains 2 if f(true)\n\ns contains 3", "3 in data.t.s", "eval_conflict_error"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_lookup_in_a_set_evaluates_the_rules_of_that_member(
    rules: str, query: str, expected: Any, strict: bool
) -> None:
    policy = f"{rules}\n\np if {{ {query} }}\n"
    assert answer(policy, "data.t.p", {"b": 3}, strict=strict) == expected


@pytest.mark.parametrize(
    ("rules", "query", "is_evaluated"),
    [
        ("r.b if true\n\nr[{}] if startswith(input, `b`)", "data.t.r.k", True),
        ("r[[1]] if startswith(input, `b`)", "data.t.r[[2]]", True),
        ("r[[x]] if { x := 1; startswith(input, `b`) }", "data.t.r[[2]]", True),
        ("r[[1]][2] := 3 if startswith(input, `b`)", "data.t.r[[2]][3]", False),
        ("r[1] if startswith(input, `b`)", "data.t.r[2]", False),
        ("r contains [1] if startswith(input, `b`)", "data.t.r[[2]]", False),
    ],
)
def test_a_key_that_is_a_collection_is_compared_behind_the_body(
    rules: str, query: str, is_evaluated: bool
) -> None:
    expected = "eval_type_error" if is_evaluated else UNDEFINED
    assert answer(rules, query, {"b": 3}, strict=True) == expected
