"""Rules that are seldom written: what they mean, or why they are refused.

Each row: the rules of `package a`, the input, and `data.a.p` as Rego text, or `row: message` for
each error, with its details indented below.
"""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import REGISTRY, UNDEFINED, CompileError, Engine, Registry, to_python
from doorward.rego.analysis import passes
from doorward.rego.analysis.passes import PASSES, CheckOptions, Program, check, resolved_modules
from doorward.rego.builtins.registry.signature import any_, string
from doorward.rego.errors import Diagnostic
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module
from doorward.rego.values import to_rego

DATA = {"x": {"k": 1}, "l": [1, 2]}


def outcome(rules: list[str], input: Any = UNDEFINED, **options: Any) -> str:
    text = "\n\n".join(["package a", *rules]) + "\n"
    try:
        value = Engine({"a.rego": text}, DATA, **options).prepare("data.a.p").value(input)
    except CompileError as error:
        return errors(error)
    return "undefined" if value is UNDEFINED else to_rego(value)


def errors(error: CompileError) -> str:
    lines: list[str] = []
    for diagnostic in error.diagnostics:
        lines.append(f"{diagnostic.span.row}: {diagnostic.message}")
        lines += [f"  {line}" for line in (diagnostic.details.lines if diagnostic.details else ())]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("rules", "input", "want"),
    [
        (
            ["p := data.x[input]"],
            "k",
            "1",
        ),
        (
            ["p := y if [input, y] = [1, 2]"],
            1,
            "2",
        ),
        (
            ["p := y if [input, y] = data.l"],
            1,
            "2",
        ),
        (
            ["p := y if [1, 2] = [y]"],
            None,
            "3: var y is unsafe",
        ),
        (
            ['p := y if [1] = {"a": y}'],
            None,
            "3: var y is unsafe",
        ),
        (
            ["p if {\n\tx := 1\n\tsome [x, y] in [[x, 1]]\n\ty\n}"],
            None,
            "true",
        ),
        (
            ["p contains input[i] if i > 0"],
            None,
            "set()",
        ),
        (
            ["p contains xs[i] if i > 1", "xs := [1, 2, 3]"],
            None,
            "{3}",
        ),
        (
            ["p[i] contains xs[i] if i > 1", "xs := [1, 2, 3]"],
            None,
            "{2: {3}}",
        ),
        (
            ["p[xs[i]] contains i if i > 0", "xs := [1, 2, 3]"],
            None,
            "{2: {1}, 3: {2}}",
        ),
        (
            ["p := xs[i] if {\n\ti > 0\n\tj > 0\n}", "xs := [1, 2, 3]"],
            None,
            "5: var j is unsafe",
        ),
        (
            ["p := [x, x]"],
            None,
            "3: var x is unsafe",
        ),
        (
            ["p if lower(eq(1, 2)) == 1"],
            None,
            "3: expression is unsafe",
        ),
        (
            ["p := eq(1, 2) == eq(3, 4)"],
            None,
            "3: expression is unsafe\n3: expression is unsafe",
        ),
        (
            ["p if x = [y | y = x]"],
            None,
            "3: var x is unsafe",
        ),
        (
            ['p := x if {"a": x} = {k: v | some k, v in input}'],
            {"a": 1},
            "1",
        ),
        (
            ["p := x if {\n\t[x] = y.z\n\ty := input\n}"],
            {"z": [1]},
            "5: var y referenced above",
        ),
        (
            ["p := x if {\n\t[x] = input.z\n}"],
            {"z": [1]},
            "1",
        ),
        (
            ["p := [x, y, z] if [x, y, z] = [[y, z], [z], 1]"],
            None,
            "[[[1], 1], [1], 1]",
        ),
        (
            ["p if [x, w] = [[y, y], x]"],
            None,
            "3: var w is unsafe\n3: var x is unsafe\n3: var y is unsafe",
        ),
        (
            ["p if [x] = y.z"],
            None,
            "3: var x is unsafe\n3: var y is unsafe",
        ),
        (
            ['p := y if {"a": y, input.k: 2} = {"a": 1, input.j: 2}'],
            {"k": "c", "j": "c"},
            "1",
        ),
        (
            ["p := {xs[i], j} if {\n\ti > 0\n\tsome j in [1]\n}", "xs := [1, 2]"],
            None,
            "{1, 2}",
        ),
        (
            ["f(x) := 1", "p := f()"],
            None,
            "5: expression is unsafe",
        ),
        (
            ['q["a"] := 1', "p := data.a.q[s]", "s := 1"],
            None,
            "5: undefined ref: data.a.q[__local1__]\n"
            "  data.a.q[__local1__]\n"
            "           ^\n"
            "           have (type): number\n"
            '           want (one of): ["a"]',
        ),
        (
            ["f() := 1", "p if f(1)"],
            None,
            "5: undefined function data.a.f",
        ),
        (
            ["f() := 1", "p if f()"],
            None,
            "5: undefined function data.a.f",
        ),
        (
            ["p := count([x | x := 1], [1])"],
            None,
            "3: count: arity mismatch\n"
            "  have: (???, array<number>, ???)\n"
            "  want: (any<string, array[any], object[any: any], set[any]>)",
        ),
        (
            ['p := count("a", $"{input}")'],
            None,
            "3: count: arity mismatch\n"
            "  have: (string, ???, ???)\n"
            "  want: (any<string, array[any], object[any: any], set[any]>)",
        ),
        (
            ['f(x, y) if {"a": x} = {"b": y}'],
            None,
            "3: match error\n  left  : object<a: ???>\n  right : object<b: ???>",
        ),
        (
            ['f(x, y) if {"a": x} = {"a": y}', "p if f(1, 1)"],
            None,
            "true",
        ),
        (
            ["p := o[s]", 'o := {"a": 1}', "s := 1"],
            None,
            "3: undefined ref: data.a.o[__local1__]\n"
            "  data.a.o[__local1__]\n"
            "           ^\n"
            "           have (type): number\n"
            '           want (one of): ["a"]',
        ),
        (
            ["p if {1} == [input.x]"],
            None,
            "3: match error\n  left  : set[number]\n  right : array<any>",
        ),
        (
            ["p := q[set()].z", 'q := {"a": 1}'],
            None,
            "3: undefined ref: data.a.q[set()].z\n"
            "  data.a.q[set()].z\n"
            "           ^\n"
            "           have (type): set[any]\n"
            "           want (type): string",
        ),
        (
            ["p := q[{1, input.x}].z", 'q := {"a": 1}'],
            None,
            "3: undefined ref: data.a.q[{1, __local1__}].z\n"
            "  data.a.q[{1, __local1__}].z\n"
            "           ^\n"
            "           have (type): set[any]\n"
            "           want (type): string",
        ),
        (
            ['p := q[[lower("A")]].z', 'q := {"a": 1}'],
            None,
            "3: undefined ref: data.a.q[[__local0__]].z\n"
            "  data.a.q[[__local0__]].z\n"
            "           ^\n"
            "           have (type): array<string>\n"
            "           want (type): string",
        ),
        (
            ['p := lower("a").b'],
            None,
            "3: undefined ref: __local0__.b\n  __local0__.b\n  ^^^^^^^^^^\n  have: string",
        ),
        (
            ["p[x][y] := z if some x, y in q\n\nz := 1", 'q := object.get(input, "a", 1)'],
            {"a": {"x": "y"}},
            '{"x": {"y": 1}}',
        ),
        (
            ["p if rego.metadata.rule(x)"],
            None,
            "true",
        ),
        (
            ["# METADATA\n# title: t\np := x if rego.metadata.rule(x)"],
            None,
            '{"scope": "rule", "title": "t"}',
        ),
        (
            ["# METADATA\n# custom:\n#  v: 1.5\np := rego.metadata.rule().custom.v"],
            None,
            "1.5",
        ),
        (
            ["p[x] := y if some x, y in input", "default p.d := 7", "q := p.d"],
            {"x": 1},
            '{"d": 7, "x": 1}',
        ),
        (
            ["p[x].z := y if some x, y in input", "default p.d.e := 7"],
            {"x": 1},
            '{"d": {"e": 7}, "x": {"z": 1}}',
        ),
        (
            ["p[x] := y if some x, y in input", "p.f(z) := z", "r := p.x"],
            {"x": 1},
            '{"x": 1}',
        ),
        (
            ['p := $"{x}" if some x in [1]'],
            None,
            '"1"',
        ),
        (
            ['p := $"{x}"'],
            None,
            "3: var x is unsafe",
        ),
        (
            ["p := input.z with input.z as 1"],
            None,
            "3: expressions using with keyword cannot be used for rule head",
        ),
    ],
)
def test_rules(rules: list[str], input: Any, want: str) -> None:
    assert outcome(rules, UNDEFINED if input is None else input) == want


