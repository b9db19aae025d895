"""Partial evaluation as a caller sees it: residual, support, bounds and refusals."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.rego import (
    UNDEFINED,
    CompileError,
    Engine,
    EvalError,
    Partial,
    PartialOptions,
    from_python,
    policies,
    query_text,
)
from doorward.rego.partial import evaluate
from doorward.rego.partial.search import Search
from doorward.search.patience import has_result

ROLES = """package authz

allow if input.user.admin

allow if {
	some role in data.roles[input.user.name]
	some grant in data.grants[role]
	grant.action == input.action
	grant.kind == input.resource.kind
	input.resource.owner == input.user.name
}
"""
DATA = {
    "roles": {"ann": ["editor"]},
    "grants": {"editor": [{"action": "read", "kind": "doc"}, {"action": "write", "kind": "doc"}]},
}
INPUT = {"user": {"name": "ann", "admin": False}, "action": "read"}


def with_support(engine: Engine, modules: dict[str, str], left: Partial) -> Engine:
    """The engine of these modules and the support modules of a residual."""
    support = {f"s{n}.rego": text for n, text in enumerate(left.support_texts)}
    return engine.with_modules({**modules, **support})


def test_what_is_known_is_evaluated_away() -> None:
    engine = Engine({"authz.rego": ROLES}, data=DATA)
    partial = engine.partial("data.authz.allow", ["input.resource"], INPUT)
    assert partial.query_texts == ('"doc" = input.resource.kind; "ann" = input.resource.owner',)
    assert partial.support_texts == ()


def test_a_prepared_question_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"authz.rego": ROLES}, data=DATA)
    question = engine.prepare_partial("data.authz.allow", ["input.resource"])
    for module, name in COMPILING:
        monkeypatch.setattr(module, name, _refuse)
    assert question.evaluate(INPUT).query_texts == (
        '"doc" = input.resource.kind; "ann" = input.resource.owner',
    )
    again = engine.partial("data.authz.allow", ["input.resource"], INPUT)
    assert again.query_texts == question.evaluate(INPUT).query_texts


COMPILING: list[tuple[object, str]] = [
    (query_text, "parse_query"),
    (policies, "check_query"),
    (policies, "resolve_query"),
    (evaluate, "lower_query"),
]


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("the query is compiled again")


def test_few_questions_are_kept_and_none_that_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "MAX_QUESTIONS", 2)
    engine = Engine({"authz.rego": ROLES}, data=DATA)
    long = f'data.authz.allow; input.x != "{"a" * policies.LONGEST_QUESTION}"'
    for query in ("input.a", "input.b", "input.c", long):
        engine.prepare_partial(query)
    for module, name in COMPILING:
        monkeypatch.setattr(module, name, _refuse)
    engine.prepare_partial("input.c")
    for query in ("input.a", "input.b", long):
        with pytest.raises(AssertionError, match="compiled again"):
            engine.prepare_partial(query)


def test_what_is_kept_of_bodies_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MAX_UNKNOWNS", 1)
    monkeypatch.setattr(evaluate, "MAX_SHAPES", 1)
    rules = "package a\n\np if { startswith(input.x, data.n); endswith(input.y, data.n); f }\n\n"
    rules += "f if { contains(input.z, data.n); 3 > input.y }\n"
    engine = Engine({"a.rego": rules}, {"n": "a"})
    residual = 'startswith(input.x, "a"); endswith(input.y, "a"); contains(input.z, "a")'
    for unknowns in (["input"], ["input.x", "input.y", "input.z"], ["input"]):
        (text,) = engine.partial("data.a.p", unknowns, {"w": 1}).query_texts
        assert text == f"{residual}; gt(3, input.y)"


@pytest.mark.parametrize("options", [{"max_items": 10}, {"marked": True}], ids=str)
def test_residuals_are_the_same_with_options_of_decisions(options: Any) -> None:
    rules = "package a\n\np if count([1 | some x in numbers.range(1, 100)]) == input.x\n"
    engine = Engine({"a.rego": rules}, **options)
    assert engine.partial("data.a.p").query_texts == ("100 = input.x",)


def test_a_prepared_question_has_options_of_its_own() -> None:
    engine = Engine({"authz.rego": ROLES}, data=DATA)
    ask = functools.partial(engine.prepare_partial, "data.authz.allow", ["input.resource"])
    inlined = ask().evaluate(INPUT)
    referred = ask(PartialOptions(disable_inlining=("data.authz.allow",))).evaluate(INPUT)
    assert inlined.query_texts != referred.query_texts
    assert referred.query_texts == ("data.partial.authz.allow",)


def test_a_question_that_is_not_valid_is_refused_when_it_is_prepared() -> None:
    with pytest.raises(ValueError, match="not a name"):
        Engine().prepare_partial("input.x", options=PartialOptions(namespace="a.b"))
    with pytest.raises(CompileError):
        Engine().prepare_partial("x > 1")


def test_no_query_is_never_true_and_an_empty_one_always() -> None:
    engine = Engine({"authz.rego": ROLES}, data=DATA)
    nobody = {"user": {"name": "eve", "admin": False}, "action": "read"}
    assert engine.partial("data.authz.allow", ["input.resource"], nobody).queries == ()
    admin = {"user": {"name": "eve", "admin": True}, "action": "read"}
    assert engine.partial("data.authz.allow", ["input.resource"], admin).query_texts == ("",)


def test_defaults_need_support() -> None:
    engine = Engine({"a.rego": "package a\n\ndefault p := false\n\np if input.x == 1\n"})
    partial = engine.partial("data.a.p = x")
    assert partial.query_texts == ("data.partial.a.p = x",)
    assert partial.support_texts == (
        "package partial.a\n\ndefault p := false\np := true if { input.x = 1 }\n",
    )


def test_a_set_whose_rules_never_hold_is_empty_and_not_undefined() -> None:
    """By its types the body of the one rule never holds. OPA refers to the set in the support all
    the same, where it has no rule: undefined, of which `every` and `count` make something else."""
    policy = """package p

