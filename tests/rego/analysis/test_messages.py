"""Every kind of compile error, in OPA's words and at OPA's place."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.analysis.resolve import names_of_packages, resolve_modules
from doorward.rego.analysis.tree import check_base_data
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module
from doorward.rego.values import Key, Value

UNUSED = "(hint: use _ (wildcard variable) instead)"

OPERANDS = "import future.keywords.and\nimport future.keywords.or\n"

NAMES = [
    ("p if { x := 1; x := 2 }", "3:16 var x assigned above"),
    ("p if { some x; some x }", "3:16 var x declared above"),
    ("p if { x == 1; x := 2 }", "3:16 var x referenced above"),
    ("p if { f(1); f := 2 }\nf(x) := x", "3:14 var f referenced above"),
    ("p if { some x, y; input[x] }", "3:8 declared var y unused"),
    ("p if { every x in [1] { x := 2 } }", "3:25 var x declared above"),
    ("p if { every x in [1] { true } }", "3:25 declared var x unused"),
    ("f(x) if { x := 1 }", "3:11 arg x redeclared"),
    ("f(count(x)) := 1", "3:3 rule arguments cannot contain calls"),
    ("f({`k`: [1 + x]}) := 1", "3:10 rule arguments cannot contain calls"),
    ("p if { x := 1; some {x}, _ in {{1}: 2} }", "3:16 var x assigned above"),
    ("p if { x := 1; some [{x}] in [[{1}]] }", "3:16 var x assigned above"),
    ("p if { k := 1; some input[k] in [1] }", "3:16 var k assigned above"),
    ("f(x) if { some {x: _}, _ in input.o }", "3:11 arg x redeclared"),
    ("f([y.a]) if { y := input.o }", "3:15 arg y redeclared"),
    ("f(data) := 1", "3:1 args must not shadow data (use a different variable name)"),
    ("p if { input := 1 }", "3:8 variables must not shadow input (use a different variable name)"),
    ("data.x := 1", "3:1 rules must not shadow data (use a different rule name)"),
    ("p if { not x := 1 }", "3:8 cannot assign vars inside negated expression"),
    (
        "import future.keywords.not\np if { not x := 1 }",
        "4:8 cannot assign vars inside negated expression",
    ),
    ("p if { {x} := {1} }", "3:8 cannot assign to set"),
    ("p if { null := 1 }", "3:8 cannot assign to null"),
    ("import data.a.x\nimport data.b.x", "4:1 import must not shadow import data.a.x"),
    ("p := print(1)", "3:6 print(1) used as value"),
    ("p if print(input.x, y)", "3:21 var y is undeclared"),
    ("p if { print(y); y == 1 }", "3:14 var y is undeclared"),
    ("p if { print([y]); x := y }", "3:14 var y is undeclared"),
    ("p if { print(input.x[y]) }", "3:14 var y is undeclared"),
    ("p if { print(`a`, input.x[_]) }", "3:19 var _ is undeclared"),
    ("p if { lower = 1; x := lower(`A`) }", "3:24 called function lower shadowed"),
    ("p if { x := [1 | lower(`A`) == `a`]; input[lower] }", "3:18 called function lower shadowed"),
    ("p if { json = 1; json.marshal(2) }", "3:18 undefined function json.marshal"),
    ("p if { x := json.marshal(json); json = 1 }", "3:13 undefined function json.marshal"),
    ("p := object.keys({}) if walk(1, object)", "3:6 undefined function object.keys"),
    (f"{OPERANDS}p if {{ {{x = 2}} or {{y = 1}}; some y; y = 2 }}", "5:28 var y referenced above"),
    (f"{OPERANDS}p if {{ {{not y = 1}} and {{true}}; y := 2 }}", "5:32 var y referenced above"),
    (
        f"{OPERANDS}p if {{ {{every x in [1] {{ y = x }}}} or {{true}}; y := 2 }}",
        "5:46 var y refere",
    ),
]

PLACES = [
    ("p := 1\np(x) := x", "3:1 conflicting rules data.t.p found"),
    ("p[x] := 1 if x := 2\np contains 3", "3:1 conflicting rules data.t.p found"),
    ("p contains 3\np[x] contains 1 if x := 2", "3:1 conflicting rules data.t.p[x] found"),
    (
        "p.a contains 3\np.a[x].b contains 1 if x := 2",
        "3:1 conflicting rules data.t.p.a[x].b found",
    ),
    ("p := 1\np.q := 1\np.q.r := 2", "3:1 rule data.t.p conflicts with [data.t.p.q]"),
    ("p if q with q.a as 1\nq := 2", "3:13 with keyword cannot partially replace virtual"),
    ("p if true with x as 1", "3:16 with keyword target must reference existing input"),
    ("p if true with walk as 1", "3:16 with keyword replacing built-in function: target must not"),
    ("p if true with print as 1", "3:16 with keyword replacing built-in function: target must not"),
    (
        "p if true with eq as 1",
        '3:16 with keyword replacing built-in function: replacement of "eq"',
    ),
    ("p if true with internal.member_2 as 1", "3:16 with keyword replacing built-in function: r"),
    ("p := nope(1)", "3:6 undefined function nope"),
    ("p := f(1, 2)\nf(x) := x", "3:6 function data.t.f has arity 1, got 2 arguments"),
    ("p := [count([1], 2)]", "3:7 count: arity mismatch"),
    ("p := p", "3:1 rule data.t.p is recursive: data.t.p -> data.t.p"),
    ("p := 1 if false else := p", "3:17 rule data.t.p is recursive"),
    ("p if true with p as 1", "3:1 rule data.t.p is recursive"),
    ("p[x] := q if x := 1\nq := p", "3:1 rule data.t.p[x] is recursive: data.t.p[x] -> data.t.q"),
    ("p := any([true])", "3:6 deprecated built-in function calls in expression: any"),
]

UNSAFE = [
    ("p if { x > 1 }", "3:8 var x is unsafe"),
    ("p := {x: 1}", "3:7 var x is unsafe"),
    ("p := x + 1", "3:6 var x is unsafe"),
    ("p if { [x, y] = [1, x + 1] }", "3:8 var y is unsafe"),
    ("p if { every x in [1] { x == z } }", "3:25 var z is unsafe"),
    ("p := [x | true]", "3:6 var x is unsafe"),
    ("p := {k: 1 | true}", "3:6 var k is unsafe"),
    ("p if { true with data[x] as 1 }", "3:8 var x is unsafe"),
    ("p if { {`a`: x} = {`b`: 1} }", "3:8 var x is unsafe"),
    ("p if { input.xs = [x, y.z] }", "3:8 var y is unsafe"),
    ("f(x.y) := 1", "3:3 var x is unsafe"),
    ("f([input.x]) := 1", "3:3 var input is unsafe"),
    ("u := 1\nf({u.x: 1}) := 1", "4:3 var u is unsafe"),
    ("u := 1\nf([1 | u]) := 1", "4:8 var u is unsafe"),
    ("u := 1\np if some {u} in [{1}]", "4:6 var u is unsafe"),
    ("u := {}\np if some [u[k]] in [[1]]", "4:6 var u is unsafe"),
    ('p := $"{x}"', "3:6 var x is unsafe"),
    ("q := eq(1, 1)", "3:6 expression is unsafe"),
    ("p if { x := y; x = 7 }", "3:8 var y is unsafe"),
    ("p if { x := y; input.xs[x] }", "3:8 var y is unsafe"),
    ("p if { [x] := [y]; x = 7 }", "3:8 var y is unsafe"),
    ("p if { x := {`a`: y}; x = {`a`: 7} }", "3:8 var y is unsafe"),
    ("import future.keywords.not\np if { not x.y }", "4:8 var x is unsafe"),
    ("import future.keywords.not\np if { not { x.y } }", "4:14 var x is unsafe"),
    ("import future.keywords.not\np if { not input.xs[_] == 1 }", "4:8 var _ is unsafe"),
    ("import future.keywords.not\np if { not count(input.xs[i]) > 1; i }", "4:8 var i is unsafe"),
]

TYPES = [
    ("p if { x := {`a`: 1}; x = {`a`: y}; y == `b` }", "match error"),
    ("p if { {`a`: x, `b`: 1} = {`a`: 2, `b`: y}; y == `c` }", "match error"),
    ("p if { [x, 1] = input.xs; x == 1; [x, `a`] = [1, 1] }", "match error"),
    ("p if { some k in {1}; [k] = [`a`] }", "match error"),
    ("p := f([1, {`a`: `x`}])\nf([n, {`a`: m}]) := n + m", "data.t.f: invalid argument(s)"),
    ("p := f({`b`: 1})\nf({`a`: m}) := m", "data.t.f: invalid argument(s)"),
    ("p if { x := {{`a`: 1}}; x[{`a`: `b`}] }", 'undefined ref: x[{"a": "b"}]'),
    ("p if { x := {[1]}; x[[`b`]] }", 'undefined ref: x[["b"]]'),
    ("p if { x := `abc`; some i; x[i] }", "undefined ref: x[i]"),
    ("p if { i := `a`; [1, 2][i] }", "undefined ref: __local0__[i]"),
    ("p if { q; data[1].x }\nq := 1", "undefined ref: data[1].x"),
    ("p if data.t.q.r.s\nq.r := 1", "undefined ref: data.t.q.r.s"),
    ("p if { x := data.t.q; x.r.s }\nq.r := 1", "undefined ref: x.r.s"),
    ("p := [x | x := input.y[_]; x > 1; x + `a` == 2]", "plus: invalid argument(s)"),
    ("p if { every x in [1] { x; q.c } }\nq := {`b`: 1}", "undefined ref: data.t.q.c"),
    ("p := {x: y | some x, y in {`a`: 1}}\nq if p.a.b", "undefined ref: data.t.p.a.b"),
]


def report(rules: str, *, strict: bool = False) -> list[str]:
    with pytest.raises(CompileError) as caught:
        Engine({"t.rego": f"package t\n\n{rules}"}, strict=strict)
    return [f"{d.span.row}:{d.span.col} {d.message}" for d in caught.value.diagnostics]


KEYWORDS = [
    ("p if data.foo[`if`].bar(1)", '3:6 undefined function data.foo["if"].bar'),
    ("p := input[`not`](1)", '3:6 undefined function input["not"]'),
    ("p := q[`in`](1, 2)\nq[`in`](x) := x", '3:6 function data.t.q["in"] has arity 1, got 2'),
    ("p := q[`else`]\nq[`else`](x) := x", '3:6 function data.t.q["else"] used as reference'),
    (
        "import data.foo[`if`].x\nimport data.a.x",
        '4:1 import must not shadow import data.foo["if"]',
    ),
    ("q[`if`] := 1\nq[`if`].a := 2", '3:1 rule data.t.q["if"] conflicts with [data.t.q["if"].a]'),
    (
        "default q[`as`] := 1\ndefault q[`as`] := 2",
        '1:1 multiple default rules data.t.q["as"] found',
    ),
    ("p := q[`if`]\nq[`if`] := p", '3:1 rule data.t.p is recursive: data.t.p -> data.t.q["if"] ->'),
    ("p := q.every.x\nq[`every`] := 1", '3:6 undefined ref: data.t.q["every"].x'),
    ("p := q.and.or.x\nq.and.or := 1", "3:6 undefined ref: data.t.q.and.or.x"),
]


@pytest.mark.parametrize(("rules", "message"), [*NAMES, *PLACES, *UNSAFE, *KEYWORDS])
def test_the_first_error_says_what_and_where(rules: str, message: str) -> None:
    assert report(rules)[0].startswith(message)


@pytest.mark.parametrize("body", ["not { f(1) } with f as 1", "not f(1) with data.t.f as false"])
def test_a_with_below_not_may_replace_a_function(body: str) -> None:
    Engine({"t.rego": f"package t\n\nimport future.keywords\n\nf(x) := x\n\np if {body}\n"})


@pytest.mark.parametrize(
    ("body", "is_accepted"),
    [
        ("json.filter(x, [x])", True),  # without a type before the call
        ("json.filter(x, [x]); json.filter({}, [x])", True),
        ('json.filter(x, ["a"]); json.filter({}, [x])', False),
        ('json.filter(x, ["a"]); json.filter({}, [y, x])', True),
        ('sum({1, "a"})', False),
        ("object.union_n([x]); json.filter({}, [x])", False),
    ],
)
def test_a_variable_in_a_literal_may_have_a_type_from_the_same_call(
    body: str, is_accepted: bool
) -> None:
    policy = f"package t\n\nf(x, y) if {{ {body} }}\n"
    if is_accepted:
        Engine({"t.rego": policy})
    else:
        with pytest.raises(CompileError, match="invalid argument"):
            Engine({"t.rego": policy})


@pytest.mark.parametrize(("rules", "message"), TYPES)
def test_types_that_never_meet_are_named(rules: str, message: str) -> None:
    assert [line.partition(" ")[2] for line in report(rules)] == [message]


@pytest.mark.parametrize(
    "rules",
    [
        "p if { some k; x := input.xs[k]; x > 1 }",
        "p if { x := input.xs[_]; x > 1 }",
        "p if { x := y; y = 7; x > 1 }",
        "p if { [x, y] := input.xs; x > y }",
        "p if { x := [y | y = input.xs[_]]; x[0] }",
    ],
)
def test_the_right_side_of_an_assignment_may_walk_or_wait(rules: str) -> None:
    Engine({"t.rego": f"package t\n\n{rules}\n"})


@pytest.mark.parametrize(
    "body",
    [
        "not { 1 == `a` }",
        "not { count(1) > 1; input.x }",
        "not lower(1) == `a`",
        "not { some x in [1]; x == `a` }",
        "{ 1 == `a` } or lower(1)",
    ],
)
def test_types_are_not_looked_at_in_bodies_of_keywords(body: str) -> None:
    imports = "import future.keywords.not\nimport future.keywords.or\n"
    Engine({"t.rego": f"package t\n\n{imports}p if {{ {body} }}\n"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("not { q.x }", "6:14 undefined ref: data.t.q.x"),
        ("not q.x", "6:12 undefined ref: data.t.q.x"),
        ("not { [x | x := 1 + `a`] }", "6:24 plus: invalid argument(s)"),
        ("not { f }", "6:14 function data.t.f used as reference, not called"),
        (
            "not { input.x } with input as f",
            "6:38 function data.t.f used as reference, not called",
        ),
        (
            "every x in [1] { x } with data.t.f as 1",
            "6:34 function data.t.f used as reference, not c",
        ),
    ],
)
def test_references_and_comprehensions_are_looked_at_everywhere(body: str, message: str) -> None:
    rules = f"import future.keywords.not\nq := 1\nf(x) := x\np if {{ {body} }}"
    assert report(rules)[0].startswith(message)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("import data.a as b", "3:1 import data.a as b unused"),
        ("p if { x := 1; y := 2; y > 1 }", "3:8 assigned var x unused"),
        ("f(x, y) := y", f"3:1 unused argument x. {UNUSED}"),
        ("f([x, x]) := 1 if true\ng(y) := 1", f"4:1 unused argument y. {UNUSED}"),
    ],
)
def test_strict_mode_names_what_is_not_used(rules: str, message: str) -> None:
    assert report(rules, strict=True) == [message]
    Engine({"t.rego": f"package t\n\n{rules}"})


def test_errors_of_one_stage_hide_those_of_the_next() -> None:
    assert report("p := nope(x)\nq := 1 + `a`") == ["3:6 undefined function nope"]


def test_rules_of_version_0_may_shadow_the_roots() -> None:
    Engine({"t.rego": "package t\ninput = 1\np { input := 1; input == 1 }"}, v0=True)


@pytest.mark.parametrize(
    ("data", "conflict"),
    [
        ({"a": {"p": 1}}, True),
        ({"a": 1}, True),
        ({"a": {"q": 1}}, False),
        ({"b": 1}, False),
        ({}, False),
    ],
)
def test_base_data_may_not_stand_where_a_rule_does(data: dict[Key, Value], conflict: bool) -> None:
    parsed = [parse_module(Source("a.rego", "package a\n\np.x := 1 if true"))]
    modules = resolve_modules(parsed, names_of_packages(parsed)).modules
    actual = [f"{d.span.row}: {d.message}" for d in check_base_data(modules, data)]
    expected = {True: ["3: conflicting rule for data path a/p/x found"], False: []}
    assert actual == expected[conflict]


@pytest.mark.parametrize(
    ("rules", "hint"),
    [
        ("p := startwith(`a`, `b`)", "did you mean `startswith`?"),
        ("p := data.t.doubel(1)\ndouble(x) := x * 2", "did you mean `data.t.double`?"),
        ("p := nothing_like_it(1)", None),
        ("p := x", "assign `x`, or bind it with `some x in …`"),
    ],
)
def test_a_hint_says_what_to_do(rules: str, hint: str | None) -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"t.rego": f"package t\n\n{rules}"})
    assert caught.value.diagnostics[0].hint == hint


def test_details_say_which_types_met() -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"t.rego": 'package t\np if { x := {"a": [1, null]}; x == {"a"} }'})
    details = caught.value.diagnostics[0].details
    assert details is not None
    assert details.lines == ("left  : object<a: array<number, null>>", "right : set[string]")
    assert details.data == {
        "a": {
            "type": "object",
            "static": [
                {
                    "key": "a",
                    "value": {"type": "array", "static": [{"type": "number"}, {"type": "null"}]},
                }
            ],
        },
        "b": {"type": "set", "of": {"type": "string"}},
    }


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ("p[input] contains 1 if true", "[v]"),
        ('p["k"] if true\np[input] contains 1 if true', "[v]"),
        ("p[x] contains 1 if some x in [1, 2]", "[v]"),
    ],
)
def test_sets_below_an_open_key_have_the_type_of_its_values(rules: str, key: str) -> None:
    text = f"package a\n{rules}\nq if {{\n\tv := 1\n\tstartswith(data.a.p{key}, `x`)\n}}"
    with pytest.raises(CompileError, match=r"startswith: invalid argument\(s\)"):
        Engine({"a.rego": text})
    Engine({"a.rego": text.replace("startswith(data.a.p[v], `x`)", "data.a.p[v]")})


def test_a_key_of_another_type_than_that_of_an_open_one_is_an_error() -> None:
    text = 'package a\np[x] contains 1 if some x in [1, 2]\nq if data.a.p["k"]'
    with pytest.raises(CompileError, match=r"rego_type_error: undefined ref: data\.a\.p\.k"):
        Engine({"a.rego": text})