@pytest.mark.parametrize("word", ["every", "if", "in", "contains"])
def test_a_keyword_that_was_not_imported_is_a_variable_with_a_hint(word: str) -> None:
    actual = outcome([f"p = x {{ x = {word} }}"], v0=True)
    hint = f"(hint: `import future.keywords.{word}` to import a future keyword)"
    assert f"3: var {word} is unsafe {hint}" in actual.splitlines()


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        (["import input", "p if input.x"], "true"),
        (["import input as i", "p if i.x"], "true"),
        (["import data as d", "p := d.x.k"], "1"),
        (['import input["x y"] as z', "p := z"], "undefined"),
    ],
)
def test_whole_documents_can_be_imported(rules: list[str], want: str) -> None:
    assert outcome(rules, {"x": 1}) == want


@pytest.mark.parametrize(
    ("inner", "want"),
    [
        ("q := 1", {"b": {"z": 1, "q": 1}}),
        ("q[y] := 1 if some y in input", {"b": {"z": 1, "q": {"z": 1}}}),
    ],
)
def test_a_package_may_stand_in_the_open_place_of_a_rule(inner: str, want: Any) -> None:
    outer = "package a\n\nb[x] := 1 if some x in input\n"
    engine = Engine({"a.rego": outer, "b.rego": f"package a.b\n\n{inner}\n"})
    assert to_python(engine.prepare("data.a").value(["z"])) == want