allow if count(members) == 0

members contains 1 if {
	size := count(input.names)
	size == input.flag
}
"""
    engine = Engine({"p.rego": policy})
    known = {"flag": False}
    partial = engine.partial("data.p.allow", ["input.names"], known)
    assert (partial.query_texts, partial.support_texts) == (("count(set(), 0)",), ())
    assert engine.prepare("data.p.allow").value({**known, "names": ["a"]}) is True


@pytest.mark.parametrize("condition", ["input.x == 1", "input.y == 1", "f"])
def test_what_is_negated_twice_keeps_its_replacement(condition: str) -> None:
    # With `input.z` undefined the replacement has no value, and both negations are as before it.
    policy = f"""package p

f if input.y == 1
inner if {{ not {condition} with input.y as input.z }}
outer if {{ not inner }}
"""
    engine = Engine({"p.rego": policy})
    left = engine.partial("data.p.outer", ["input"])
    both = with_support(engine, {"p.rego": policy}, left)
    queries = [both.prepare(text) for text in left.query_texts]
    for document in ({}, {"y": 1}, {"z": 1}, {"z": 2, "x": 1}, {"x": 1}, {"y": 1, "z": 2}):
        holds = engine.prepare("data.p.outer").answer(document) is True
        assert any(has_result(query, document, PATIENCE) for query in queries) is holds, document


def test_a_negated_reference_stays_asked_for() -> None:
    # OPA leaves `not input.x = 1`, which holds where input.x is undefined.
    engine = Engine({"a.rego": "package a\n\np if { x = input.x; not q[x] }\n\nq contains 1\n"})
    (text,) = engine.partial("data.a.p").query_texts
    assert "= input.x" in text.replace("not input.x = 1", "")


@pytest.mark.parametrize("path", ["inputs", "input[x]", "1", "input.", "x.y", "input; data", ""])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"path below input or data|failed to parse term"):
        Engine().partial("input.x", [path])


@pytest.mark.long
def test_size_and_time_are_bounded() -> None:
    rules = "".join(f"p if input.a{n} == 1\n" for n in range(8))
    body = "; ".join("p" for _ in range(12))
    engine = Engine({"a.rego": f"package a\n\n{rules}\nall if {{ {body} }}\n"})
    with pytest.raises(EvalError, match="more than 10000 expressions"):
        engine.partial("data.a.all", max_size=10_000)
    with pytest.raises(EvalError, match="cancelled"):
        engine.partial("data.a.all", deadline=0.2, max_size=10**9)


def test_deep_recursion_is_an_error() -> None:
    chain = "".join(f"p{n} if p{n + 1}\n" for n in range(400))
    engine = Engine({"a.rego": f"package a\n\n{chain}p400 if input.x\n"})
    with pytest.raises(EvalError, match="too deeply"):
        engine.partial("data.a.p0")


@pytest.mark.long
@pytest.mark.parametrize("first", ["1", "input.x"])
@pytest.mark.parametrize("pair", ["[x{0}, x{0}]", '{{"a": x{0}, "b": x{0}}}'])
@pytest.mark.parametrize("query", ["input.a == x60", "not input.a == x60", "input.a"])
def test_values_that_share_their_parts_are_bounded(first: str, pair: str, query: str) -> None:
    doubled = "; ".join(f"x{n + 1} := {pair.format(n)}" for n in range(60))
    policy = f"package a\n\nall := x60 if {{ x0 := {first}; {doubled}; {query} }}\n"
    engine = Engine({"a.rego": policy})
    with pytest.raises(EvalError, match="too large"):
        engine.partial("x = data.a.all", deadline=PATIENCE)


def test_a_negated_equation_of_different_types_always_holds() -> None:
    # It never holds, so its body was taken for one that never does, as in OPA.
    policy = (
        "package a\n\np if { not data.e == count(s) }\n\ns contains 2\n\n"
        "s contains x if { some x in data.d; input.v }\n"
    )
    engine = Engine({"a.rego": policy}, data={"e": ["a"], "d": True})
    assert engine.prepare("data.a.p").value({}) is True
    partial = engine.partial("data.a.p")
    assert len(partial.queries) == 1
    modules = {"a.rego": policy, "s.rego": partial.support_texts[0]}
    assert engine.with_modules(modules).prepare(partial.query_texts[0]).results({})


def test_known_data_is_what_with_puts_there() -> None:
    engine = Engine(data={"a": {"b": 2, "c": 1}})
    for query, residuals in {
        "input.x = data.a with data.a.b as 5": ['input.x = {"b": 5, "c": 1}'],
        "input.x = data.a.b with data.a.b as 5": ["input.x = 5"],
        "input.x = data.a.b with data.a as {}": [],
    }.items():
        texts = engine.partial(query).query_texts
        assert [text.split(" with ")[0] for text in texts] == residuals


def test_rules_of_the_support_are_those_of_what_is_replaced() -> None:
    # OPA makes `q` once, with the first `input.k`, and its residual holds.
    policy = """package a

