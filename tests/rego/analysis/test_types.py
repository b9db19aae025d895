"""What can never hold is refused when a policy is compiled, in OPA's words."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine

REFUSED = [
    ('p := 1 + "a"', "plus: invalid argument(s)\n\thave: (number, string, ???)"),
    ('p if "a" == 1', "match error\n\tleft  : string\n\tright : number"),
    ('p if { x := {"a": 1}; x.b }', 'want (one of): ["a"]'),
    ("p if { x := [1]; x[2] }", "undefined ref: x[2]"),
    ("p := f.x\nf(x) := x", "function data.t.f.x used as reference, not called"),
    ('p := f("a")\nf(x) := x + 1', "data.t.f: invalid argument(s)"),
    ("p := [1, 2][3]", "undefined ref: __local0__[3]"),
    ('p if { some x, y in ["a"]; x == "a" }', "match error"),
    ('p := {x | x := [1][_]; x == "a"}', "match error"),
    ("p := sum([input.x, x]) if x := {`a`: 1}", "sum: invalid argument(s)"),
    ("u() := y if input[y]\nf(x) := u()\np := f(1)", "data.t.f: too many arguments"),
    ("p if input.k[1] with input.k.k as 1", 'want (one of): ["k"]'),
    ("p if { [data.k] == [1] with data.k.k as 1 }", "left  : array<object<k: any>[string: any]>"),
    ("p if { lower(input.k) with input.k.k as 1 }", "lower: invalid argument(s)"),
    ("p if { input[x] == 1 with input.k as 1; x + 1 }", "plus: invalid argument(s)"),
    ("p if { q == `x` with q as 1 }\nq := [`y`]", "left  : any<number, array<string>>"),
    ("p if { o.b == `x` with o as 1 }\no.b := 1", "left  : number"),
    ("p if { xs := [plus | plus = 1]; 1 + 2 == 3 }", "left  : (number, number) => number"),
    ("p if { xs := [1 | input[lower]] }\nq := lower(`A`)", "have (type): (string) => string"),
    ("p if { input[lower]; lower(`a`) }", "undefined function lower"),
    ("p := lower(`a`) if input[lower]", "undefined function lower"),
    ("p if { input[eq]; x = 1 }", "undefined function eq"),
    ("p if { f(1) with f as g }\nf(x) := x\ng(x, y) := 1", "data.t.f: arity mismatch"),
    ("p if { g(1, 2) with f as g }\nf(x) := x\ng(x, y) := f(x)", "data.t.f: arity mismatch"),
    ("f(w) if { x := {[w]}; x == 1 }", "left  : set[array<???>]\n\tright : number"),
    ("f(w, v) if { x := {[w]}; x == {[v]} }", "right : set[array<???>]"),
]

ACCEPTED = [
    "p := input.x + 1 if input.x == `a`",
    "p := f(input.m)\nf({`a`: a}) := a\nf({`a`: a, `b`: b}) := [a, b]",
    "p(a) := {a | some c in input.s; c}",
    "p if { some x in input; x.y == 1 }\nq if { some x in input; x.y == `a` }",
    "fn(__local0__) := [__local0__]\np contains x if { fn(1, __local1__); x = __local1__[0] }",
    "p contains data.other[x].y if input[x]",
    "p if { q == 1 with q as 1 }\nq := `x`",
    "p if { startswith(q, `a`) with q as `a` }\nq := 1",
    "p if { q.x == 1 with q as {} }\nq := 1",
    "p if { input.k[x] with input.k.k as 1 }",
    "p if { data.k.k.x == 1 with data.k.k as 1 with data.k as [1] }",
    "p if input[lower]\nq := lower(`A`)",
    "p if { every x in [1] { input[lower]; x } }\nq := lower(`A`)",
    "p if { xs := [lower | some lower in [1]] }\nq := lower(`A`)",
    "u() := y if input[y]\ns[u()] := 1\ns[lower(`A`)] := 1\np := s[1]",
    # A part of what a variable is bound to may have no type, such as that of a parameter.
    "f(w) := {[w, x] | some x in input.xs}",
    "f(w) := [[w] | true]",
    "f(w) := {w: [w] | true}",
    "f(w) := count({[w]})",
    "f(w) if { some x in {[w]}; x }",
]


def test_an_index_of_minus_zero_is_that_of_the_first_item() -> None:
    assert Engine().prepare("[1, 2][-0]").value() == 1
    with pytest.raises(CompileError, match="undefined ref"):
        Engine().prepare("[1, 2][-1]")


def test_a_part_of_a_parameter_gets_a_type_by_what_it_is_compared_with() -> None:
    rules = Engine({"t.rego": "package t\n\nf(x, y) if { {[x]} = y }\n"})
    with pytest.raises(CompileError, match=r"want: \(any, set\[array<\?\?\?>\], boolean\)"):
        rules.prepare("data.t.f(1, {1})")


@pytest.mark.parametrize(("rules", "message"), REFUSED)
def test_what_can_never_hold_is_refused(rules: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"t.rego": f"package t\n{rules}"})
    assert message in str(caught.value)
    assert {d.code for d in caught.value.diagnostics} == {"rego_type_error"}


@pytest.mark.parametrize("rules", ACCEPTED)
def test_what_may_hold_is_accepted(rules: str) -> None:
    Engine({"t.rego": f"package t\n{rules}"})


def test_a_query_knows_the_types_of_rules() -> None:
    engine = Engine({"t.rego": "package t\np := 1"})
    with pytest.raises(CompileError, match=r"undefined ref: data\.t\.p\.x"):
        engine.prepare("data.t.p.x")
    engine.prepare('data.t.p == "a"')  # a comparison that is false, not an error


def test_one_mistake_is_reported_once() -> None:
    with pytest.raises(CompileError) as caught:
        Engine({"t.rego": 'package t\np := 1 + "a"\nq := p.x.y + 1'})
    assert len(caught.value.diagnostics) == 1


def test_what_follows_from_a_mistake_is_reported_as_in_opa() -> None:
    rules = 'f(x) := 1 + "a"\n%s\np := %s(1)'
    for second, function, following in (
        ("g(x) := f(x)", "g", "data.t.g: too many arguments"),
        ("g(x) := [f(x)]", "g", None),
    ):
        with pytest.raises(CompileError) as caught:
            Engine({"t.rego": f"package t\n{rules % (second, function)}"})
        messages = [d.message for d in caught.value.diagnostics]
        assert messages == ["plus: invalid argument(s)", *([following] if following else [])]


@pytest.mark.parametrize(
    "doubled",
    [
        "[{x}, {{`a`: {x}}}]",
        "{{{x}, [{x}]}}",
        "{{{x}: {x}}}",
        "{{{x}: {x} | true}}",
        "[y | some y in [{x}, [{x}]]]",
        "{{y | some y in [{x}, {{{x}}}]}}",
    ],
)
@pytest.mark.parametrize("kind", ["body", "rules"])
def test_terms_that_share_their_parts_are_compiled_in_no_time(doubled: str, kind: str) -> None:
    steps = [f"x{n + 1} := {doubled.format(x=f'x{n}')}" for n in range(60)]
    rules = f"p if {{ x0 := [`a`]; {'; '.join(steps)}; count(x60) == 2 }}"
    if kind == "rules":
        rules = "\n".join(["x0 := [`a`]", *steps, "p if count(x60) == 2"])
    Engine({"t.rego": f"package t\n\n{rules}\n"})


def test_a_part_may_stand_in_many_places() -> None:
    members = ", ".join(["r"] * 400)
    with pytest.raises(CompileError, match="undefined ref"):
        Engine({"t.rego": f"package t\n\np if {{ r := {{`a`: 1}}; xs := [{members}]; xs[7].b }}\n"})


FUNCTIONS = "package q\n\nf(x) := x\n"


@pytest.mark.parametrize(
    "body",
    [
        "some k, _ in data.q",
        "x := data.q[k]",
        "data.q[input.k] == 1",
        "x := data.q[k][j]",
        "xs := [x | x := data.q[k]]",
        "every x in data.q[k] { x }",
    ],
)
@pytest.mark.parametrize("more", ["", "g(x) := 1\n", "g(x, y) := 1\n"])
def test_nothing_is_known_of_the_members_of_a_package_of_functions(body: str, more: str) -> None:
    """As in OPA."""
    modules = {"q.rego": FUNCTIONS + more, "p.rego": f"package p\n\nr if {{ {body} }}\n"}
    with pytest.raises(CompileError, match="match error"):
        Engine(modules)


@pytest.mark.parametrize("more", ["g := 1\n", "a := 1\n"])
@pytest.mark.parametrize("body", ["some k, _ in data.q", "data.q[k] == `a`", "x := data.q"])
def test_a_package_of_functions_and_rules_has_members(body: str, more: str) -> None:
    Engine({"q.rego": FUNCTIONS + more, "p.rego": f"package p\n\nr if {{ {body} }}\n"})