def test_a_type_of_very_many_kinds_says_nothing() -> None:
    rules = [f'q := {{"k{n}": {n}}} if input == {n}' for n in range(201)]
    assert outcome([*rules[:100], "p := 1 if q == 1"], 7).startswith("203: match error")
    assert outcome([*rules, "p := 1 if q == 1"], 7) == "undefined"


def test_data_beside_a_rule_with_a_number_for_a_name_is_no_conflict() -> None:
    Engine({"a.rego": "package a\n\np[1] := 2\n"}, {"a": {"p": {"1": 3}}}).check_data()


def test_builtins_without_an_answer_are_conditions() -> None:
    registry = Registry(REGISTRY)
    heard: list[Any] = []

    @registry.builtin("acme.log", variadic=any_, returns=None)
    def acme_log(*values: Any) -> bool:
        heard.append(values)
        return True

    @registry.builtin("acme.note", string, returns=None)
    def acme_note(text: str) -> bool:
        heard.append(text)
        return True

    @registry.builtin("acme.tell", string, variadic=any_, returns=None)
    def acme_tell(text: str, *values: Any) -> bool:
        heard.append((text, *values))
        return True

    def outcome_of(rule: str) -> str:
        return outcome([rule], {"x": 3}, registry=registry)

    assert outcome_of("p if { acme.log(1, x); x = 2 }") == "true"
    assert outcome_of("p if acme.log(1, input.x)") == "true"
    assert outcome_of('p if acme.note("n")') == "true"
    assert outcome_of("p if acme.log(1, x)") == "3: var x is unsafe"
    assert outcome_of('p := acme.note("n")') == '3: acme.note("n") used as value'
    assert outcome_of("p if acme.note(1)") == (
        "3: acme.note: invalid argument(s)\n  have: (number)\n  want: (string)"
    )
    assert heard == [(1, 2), (1, 3), "n"]
    heard.clear()
    assert outcome_of('p if acme.tell("t")') == "true"
    assert outcome_of('p if acme.tell("t", 1, input.x)') == "true"
    assert outcome_of("p if acme.tell(input.x, 1)") == "undefined"
    assert outcome_of("p if not acme.tell(input.x, 1)") == "true"
    assert heard == [("t",), ("t", 1, 3)]
    assert outcome_of("p if acme.tell()") == (
        "3: acme.tell: too few arguments\n  have: ()\n  want: (string)"
    )
    assert outcome_of("p if acme.tell(1, 2)") == (
        "3: acme.tell: invalid argument(s)\n  have: (number, number)\n  want: (string)"
    )