e := 1 if input.u == 1
else := 2

q if {
	not data.e >= input.k
	not input.v = e
}

f(x) if {
	x >= input.k
	input.u
}

p if {
	q with data.g as true
	q with input.k as false
}

r if {
	f(input.u) with data.g as true
	not f(input.u) with input.k as false
}
"""
    known = {"k": "b", "v": 3}
    engine = Engine({"a.rego": policy}, data={"e": 1})
    for query, unknown in (("data.a.p", 1), ("data.a.r", "c")):
        partial = engine.partial(query, ["input.u"], known, shallow=True)
        both = with_support(engine, {"a.rego": policy}, partial)
        input = {**known, "u": unknown}
        assert not engine.prepare(query).results(input)
        assert not any(both.prepare(text).results(input) for text in partial.query_texts)


def test_a_function_that_replaces_another_reads_rules_without_the_replacement() -> None:
    policy = """package a

f(x) := x

r := f(2)

g(x) := r + x

q := [r, f(1)]

p := v if v := q with f as g
"""
    engine = Engine({"a.rego": policy})
    assert engine.partial("data.a.p = x", ["input"]).query_texts == ("x = [4, 3]",)
    assert engine.prepare("data.a.p").value({}) == [4, 3]


def test_a_mock_that_is_left_early_takes_no_other_with_it() -> None:
    # `not` wants one solution of `f`, and leaves what stands in for it half-way.
    policy = """package a

f(x) := x

g(x) := 0

q if not f(1)

p if {
	not q with f as g
	f(4) == 4
	input.u
}
"""
    engine = Engine({"a.rego": policy})
    assert engine.partial("data.a.p", ["input.u"]).query_texts == ("input.u",)


def test_an_object_with_rules_below_it_stays_in_the_policy() -> None:
    # As a package of the support, which is there without a member, `r.w` would hold.
    policy = """package a

r[k].z := v if some k, v in input.k

r.w.y := 1 if input.u.b

