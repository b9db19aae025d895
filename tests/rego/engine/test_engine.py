"""The public API of the engine: what an application calls, and what it gets."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from doorward.rego import (
    UNDEFINED,
    CompileError,
    Engine,
    Environment,
    EvalError,
    Number,
    Query,
    Registry,
    parse_term,
    to_json,
)
from doorward.rego.builtins.registry import REGISTRY
from doorward.rego.builtins.registry.signature import number, string
from doorward.rego.errors import ParseError
from doorward.rego.policies import MAX_VARIANTS

pytestmark = pytest.mark.long

POLICY = """package authz

default allow := false

allow if {
	input.method == "GET"
	some role in data.roles[input.user]
	role == "reader"
}

names contains name if some name, _ in data.roles
"""


def engine(text: str = POLICY, data: Any = None, **options: Any) -> Engine:
    roles = {"roles": {"bob": ["reader"], "eve": []}}
    return Engine({"authz.rego": text}, roles if data is None else data, **options)


def value(expression: str, input_: Any = UNDEFINED, **options: Any) -> Any:
    return Engine(**options).prepare(expression).value(input_)


def test_value_of_a_rule() -> None:
    query = engine().prepare("data.authz.allow")
    assert query.value({"method": "GET", "user": "bob"}) is True
    assert query.value({"method": "GET", "user": "eve"}) is False
    assert query.value() is False


def test_missing_value_is_undefined() -> None:
    assert engine().prepare("data.authz.nobody").value() is UNDEFINED
    assert engine().prepare("input.x").value({}) is UNDEFINED


def test_results_name_variables_and_leave_wildcards_out() -> None:
    query = engine().prepare("some user; data.roles[user][_] = role")
    assert query.results() == [{"user": "bob", "role": "reader"}]


def test_results_are_ready_for_json() -> None:
    results = engine().prepare("x := {data.authz.names, {1: 2}}").results()
    assert results == [{"x": [{"1": 2}, ["bob", "eve"]]}]


def test_false_and_undefined_have_no_results() -> None:
    assert engine().prepare("data.authz.allow").results() == []
    assert engine().prepare("input.x").results() == []


def test_input_given_as_a_rego_term() -> None:
    query = Engine().prepare("count(input.a) = n")
    assert query.results(parse_term('{"a": {1, 2}}')) == [{"n": 2}]


def test_rules_and_base_data_are_members_of_data() -> None:
    rules = Engine({"a.rego": "package a\n\nq := 1\n"}, {"b": 2})
    assert rules.prepare("{k | some k, _ in data}").value() == {"a", "b"}
    assert rules.prepare("count([v | some v in data])").value() == 2


def test_a_query_is_bound_to_engines_of_its_policies_only() -> None:
    first, query = engine(), engine().prepare("data.authz.allow")
    with pytest.raises(ValueError, match="other policies"):
        query.bind(first)


def test_a_package_is_not_a_rule() -> None:
    rules = Engine({"a.rego": "package a.b\n\nq := 1\n"}, {"c": 1})
    paths = ["a"], ["a", "b"], ["a", "b", "q"], ["a", "b", "q", "r"], ["c"]
    assert [rules.has_rule_at(path) for path in paths] == [False, False, True, True, False]
    assert [rules.has_package(path) for path in paths] == [True, True, False, False, False]


def test_base_data_is_read_with_numbers_and_texts_as_by_opa() -> None:
    rules = Engine({}, {"list": [5, 6], "object": {"1": 2}})
    for path, value in (('list["1"]', 6), ("object[1]", 2), ("list[1]", 6)):
        assert rules.prepare(f"data.{path}").value() == value
    assert rules.prepare('data.list["x"]').value() is UNDEFINED
    assert rules.base_document(("list", "1")) == 6


def test_a_function_of_a_package_that_is_replaced_has_no_value() -> None:
    rules = Engine({"p.rego": "package p\n\nf(x) := x\n"})
    for strict in (False, True):
        query = rules.prepare('data.p.f with data.p as {"f": 1}', strict_builtin_errors=strict)
        assert query.value() is UNDEFINED


def test_a_package_without_rules_has_the_members_of_base_data() -> None:
    data = {"p": {"empty": {"a": 1, "b": 2}}}
    rules = Engine({"a.rego": "package p.empty\n"}, data)
    assert rules.prepare("[x | data.p.empty[x] == 2]").value() == ["b"]


def test_a_rule_of_an_object_is_read_by_keys_that_are_not_known() -> None:
    policy = 'package p\n\na[k] := v if some k, v in {"b": 2}\n\nc := {"b": 3}\n'
    rules = Engine({"p.rego": policy})
    for strict in (False, True):
        query = rules.prepare("data.p[input.x][input.y]", strict_builtin_errors=strict)
        assert query.value({"x": "a", "y": "b"}) == 2
        assert query.value({"x": "c", "y": "b"}) == 3
        assert query.value({"x": "a", "y": "c"}) is UNDEFINED


def test_value_of_several_expressions_is_refused() -> None:
    with pytest.raises(ValueError, match="several expressions"):
        Engine().prepare("x := 1; y := 2").value()


def test_a_debugger_stays_attached_if_code_cannot_be_generated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_query: Query) -> None:
        assert sys.gettrace() is None  # the debugger must not stop in code generation
        raise CompileError(())

    def debug(*_event: object) -> None:
        return None

    query = engine().prepare("data.authz.allow")
    monkeypatch.setattr(Query, "warm", refuse)
    before = sys.gettrace()
    sys.settrace(debug)
    try:
        with pytest.raises(CompileError):
            query.value({})
        attached = sys.gettrace()
    finally:
        sys.settrace(before)
    assert attached is debug


def test_with_data_shares_the_compiled_policies() -> None:
    first = engine()
    second = first.with_data({"roles": {"eve": ["reader"]}})
    request = {"method": "GET", "user": "eve"}
    assert first.prepare("data.authz.allow").value(request) is False
    assert second.prepare("data.authz.allow").value(request) is True
    assert second.emit() == first.emit()


def test_with_modules_keeps_the_data() -> None:
    changed = engine().with_modules({"a.rego": "package a\n\nusers := count(data.roles)"})
    assert changed.prepare("data.a.users").value() == 2


def test_with_modules_does_not_check_the_data_again() -> None:
    data: Any = {"pair": (1, 2)}  # a tuple would be converted
    assert Engine(data=data, is_parsed=True).with_modules({}).data is data


def test_answers_on_data_alone_are_kept_for_that_data_only() -> None:
    first = engine()
    query = first.prepare("data.authz.names")
    assert query.value() is query.value()
    assert first.with_data({"roles": {}}).prepare("data.authz.names").value() == frozenset()


def test_compile_error_carries_every_diagnostic() -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"a.rego": "package a\n\np := x\nq := y\n", "b.rego": "package b\n\np := z\n"})
    places = [(d.span.file, d.span.row, d.message) for d in caught.value.diagnostics]
    assert places == [
        ("a.rego", 3, "var x is unsafe"),
        ("a.rego", 4, "var y is unsafe"),
        ("b.rego", 3, "var z is unsafe"),
    ]
    assert "p := x" in caught.value.render()
    assert "^" in caught.value.render()


@pytest.mark.parametrize(("wrong", "reported"), [(9, 9), (10, 11), (15, 11)])
def test_ten_errors_at_most(wrong: int, reported: int) -> None:
    rules = "\n".join(f"p{n} := x{n}" for n in range(wrong))
    with pytest.raises(CompileError) as caught:
        Engine({"a.rego": f"package a\n\n{rules}\n"})
    messages = [each.message for each in caught.value.diagnostics]
    assert len(messages) == reported
    # As in OPA, the tenth error ends the search, whether or not there are others.
    assert (messages[-1] == "error limit reached") == (wrong > 9)


def test_conflict_is_an_error_with_its_place() -> None:
    query = Engine({"a.rego": "package a\n\np := 1\n\np := 2 if input.x\n"}).prepare("data.a.p")
    assert query.value({}) == 1
    with pytest.raises(EvalError) as caught:
        query.value({"x": True})
    assert caught.value.code == "eval_conflict_error"
    assert str(caught.value.span).startswith("a.rego:")


def test_failed_builtin_is_undefined_unless_errors_are_strict() -> None:
    assert value("1 / input.n", {"n": 0}) is UNDEFINED
    query = Engine().prepare("1 / input.n", strict_builtin_errors=True)
    with pytest.raises(EvalError, match="divide by zero"):
        query.value({"n": 0})


def test_deadline_ends_an_evaluation() -> None:
    digits = list(range(10_000))
    query = Engine().prepare(
        "count([1 | input[_] >= 0; input[_] >= 0; input[_] >= 0; input[_] < 0])", deadline=0.05
    )
    with pytest.raises(EvalError) as caught:
        query.value(digits)
    assert caught.value.code == "eval_cancel_error"


def test_one_time_in_one_decision() -> None:
    ticks = iter(range(100))
    frozen = Environment(clock=lambda: next(ticks))
    query = Engine(environment=frozen).prepare("x := time.now_ns(); y := time.now_ns()")
    assert query.results() == [{"x": 0, "y": 0}]
    assert query.results(now_ns=7) == [{"x": 7, "y": 7}]


def test_print_reaches_the_environment_and_nobody_else() -> None:
    heard: list[str] = []
    told = Environment(on_print=lambda text, _: heard.append(text))
    text = 'package a\n\np if print("user", input.user, input.nobody)\n'
    assert Engine({"a.rego": text}, environment=told).prepare("data.a.p").value({"user": "x"})
    assert heard == ["user x <undefined>"]
    assert Engine({"a.rego": text}).prepare("data.a.p").value({}) is True


def test_own_builtins_in_an_own_registry() -> None:
    registry = Registry(REGISTRY)

    @registry.builtin("acme.double", number, returns=number)
    def acme_double(x: int) -> int:
        return 2 * x

    assert Engine(registry=registry).prepare("acme.double(21)").value() == 42
    with pytest.raises(CompileError, match=r"undefined function acme\.double"):
        Engine().prepare("acme.double(21)")


def test_a_query_may_replace_functions_as_often_as_it_likes() -> None:
    rules = Engine({"a.rego": "package a\n\nf(x) := x + 1\n\np := f(1)\n"})
    query_ = [rules.prepare(f"data.a.p with data.a.f as {n}") for n in (5, 6)]
    assert [query.value() for query in query_] == [5, 6]
    assert rules.prepare("data.a.p").value() == 2
    one_string = [b.name for b in REGISTRY if b.pure and b.signature.args == (string,)]
    for name in one_string[: MAX_VARIANTS + 2]:
        assert rules.prepare(f'x := {name}("") with {name} as 7').results() == [{"x": 7}]


def test_a_query_sees_what_its_package_and_imports_say() -> None:
    rules = Engine({"a.rego": "package a.b\n\nf(x) := x + 1\n\nq := 3\n"})
    assert rules.prepare("f(1) + q", package="a.b").value() == 5
    assert rules.prepare("f(1) + q", package="data.a.b").value() == 5
    assert rules.prepare("u + b.q", imports=["data.a.b", "input.user as u"]).value({"user": 1}) == 4
    with pytest.raises(CompileError, match="var q is unsafe"):
        rules.prepare("q")


@pytest.mark.parametrize("v0", [False, True])
@pytest.mark.parametrize(
    ("query", "imported"),
    [
        ("true and not { false }", "future.keywords"),
        ("{ input } or true", "future.keywords.or"),
        ("every x in [1] { x == 1 }", "future.keywords.every"),
        ("not { false; true with input as 1 }", "future.keywords.not"),
        ("1 in [1]", "rego.v1"),
    ],
)
def test_imports_of_keywords_hold_in_a_query(query: str, imported: str, v0: bool) -> None:
    if v0 and imported == "future.keywords":
        query = query.replace("not { false }", "1 in [1]")
    engine = Engine({}, v0=v0)
    assert engine.prepare(query, imports=[imported]).results(False) == [{}]
    assert engine.partial(query, [], False, imports=(imported,)).query_texts


@pytest.mark.parametrize("imported", ["future.keywords.xor", "rego.v2", "future.more"])
def test_an_import_of_no_keyword_is_refused(imported: str) -> None:
    with pytest.raises(ParseError, match=r"import|keyword"):
        Engine({}).prepare("true", imports=[imported])


@pytest.mark.parametrize("query", ["", " ", "# nothing"])
def test_a_query_asks_something(query: str) -> None:
    with pytest.raises(CompileError, match="empty query cannot be compiled"):
        Engine().prepare(query)


def test_a_term_has_a_value_or_is_refused() -> None:
    assert parse_term("[1, {2}]") == [1, frozenset({2})]
    with pytest.raises(ValueError, match="the term is undefined"):
        parse_term("{}.a")
    with pytest.raises(CompileError, match="var x is unsafe"):
        parse_term("x")


def test_the_trees_are_those_of_the_policies() -> None:
    trees = engine().trees
    assert list(trees) == ["authz.rego"]
    assert [rule.head.ref.span.text for rule in trees["authz.rego"].rules] == [
        "allow",
        "allow",
        "names",
    ]


def test_evaluations_made_before_answer_as_others_do() -> None:
    single, several = engine().prepare("data.authz.allow"), Engine().prepare("x := 1; y := 2")
    evaluation = single.evaluation({"method": "GET", "user": "bob"})
    assert single.value_of(evaluation) is True
    assert several.rows_of(several.evaluation()) == [(1, 2, True, True)]
    with pytest.raises(ValueError, match=r"several expressions: use rows_of\(\)"):
        several.value_of(several.evaluation())


def test_v0_is_read_when_asked_for() -> None:
    old = "package a\n\np[x] { x := input.xs[_] }\n"
    value = Engine({"a.rego": old}, v0=True).prepare("data.a.p").value({"xs": [1, 1]})
    assert value == frozenset({1})
    with pytest.raises(CompileError):
        Engine({"a.rego": old})


def test_decisions_in_many_threads_agree() -> None:
    query = engine().prepare("data.authz.allow")
    wrong: list[object] = []

    def ask(user: str, want: bool) -> None:
        for _ in range(300):
            got = query.value({"method": "GET", "user": user})
            if got is not want:
                wrong.append(got)

    threads = [
        threading.Thread(target=ask, args=("bob" if n % 2 else "eve", bool(n % 2)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("true == 1", "false"),
        ("{1, true, 1.0}", "[true,1]"),
        ('{"a": 1, 1: 2, true: 3}', '{"true":3,"1":2,"a":1}'),
        ("1 == 1.0", "true"),
        ("[true, 1] == [1, 1]", "false"),
        ("0.1 + 0.2", "0.3"),
        ("1 / 3", "0.33333333333333333334"),
        ("123456789012345678901234567890 + 1", "123456789012345678901234567891"),
        ("1.50", "1.50"),
        ("[x | some x in {3, 1, 2}]", "[1,2,3]"),
        ('{"x": 1}.x', "1"),
        ("-5 % 3", "-2"),
        ("{1, 2} | {3}", "[1,2,3]"),
        ("[1, 2][_] == 2", "true"),
    ],
)
def test_values_are_rego_values(expression: str, want: str) -> None:
    rows = Engine().prepare(f"x := {expression}").rows()
    actual = [row[0] for row in rows if row[0] is not False] or [row[0] for row in rows]
    assert to_json(actual[0]) == want


def test_number_keeps_its_text_until_computed_with() -> None:
    query = Engine().prepare("x := input")
    assert to_json(query.rows(Number("1.50"))[0][0]) == "1.50"
    assert Engine().prepare("input + 0").value(Number("1.50")) == Number("1.5")


def test_floats_and_integers_of_python_are_numbers() -> None:
    assert value("input.a < input.b", {"a": 1, "b": 1.5}) is True
    assert value("input.a == 2", {"a": 2.0}) is True


def test_an_equation_of_one_side_never_holds() -> None:
    assert Engine().prepare("x := eq([null, true])").results() == []
    assert Engine().prepare("eq(1, 1, true)").results() == [{}]


def test_the_name_of_a_function_that_stands_in_is_no_variable_of_the_query() -> None:
    engine = Engine({"a.rego": "package a\n\nf(x) := x\n"})
    query = engine.prepare('z := data.a.f("abc") with data.a.f as count')
    assert query.variables == ["z"]
    assert query.results() == [{"z": 3}]
    named = engine.prepare('count := 1; z := data.a.f("abc") with data.a.f as count')
    assert named.results() == [{"count": 1, "z": 1}]


def test_a_query_whose_types_nest_too_deeply_is_refused() -> None:
    steps = "; ".join(f"v{n} = [v{n + 1}]" for n in range(3000))
    with pytest.raises(CompileError, match="the query is nested too deeply"):
        Engine().prepare(f"{steps}; v3000 = 1")


def test_all_data_has_no_documents_of_the_server() -> None:
    policy = "package system.p\n\nx := 1\n\ny := 2 if input.a\n\ny := 3 if not input.b\n"
    data = {"system": {"z": 1}, "base": 2}
    for policies in ({"p.rego": policy}, {}):
        all_data = Engine(policies, data)
        assert all_data.prepare("data").value() == {"base": 2}
        assert all_data.prepare("count(data)").value() == 1
        assert all_data.prepare("data.system.z").value() == 1
        # Rules are listed, base data is not.
        listed = ["base", "system"] if policies else ["base"]
        assert [row["k"] for row in all_data.prepare("data[k]").results()] == listed
        shown = all_data.prepare("x := data with data.system.b as 3")
        assert shown.results() == [{"x": {"base": 2, "system": {"b": 3}}}]
        known = all_data.partial("data[k] = input.x", ["input"])
        assert len(known.queries) == len(listed)


def test_policies_are_checked_and_asked_in_the_order_of_their_names() -> None:
    # `x-y/` is before `x/`, though a folder lists it behind.
    policies = {"x/a.rego": "package a\n\np := 1\n", "x-y/a.rego": "package a\n\np := 2\n"}
    with pytest.raises(EvalError) as conflict:
        Engine(policies).prepare("data.a.p").value()
    assert str(conflict.value.diagnostics[0].span) == "x/a.rego:3"
    defaults = {name: text.replace("p :=", "default p :=") for name, text in policies.items()}
    with pytest.raises(CompileError) as twice:
        Engine(defaults)
    assert twice.value.diagnostics[0].message.endswith("x-y/a.rego:3, x/a.rego:3")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("v := data.base.m with data.base.l as g", 2),
        ("v := c with data.t.c as g", UNDEFINED),
        ("v := c with data.base.l as data.t.g", 1),
        ("not data.base.l with data.base.l as g; v := 3", 3),
        ("v := [k | some k, _ in data.base] with data.base.l as g", ["m"]),
        ("v := data.base.l[0] with data.base as g", UNDEFINED),
    ],
)
def test_a_document_replaced_by_a_function_is_not_there(
    body: str, want: object, strict: bool
) -> None:
    text = f"package t\n\ng(x) := x\n\nc := 1\n\np := v if {{ {body} }}\n"
    engine = Engine({"t.rego": text}, {"base": {"l": [1], "m": 2}})
    query = engine.prepare("data.t.p", strict_builtin_errors=strict)
    assert query.value() == want
    residual = engine.partial("data.t.p == 2", ["input"])
    assert len(residual.query_texts) == (1 if want == 2 else 0)


@pytest.mark.parametrize("call", ["rule()", "chain()"])
def test_the_annotations_of_a_rule_are_not_those_of_its_else(call: str) -> None:
    text = f"package t\n\n# METADATA\n# title: x\np if input.a\n\nelse := rego.metadata.{call}\n"
    want = {} if call == "rule()" else [{"path": ["t", "p"]}]
    assert Engine({"t.rego": text}).prepare("data.t.p").value({}) == want