def test_conditions_that_built_ins_decide_stay_in_residuals() -> None:
    registry = Registry(REGISTRY)
    registry.builtin("acme.tell", string, variadic=any_, returns=None)(lambda text, *rest: True)
    registry.builtin("acme.note", string, returns=None)(lambda text: True)
    rules = 'package t\n\np if { acme.tell("a", 1); acme.note("b"); acme.tell(input.x, 2) }\n'
    engine = Engine({"t.rego": rules}, {"x": {"y": 1}}, registry=registry)
    assert engine.partial("data.t.p").query_texts == ("acme.tell(input.x, 2)",)
    rules = "package t\n\np if { acme.tell(data.x.y, 2) }\n"
    use = engine.with_modules({"t.rego": rules}).policies.lowered.data_use([("t", "p")])
    assert use.values == {("x", "y")}


def test_the_chain_of_metadata_leaves_other_packages_out() -> None:
    modules = {
        "a.rego": "# METADATA\n# scope: subpackages\n# title: outer\npackage a\n\nr := 1\n",
        "b.rego": "# METADATA\n# title: other\npackage b\n\np := 1\n",
        "c.rego": (
            "# METADATA\n# title: own\npackage a.c\n\n"
            "# METADATA\n# title: rule\np := rego.metadata.chain()\n\nq := 1\n"
        ),
    }
    value = Engine(modules).prepare("data.a.c.p").value()
    assert [item["annotations"]["title"] for item in value] == ["rule", "own", "outer"]
    assert [item["path"] for item in value] == [["a", "c", "p"], ["a", "c"], ["a"]]


def test_the_passes_are_verbs_in_their_order() -> None:
    assert [each.__name__ for each in PASSES] == [
        "split_operator_chains",
        "resolve_names",
        "build_rule_tree",
        "check_annotations",
        "check_replacements",
        "check_conflicts",
        "check_calls",
        "order_bodies",
        "check_recursion",
        "check_types",
        "check_deprecated",
    ]


def test_a_check_keeps_modules_with_their_names_resolved_and_bodies_as_written() -> None:
    texts = {
        "a.rego": "package a\n\np if {\n\tx == 1\n\tx = input.x\n}\n\nq if input.y\n",
        "b.rego": "package b\n\nr := 1\n",
    }
    modules = {name: parse_module(Source(name, text)) for name, text in texts.items()}
    program = check(list(modules.values()), REGISTRY, CheckOptions())
    p, q = resolved_modules(program)[0].rules
    assert [expr.span.row for expr in p.body] == [4, 5]
    assert [expr.span.row for expr in program.modules[0].rules[0].body] == [5, 4]
    assert q is program.modules[0].rules[1]  # it is in order: there is nothing to change in it
    modules["b.rego"] = parse_module(Source("b.rego", "package b\n\nr := 2\n"))
    again = check(list(modules.values()), REGISTRY, CheckOptions(), before=program)
    assert resolved_modules(again)[0] is resolved_modules(program)[0]
    assert [expr.span.row for expr in again.modules[0].rules[0].body] == [5, 4]


def test_where_no_module_is_unchanged_all_are_checked() -> None:
    def program(number: int, before: Program | None = None) -> Program:
        module = parse_module(Source("a.rego", f"package a\n\np := {number}\n"))
        return check([module], REGISTRY, CheckOptions(), before=before)

    first = program(1)
    second = program(2, first)
    assert second.modules[0] is not first.modules[0]
    assert second.known == {}