p if r.w
"""
    engine = Engine({"a.rego": policy})
    partial = engine.partial("data.a.p", ["input.u"], {"k": {}}, shallow=True)
    both = with_support(engine, {"a.rego": policy}, partial)
    for input, holds in (({"k": {}, "u": {}}, False), ({"k": {}, "u": {"b": 2}}, True)):
        assert bool(engine.prepare("data.a.p").results(input)) is holds
        assert any(bool(both.prepare(q).results(input)) for q in partial.query_texts) is holds


def test_a_function_below_a_package_that_with_replaces_stays_a_function() -> None:
    """The target of `with` is not inlined: in place, its rules would be read without it."""
    engine = Engine(
        {
            "f.rego": "package f\n\nallow if h with data.g as {}\n\nh if data.g.same(input.u)\n",
            "g.rego": "package g\n\nsame(x) if x == 3\n",
        }
    )
    left = engine.partial("data.f.allow", ["input.u"])
    assert any("h := true if { data.partial.g.same(input.u) }" in t for t in left.support_texts)
    assert any(t.startswith("package partial.g\n\nsame(") for t in left.support_texts)


@pytest.mark.parametrize(
    ("body", "residual"),
    [
        ("{input.a: 1}.x == 1", '"x" = input.a'),
        ('{"x", input.a}.y', '__local0__1 = {"x", input.a}; __local0__1.y'),
        ('{input.a: 1} == {"x": 1}', '{input.a: 1} = {"x": 1}'),
        ('{input.a: 1, input.b: 2} == {"x": 2}', '{input.a: 1, input.b: 2} = {"x": 2}'),
    ],
)
def test_a_key_that_is_not_known_may_be_any(body: str, residual: str) -> None:
    engine = Engine({"p.rego": f"package p\n\nallow if {{ {body} }}\n"})
    assert engine.partial("data.p.allow", ["input"]).query_texts == (residual,)


def test_what_is_wrong_in_its_types_inside_a_comprehension_leaves_it_empty() -> None:
    policy = "package p\n\nimport future.keywords.not\n\nallow if not startswith(input.n % 2, `a`)"
    engine = Engine({"p.rego": policy})
    (residual,) = engine.partial("data.p.allow", ["input"]).query_texts
    assert residual.startswith("[] = [true | ")
    denied = "package p\n\nimport future.keywords.not\n\nallow if not startswith(3, `a`)\n"
    assert Engine({"p.rego": denied}).partial("data.p.allow", ["input"]).query_texts == ("",)


@pytest.mark.parametrize(
    ("body", "residual"),
    [
        ("every x in input.xs { lower(x) == `a` with lower as upper }", "with lower as upper"),
        ("every x in input.xs { f(x) == `a` with f as strings.reverse }", "as strings.reverse"),
        ("ys := [y | y := lower(input.x) with lower as upper]; ys == [`A`]", "with lower as upper"),
    ],
)
def test_the_name_of_a_built_in_in_a_closure_stays(body: str, residual: str) -> None:
    engine = Engine({"p.rego": f"package p\n\nallow if {{ {body} }}\n\nf(x) := x\n"})
    (text,) = engine.partial("data.p.allow = x", ["input"]).query_texts
    assert residual in text
    for given in ({"x": "a", "xs": ["a"]}, {"x": "a", "xs": []}, {"x": "b", "xs": ["A"]}):
        expected = engine.prepare("data.p.allow = x").results(from_python(given))
        assert engine.prepare(text).results(from_python(given)) == expected


@pytest.mark.parametrize("rule", ["q.b[input] := 1", "q.b[data.k] := 1", "q.b[input] contains 1"])
def test_a_document_as_the_key_of_a_rule_is_not_part_of_its_path(rule: str) -> None:
    engine = Engine({"p.rego": f"package p\n\n{rule} if true\n"}, {"k": "a"})
    for query in ("data.p.q.b = x", "data.p.q.b[_] = x"):
        left = engine.partial(query, ["input", "data.k"])
        both = with_support(engine, {"p.rego": f"package p\n\n{rule} if true\n"}, left)
        rows = [row for text in left.query_texts for row in both.prepare(text).results("z")]
        assert [row["x"] for row in rows] == [
            row["x"] for row in engine.prepare(query).results("z")
        ]


@pytest.mark.parametrize(
    "body",
    [
        "x := input.q; count([1 | x == input.b]) == 1 with input.b as input.c",
        "x := input.q; y := [1 | x = input.b] with input.b as input.c; y == [1]",
        "x := input.q; y := {x | x == input.b} with input.b as input.c; y == {1}",
        "some x in input.xs; not x == input.b with input.b as input.c",
        "x := input.q; not { x == input.b } with input.b as input.c",
        "x := input.q; { x == input.b } or { x == 7 } with input.b as input.c",
    ],
)
def test_a_closure_under_with_reads_the_variables_around_it(body: str) -> None:
    policy = f"package p\n\nimport future.keywords\n\nallow if {{ {body} }}\n"
    engine = Engine({"p.rego": policy})
    queries = engine.partial("data.p.allow", ["input"]).query_texts
    for q, b, c in product((1, 7), (1, 2), (1, 2)):
        given: Any = from_python({"xs": [q], "q": q, "b": b, "c": c})
        allowed = engine.prepare("data.p.allow").value(given) is True
        assert any(engine.prepare(text).results(given) for text in queries) is allowed


def test_a_function_may_have_nothing_but_a_default() -> None:
    policy = "package p\n\ndefault f(_) := 2\n\nallow if input.x == f(input.y)\n"
    engine = Engine({"p.rego": policy})
    left = engine.partial("data.p.allow", ["input"], only_truth=True)
    assert any("default f(" in text for text in left.support_texts)


@pytest.mark.parametrize("only_truth", [True, False])
@pytest.mark.parametrize(
    "condition",
    ["f(1, 9)", "g(1, 9)", "g(1) == 9", "y := 9; g(1, y)", "y := input.y; f(1, y); y == 9"],
)
def test_a_default_never_answers_where_a_rule_has_another_value(
    condition: str, only_truth: bool
) -> None:
    policy = f"""package p

default f(_) := 9

f(x) := 1 if x == 1

else := 2 if x == 3

default g(_) := 9

g(x) := 1 if x == 1

allow if {{ {condition}; input.z }}
"""
    engine = Engine({"p.rego": policy})
    document = {"y": 9, "z": True}
    assert engine.prepare("data.p.allow").value(document) is UNDEFINED
    left = engine.partial("data.p.allow", ["input"], only_truth=only_truth)
    assert not any(engine.prepare(text).results(document) for text in left.query_texts)


def test_a_known_call_of_a_filter_may_not_have_two_values() -> None:
    policy = """package p

f(x) := 1 if x == 1

f(x) := 2 if x == 1

allow if { f(1, 2); input.z }
"""
    engine = Engine({"p.rego": policy})
    with pytest.raises(EvalError, match="functions must not produce multiple outputs"):
        engine.prepare("data.p.allow").value({"z": True})
    with pytest.raises(EvalError, match="functions must not produce multiple outputs"):
        engine.partial("data.p.allow", ["input"], only_truth=True)


@pytest.mark.parametrize("only_truth", [True, False])
def test_known_calls_answer_as_in_a_decision(only_truth: bool) -> None:
    policy = """package p

default f(_) := 9

f(x) := 1 if x in [1, 1]

else := 2 if x == 3

default g(_) := true

g(x) := false if x == 1

h(x) := x > 1 if x < 5

else := true if x == 7
"""
    conditions = [f"f({x}, {y})" for x, y in product((1, 3, 5), (1, 2, 9))]
    conditions += [f"{name}({x})" for name, x in product("fgh", (1, 3, 7, 8))]
    for condition in conditions:
        engine = Engine({"p.rego": f"{policy}\nallow if {{ {condition}; input.z }}\n"})
        allowed = engine.prepare("data.p.allow").value({"z": True}) is True
        queries = engine.partial("data.p.allow", ["input"], only_truth=only_truth).query_texts
        answers = [bool(engine.prepare(text).results({"z": True})) for text in queries]
        assert any(answers) is allowed, condition


def test_else_of_a_function_applies_where_the_branches_before_it_do_not() -> None:
    policy = """package p

f(x) := false if x == 1

else := true if x in [1, 7]