def test_a_module_too_deep_to_be_checked_with_others_is_checked_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"a.rego": "package a\n\np := 1\n", "b.rego": "package b\n\nq := 1\n"}
    modules = {name: parse_module(Source(name, text)) for name, text in texts.items()}
    first = check(list(modules.values()), REGISTRY, CheckOptions())
    modules["b.rego"] = parse_module(Source("b.rego", "package b\n\nq := data.a.p\n"))

    def recurse(program: Program) -> list[Diagnostic]:
        if program.known:
            raise RecursionError
        return []

    monkeypatch.setattr(passes, "PASSES", (recurse, *passes.PASSES))
    again = check(list(modules.values()), REGISTRY, CheckOptions(), before=first)
    assert again.modules[0] is not first.modules[0]
    assert [module.span.file for module in again.modules] == ["a.rego", "b.rego"]


def test_a_new_function_leaves_unchanged_modules_as_they_are() -> None:
    texts = {
        "a.rego": "package a\n\np if {\n\tx == 1\n\tdata.b.f(input.x, x)\n}\n",
        "b.rego": "package b\n\nf(x) := x\n",
    }
    modules = {name: parse_module(Source(name, text)) for name, text in texts.items()}
    program = check(list(modules.values()), REGISTRY, CheckOptions())
    assert [expr.span.row for expr in program.modules[0].rules[0].body] == [5, 4]

    def changed(text: str) -> Program:
        module = parse_module(Source("b.rego", f"package b\n\n{text}\n"))
        return check([modules["a.rego"], module], REGISTRY, CheckOptions(), before=program)

    again = changed("f(x) := x\n\ng(x, y) := x + y")
    assert again.modules[0] is program.modules[0]
    # The second operand is an input now, and nothing binds it.
    with pytest.raises(CompileError, match="var x is unsafe"):
        changed("f(x, y) if x == y")
    with pytest.raises(CompileError, match=r"undefined function data\.b\.f"):
        changed("g(x) := x")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("f(1).b(2)", "undefined function f(1).b"),
        ("f(f(1).a(2))", "undefined function f(1).a"),
        ("[f][0](1)", "undefined function [f][0]"),
        ("{1}(2)", "undefined function {1}"),
        ("[x | x := 1](2)", "undefined function [x | x := 1]"),
        ("input.a(1)[2](3)", "undefined function input.a(1)[2]"),
        ("every x in f(1).b(2) { x }", "undefined function f(1).b"),
        ("data.t[input.x](1)", "undefined function data.t[input.x]"),
        (
            "true with f(1).a as 2",
            "with keyword target must reference existing input, data, or a function",
        ),
        (
            "true with input.x(1).y as 2",
            "with keyword target must reference existing input, data, or a function",
        ),
    ],
)
def test_callees_and_targets_that_begin_with_no_name_are_refused(
    expression: str, message: str
) -> None:
    with pytest.raises(CompileError) as refused:
        Engine({"t.rego": f"package t\n\nf(x) := x\n\np if {{\n\t{expression}\n}}\n"})
    (error,) = refused.value.diagnostics
    assert (error.code, error.message.partition("\n")[0]) == ("rego_type_error", message)


@pytest.mark.parametrize(
    "expression",
    [
        "every x in [1] { f(x) with f as g }",
        "every x in [1] { g(x, 1) with g as f }",
        "not { f(1) with f as g }",
        "{ f(1) with f as g } or input.x",
        'every x in ["a"] { startswith(x, "a") with startswith as f }',
        "every x in [1] { f(x) with f as startswith }",
    ],
)
def test_a_function_is_replaced_by_one_with_as_many_operands_in_each_body(expression: str) -> None:
    imports = ["future.keywords.not", "future.keywords.or"]
    head = "package t\n\n" + "".join([f"import {each}\n" for each in imports])
    functions = f"{head}f(x) := x\n\ng(x, y) := y\n"
    with pytest.raises(CompileError, match="which replaces it, "):
        Engine({"t.rego": f"{functions}\np if {{ {expression} }}\n"})
    engine = Engine({"t.rego": functions})
    with pytest.raises(CompileError, match="which replaces it, "):
        engine.prepare(expression, package="t", imports=imports)