allow if { f(input.x); input.z }
"""
    engine = Engine({"p.rego": policy})
    queries = engine.partial("data.p.allow", ["input"], only_truth=True).query_texts
    for x in (1, 3, 7, 8):
        document = {"x": x, "z": True}
        allowed = engine.prepare("data.p.allow").value(document) is True
        answers = [bool(engine.prepare(text).results(document)) for text in queries]
        assert any(answers) is allowed


def _agrees(policy: str, documents: list[Any], unknowns: tuple[str, ...] = ("input",)) -> None:
    """In both modes, the residual holds for the documents for which the policy allows."""
    modules = {"p.rego": f"package p\n\n{policy}\n"}
    engine = Engine(modules)
    for only_truth in (True, False):
        left = engine.partial("data.p.allow", unknowns, only_truth=only_truth)
        both = with_support(engine, modules, left)
        for document in documents:
            allowed = engine.prepare("data.p.allow").value(document) is True
            answers = [
                not text or bool(both.prepare(text).results(document)) for text in left.query_texts
            ]
            assert any(answers) is allowed, (document, left.query_texts, left.support_texts)


@pytest.mark.parametrize(
    "condition",
    [
        "q.a == 1",
        "not q.a == 1",
        "not q.l[0] == 2",
        "q.l[_] == 2",
        "q.no == false",
        "not q[input.k]",
        "q[input.k] == 1",
        "not q.a == 1 with data.z as 1",
    ],
)
def test_a_part_of_a_default_is_a_value_like_that_of_a_rule(condition: str) -> None:
    policy = 'default q := {"a": 1, "l": [2], "no": false}\n\nq := {"a": 2} if input.x\n'
    documents = [{}, {"x": 1}, {"k": "a"}, {"k": "a", "x": 1}]
    _agrees(f"{policy}\nallow if {{ {condition} }}", documents)


@pytest.mark.parametrize(
    "condition",
    [
        "count([1 | f(input.x)]) > 0 with f as g",
        "not count([1 | f(input.x)]) > 0 with f as g",
        "in_body with f as g",
        "in_else with f as g",
        "function(input.x) with f as g",
        "count([1 | members[_]]) > 0 with f as g",
        "members[2] with f as g",
        "[f(input.x) | true] == [true] with f as is_number",
        "f(input.x) with f as input.k",
        "not f(1) with f as input.k",
        "in_body with f as input.k",
        "k := input.k; in_every with f as k",
        "count([1 | count([input.x]) == 3]) > 0 with count as 3",
    ],
)
def test_a_function_stays_replaced_in_what_the_residual_evaluates(condition: str) -> None:
    policy = """f(x) if x == 1

g(x) if x == 2

in_body if count([1 | f(input.x)]) > 0

in_else if { f(input.x) } else := false if input.x == 7

in_every if { every y in [input.x] { f(y) } }

function(x) if { f(x) } else := 3 if { f(x + 1) }

members contains x if { x := input.x; f(x) }
"""
    documents = [{"x": x, **more} for x in (1, 2, 7) for more in ({}, {"k": False}, {"k": 2})]
    _agrees(f"{policy}\nallow if {{ {condition} }}", [{}, {"k": True}, *documents])


def test_a_replaced_function_may_be_unknown_where_its_replacement_is_not() -> None:
    policy = "f(null) if input.u\n\nallow if { [f(input.o) | true] == [true] with f as is_null }"
    engine = Engine({"p.rego": f"package p\n\n{policy}\n"})
    left = engine.partial("data.p.allow", ["input.u"], {"o": None})
    assert left.query_texts == ("",)


@pytest.mark.parametrize(
    "condition",
    ["(input.a == input.a) == false", "not same", "same == false", "other == false", "not other"],
)
def test_what_is_compared_with_itself_has_a_value(condition: str) -> None:
    policy = "same := (input.a == input.a)\n\nother := (input.a != input.a)\n"
    _agrees(f"{policy}\nallow if {{ {condition} }}", [{}, {"a": 1}, {"a": False}])


@pytest.mark.parametrize(
    "condition",
    [
        "x := input.u; x == 1 with input.u as 1",
        'x := input.u; x == 1 with input as {"u": 1}',
        "x := input.u; not x == 1 with input.u as 2",
        "x := input.u; x with input.u as 2",
        "x := input.u; not x with input.u as false",
        "x := input.u; is_one(x) with input.u as 1",
        "x := input.u; not is_one(x) with input.u as 2",
        "x := input.u; count([1 | x == 1]) == 1 with input.u as 1",
        "x := [input.u]; x[_] == 1 with input.u as 1",
        "x := input.u; input.u == 2; x == 1 with input.u as 1",
        "replaced(input.u) == 1",
        "in_list(input.u)",
        "in_every(input.u)",
        "x := input.u; x < 2 with input.k as 3",
        "x := count([input.u]); x == 1 with count as 2",
    ],
)
@pytest.mark.parametrize("unknown", ["input", "input.u"])
def test_a_value_from_outside_of_a_with_is_not_read_under_it(condition: str, unknown: str) -> None:
    policy = """is_one(x) if x == 1

replaced(x) := 1 if { x == 1 with input as null }

in_list(x) if { [1 | x == 1] == [1] with input.u as 1 }

in_every(x) if { every y in [x] { y == 1 } with input.u as 1 }
"""
    documents = [{}, {"u": 1}, {"u": 2}, {"u": False}]
    _agrees(f"{policy}\nallow if {{ {condition} }}", documents, (unknown,))


@pytest.mark.parametrize("negation", ["", "not "])
def test_a_name_is_not_replaced_under_a_with_before_the_search(negation: str) -> None:
    policy = f"allow if {{ x := input.u; y := input.k; {negation}x < y with input.u as 4 }}"
    engine = Engine({"p.rego": f"package p\n\n{policy}\n"})
    left = engine.partial("data.p.allow", ["input.u"], {"k": 3})
    for u in (1, 5):
        document = {"u": u, "k": 3}
        allowed = engine.prepare("data.p.allow").value(document) is True
        assert any(engine.prepare(text).results(document) for text in left.query_texts) is allowed


@pytest.mark.parametrize("condition", ["o.x == 1", "not o.x", "not o.a", "o.a == false"])
@pytest.mark.parametrize("shallow", [True, False])
def test_a_known_part_of_an_unknown_document_is_evaluated(condition: str, shallow: bool) -> None:
    policy = 'o[x] := y if { some x, y in input.o }\n\no["k"] := input.a\n'
    engine = Engine({"p.rego": f"package p\n\n{policy}\nallow if {{ {condition} }}\n"})
    known = {"o": {"a": False}}
    left = engine.partial("data.p.allow", ["input.a"], known, shallow=shallow)
    allowed = engine.prepare("data.p.allow").value({**known, "a": 1}) is True
    assert bool(left.query_texts) is allowed
    assert not left.support_texts


def test_nothing_is_left_of_what_counts_as_known(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"p.rego": "package p\n\nq := input.u.a\n\nallow if q == 1\n"})
    monkeypatch.setattr(Search, "is_unknown", lambda *_: False)
    with pytest.raises(EvalError, match="something known depends on something unknown"):
        engine.partial("data.p.allow", ["input.u"])


def test_the_value_of_a_with_around_every_is_that_of_its_variable() -> None:
    policy = (
        "package t\n\nallow if { every x in input.u.l { x == input.k } with input.k as data.g }\n"
    )
    engine = Engine({"t.rego": policy}, {"g": {"q": 1}})
    (query,) = engine.partial("data.t.allow", ["input.u"], {"k": 1}).query_texts
    assert query.endswith(' with input.k as {"q": 1}')
    residual = engine.prepare(query)
    assert [bool(residual.results({"u": {"l": items}})) for items in ([{"q": 1}], [1])] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    "reading", ["data.lib", "data.lib.a", 'data.lib[x]; x == "a"', "not data.lib", "x := data.lib"]
)
@pytest.mark.parametrize("options", [{}, {"disable_inlining": ("data.lib",)}])
def test_rules_below_a_document_read_as_a_whole_may_conflict(
    reading: str, options: dict[str, Any]
) -> None:
    """Also where what is behind it does not hold: a decision fails before it comes there."""
    library = "package lib.a\n\nq := x if some x in input.u.l\n"
    policy = f"package p\n\nf := false if {{ {reading} }}\n\nallow if f\n\nallow if true\n"
    engine = Engine({"lib.rego": library, "p.rego": policy})
    with pytest.raises(EvalError, match="conflict"):
        engine.prepare("data.p.allow").value({"u": {"l": [1, 2]}})
    left = engine.partial("data.p.allow", ["input.u"], {}, only_truth=True, **options)
    assert [conflict.path for conflict in left.conflicts] == ["data.lib.a.q"]


def test_a_pattern_is_not_compared_with_a_constant_that_it_cannot_equal() -> None:
    policy = (
        'package p\n\nf(x) := x if { {"a": _} = x }\n\nf(1) := 1 if true\n\nallow if f(input, 1)\n'
    )
    engine = Engine({"p.rego": policy})
    texts = engine.partial("data.p.allow", ["input"]).query_texts
    assert [bool(engine.prepare(text).results(1)) for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("reading", "conflicts"),
    [
        ("r[x][false]", True),
        ("r[x].a == 1", True),
        ("r[1][false]", False),
        ("r[2].a", False),
        ("r[1]", True),
        ("r[x]", True),
    ],
)
def test_keys_behind_an_unbound_one_leave_no_rule_out(reading: str, conflicts: bool) -> None:
    rules = "r[c][true] if some c in input.k\n\nr[1].a := c if some c in input.u.l\n"
    policy = f"package p\n\n{rules}\nf := false if {reading}\n\nallow if f\n\nallow if true\n"
    engine = Engine({"p.rego": policy})
    decision = engine.prepare("data.p.allow")
    if conflicts:
        with pytest.raises(EvalError, match="conflict"):
            decision.value({"u": {"l": [1, 2]}, "k": [3]})
    else:
        assert decision.value({"u": {"l": [1, 2]}, "k": [3]}) is True
    left = engine.partial("data.p.allow", ["input.u"], {"k": [3]}, only_truth=True)
    assert bool(left.conflicts) is conflicts


def test_a_key_that_another_equation_binds_is_not_lost() -> None:
    policy = """package p

s contains input

default q := true

q := [1] if input

allow if { some i, _ in q; s[i] }
"""
    engine = Engine({"p.rego": policy})
    left = engine.partial("data.p.allow", ["input.u"], {})
    both = with_support(engine, {"p.rego": policy}, left)
    (query,) = left.query_texts
    assert engine.prepare("data.p.allow").value({"u": 1}) is UNDEFINED
    assert both.prepare(query).results({"u": 1}) == []


@pytest.mark.parametrize(
    "rules",
    [
        "r[input.a] if true\n\nr.a[input.u] if true",
        "r[true][input] if input.u.c\n\nr[input] if input.never",
    ],
)
def test_rules_below_an_object_do_not_make_it_hold_without_a_member(rules: str) -> None:
    policy = f"package p\n\n{rules}\n\nallow if r[_]\n"
    engine = Engine({"p.rego": policy})
    left = engine.partial("data.p.allow", ["input.u"], {})
    both = with_support(engine, {"p.rego": policy}, left)
    assert engine.prepare("data.p.allow").value({}) is UNDEFINED
    assert not any(both.prepare(text).results({}) for text in left.query_texts)


@pytest.mark.parametrize("call", ['g("a", 1)', 'h("a", 1)', 'g("a") == 1', 'g("a", 2)'])
def test_a_conflict_in_a_function_counts_whatever_its_output_is_compared_with(call: str) -> None:
    policy = f"""package p

f(x) := "b" if true

f(x) := 3 if true

g(x) := 2 if f(input.u.cs[_])

h(x) := y if {{ y := 2; f(input.u.cs[_]) }}

allow if {call}
"""
    engine = Engine({"p.rego": policy})
    with pytest.raises(EvalError, match="multiple outputs"):
        engine.prepare("data.p.allow").value({"u": {"cs": [1]}})
    left = engine.partial("data.p.allow", ["input.u"], {}, only_truth=True)
    assert {each.path for each in left.conflicts} == {"data.p.f"}


@pytest.mark.parametrize(
    "rule",
    [
        "f(x) := 2 if { x == input.k with input.k as x; input.u }",
        'f(x) := 2 if { x == input.u with input as {"u": x} }',
        "f(x) := 2 if { x == input.u with input.u as x } else := 1",
        "f(x) := y if { y := 2; y == input.u with input.u as [x, y][0] }",
    ],
)
def test_the_value_of_a_with_is_that_of_the_body_around_it(rule: str) -> None:
    policy = f"package p\n\n{rule}\n\nallow if f(2)\n"
    engine = Engine({"p.rego": policy})
    left = engine.partial("data.p.allow", ["input.u"], {}, only_truth=True)
    both = with_support(engine, {"p.rego": policy}, left)
    for value in ({}, {"u": 1}, {"u": 2}):
        expected = engine.prepare("data.p.allow").value(value) is True
        assert any(both.prepare(text).results(value) for text in left.query_texts) is expected
