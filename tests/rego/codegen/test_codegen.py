"""What the generated Python looks like where somebody relies on it."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from doorward.rego import UNDEFINED, CompileError, Engine, EvalError
from doorward.rego.runtime.exports import EXPORTS


def emitted(text: str) -> str:
    return Engine({"p.rego": text}).emit()["p.rego"]


def test_emitted_code_is_the_same_every_time() -> None:
    text = "package a\n\np contains x if { some x in input.xs; not x in input.ys }\n"
    assert emitted(text) == emitted(text)


def test_a_body_is_a_nest_of_tests_and_walks() -> None:
    text = 'package a\n\np if {\n\tinput.x == "y"\n\tsome z in input.zs\n\tz > 1\n}\n'
    code = emitted(text)
    assert (
        "for z in _zs if rt.type(_zs) is rt.list and rt.len(_zs) <= 8 else ctx.values(_zs):" in code
    )
    assert "z > 1 if rt.type(z) is rt.int else rt.less(1, z)" in code


def test_a_path_is_read_once() -> None:
    code = emitted('package a\n\np if { input.a.b != "x"; input.a.b != "y" }\n')
    assert code.count("input['a'].get('b', rt.UNDEFINED)") == 1


def test_many_constant_tests_become_a_table() -> None:
    rules = "\n".join(f'p := {n} if input.x == "{n}"' for n in range(20))
    engine = Engine({"p.rego": f"package a\n\n{rules}\n"})
    assert "rt.candidates(table.data.a.p" in engine.emit()["p.rego"]
    query = engine.prepare("data.a.p")
    assert [query.value({"x": str(n)}) for n in (0, 7, 19)] == [0, 7, 19]
    assert query.results({"x": "20"}) == []
    assert query.results({}) == []


def test_table_keeps_definitions_that_test_nothing() -> None:
    rules = "\n".join(f'p contains {n} if input.x == "{n}"' for n in range(20))
    text = f"package a\n\n{rules}\n\np contains 100\n\np contains 101 if input.y\n"
    query = Engine({"p.rego": text}).prepare("data.a.p")
    assert query.value({"x": "3", "y": 1}) == frozenset({3, 100, 101})
    assert query.value({"x": "none"}) == frozenset({100})


@pytest.mark.parametrize(
    ("rule", "input", "wanted"),
    [
        ('p contains {n} if input.x in {{"{n}", "{n}a"}}', "7a", frozenset({7})),
        ('p if input.x == "{n}"', "7", True),
        ('p := {n} if {{ input.x == "{n}" }} else := 0 if input.y', "7", 7),
        ('p if input.x == "{n}"', "none", UNDEFINED),
        ('p contains {n} if startswith(input.x, "{n}")', "12", frozenset({1, 12})),
        ("p contains {n} if input.x in [input.x, {n}]", "", frozenset(range(20))),
    ],
)
def test_tables_of_any_kind_of_rule(rule: str, input: str, wanted: Any) -> None:
    rules = "\n\n".join(rule.format(n=n) for n in range(20))
    query = Engine({"p.rego": f"package a\n\n{rules}\n"}).prepare("data.a.p")
    assert query.value({"x": input}) == wanted


def test_table_over_the_second_parameter() -> None:
    rules = "\n".join(f'f(x, "{n}") := x + {n}' for n in range(20))
    query = Engine({"p.rego": f"package a\n\n{rules}\n"}).prepare('data.a.f(input, "11")')
    assert query.value(3) == 14


def test_table_over_a_parameter() -> None:
    rules = "\n".join(f'f("{n}") := {n}' for n in range(20))
    text = f"package a\n\n{rules}\n\np := f(input.x)\n"
    query = Engine({"p.rego": text}).prepare("data.a.p")
    assert query.value({"x": "11"}) == 11


@pytest.mark.parametrize("walks", [5, 17, 40])
def test_nests_deeper_than_python_allows_go_on_in_functions(walks: int) -> None:
    body = "\n".join(f"\tx{n} := input[_]" for n in range(walks))
    text = f"package a\n\np contains x{walks - 1} if {{\n{body}\n}}\n"
    assert Engine({"p.rego": text}).prepare("data.a.p").value([7]) == frozenset({7})


def test_deep_nests_of_several_definitions_agree_on_one_answer() -> None:
    body = "\n".join(f"\tx{n} := input.xs[_]" for n in range(20))
    rules = "\n\n".join(f"p := x19 if {{\n\tinput.{name}\n{body}\n}}" for name in "ab")
    query = Engine({"p.rego": f"package a\n\n{rules}\n"}).prepare("data.a.p")
    assert query.value({"xs": [7], "a": 1, "b": 1}) == 7
    assert query.value({"xs": [7], "b": 1}) == 7
    with pytest.raises(EvalError, match="must not produce multiple outputs"):
        query.value({"xs": [7, 8], "b": 1})


@pytest.mark.long
def test_a_body_that_python_cannot_follow_is_an_error_of_the_policy() -> None:
    lines = "\n".join(f"\tcount(input.x{n}) == {n}" for n in range(3000))
    try:
        engine = Engine({"p.rego": f"package a\n\nq := 1\n\np if {{\n{lines}\n}}\n"})
    except CompileError as error:
        [diagnostic] = error.diagnostics
        assert diagnostic.code == "rego_compile_error"
        assert diagnostic.message == "rule is too long to be compiled: split it"
        assert (diagnostic.span.file, diagnostic.span.row, diagnostic.span.col) == ("p.rego", 5, 1)
    else:
        # Python 3.13 follows it.
        assert engine.prepare("data.a.p").value({"x0": []}) is UNDEFINED


def test_many_conditions_on_one_value() -> None:
    tests = "; ".join(f"x != {n}" for n in range(20))
    query = Engine({"p.rego": f"package a\n\np if {{ x := input.x; {tests} }}\n"}).prepare(
        "data.a.p"
    )
    assert query.value({"x": 20}) is True
    assert query.value({"x": 19}) is UNDEFINED


def test_variables_are_named_apart() -> None:
    # The second `x` is numbered, and each number is taken by a variable of that very name.
    others = "; ".join(f"x{n} := input.a" for n in range(40, 240))
    rules = [f"p contains x if {{ {others}; x := x99 }}", "p contains x if x := input.b"]
    query = Engine({"p.rego": "package a\n\n" + "\n\n".join(rules) + "\n"}).prepare("data.a.p")
    assert query.value({"a": 1, "b": 2}) == frozenset({1, 2})


@pytest.mark.parametrize(
    ("body", "input", "wanted"),
    [
        ('regex.match("(", input)', "a", False),
        ('regex.match("^(a|b)$", input)', "b", True),
        ('glob.match("/people", [], input)', "/people", True),
        ('glob.match("/people", [], input)', "/people/1", False),
        ('not glob.match("/people", [], input)', 1, True),
        ('concat("", [input, input, input]) == "aaa"', "a", True),
        ('o := {k: 1 | some k in ["a"]}; o[lower(input)] == 1', "A", True),
        ("some x; data.base[x] == input", 2, True),
        ("data.base[input] == 2", "b", True),
        ("input[0] == 1", [1], True),
    ],
)
def test_conditions_of_constants_and_lookups(body: str, input: Any, wanted: bool) -> None:
    text = f"package a\n\ndefault p := false\n\np if {{ {body} }}\n"
    engine = Engine({"p.rego": text}, data={"base": {"b": 2}})
    assert engine.prepare("data.a.p").value(input) is wanted


def test_all_of_base_data_can_be_walked() -> None:
    rows = Engine(data={"a": 1, "b": 2}).prepare("data[x] = y").results()
    assert rows == [{"x": "a", "y": 1}, {"x": "b", "y": 2}]


def test_what_several_definitions_ask_first_is_asked_once() -> None:
    text = 'package a\n\nq := {"b": input}\n\np := 1 if q.b == "x"\n\np := 2 if q.b == "y"\n'
    assert emitted(text).count("data.a.q(ctx)") == 2  # its definition, and one call
    query = Engine({"p.rego": text}).prepare("data.a.p")
    assert [query.value(name) for name in ("x", "y", "z")] == [1, 2, UNDEFINED]


def test_what_open_rules_make_is_walked_by_key() -> None:
    text = 'package a\n\nb[x].k := 1 if some x in ["c", "a", "b"]\n'
    engine = Engine({"p.rego": text})
    assert engine.prepare("[k | data.a.b[k]]").value() == ["a", "b", "c"]
    assert engine.prepare("[k | x := data.a.b; x[k]]").value() == ["a", "b", "c"]


def test_functions_have_no_value_among_partial_rules() -> None:
    text = "package a\n\nb[x] := 1 if some x in input\n\nb.c.f(x) := x\n\np := b.c.f(7)\n"
    assert Engine({"p.rego": text}).prepare("data.a").value(["k"]) == {
        "b": {"k": 1, "c": {}},
        "p": 7,
    }


def test_rules_with_a_default_among_open_ones() -> None:
    text = "package a\n\nb[x].z := 1 if some x in input\n\ndefault b.d.e := 7\n"
    query = Engine({"p.rego": text}).prepare("data.a.b")
    assert query.value(["k"]) == {"k": {"z": 1}, "d": {"e": 7}}
    assert query.value(["d"]) == {"d": {"z": 1, "e": 7}}


def test_partial_rules_hold_the_rules_below_them() -> None:
    text = "package a\n\nb[x] := 1 if some x in input\n\nb.c.d := 2\n"
    query = Engine({"p.rego": text}).prepare("data.a.b")
    assert query.value(["k"]) == {"k": 1, "c": {"d": 2}}
    with pytest.raises(EvalError, match="object keys must be unique"):
        query.value(["c"])


def test_many_conditions_in_one_body() -> None:
    body = "\n".join(f"\tcount(input.x{n}) == {n % 3}" for n in range(400))
    text = f"package a\n\ndefault p := false\n\np if {{\n{body}\n}}\n"
    query = Engine({"p.rego": text}).prepare("data.a.p")
    full = {f"x{n}": [0] * (n % 3) for n in range(400)}
    assert query.value(full) is True
    assert query.value({**full, "x399": [1, 2, 3]}) is False


def test_first_success_ends_a_deep_search() -> None:
    text = (
        "package a\n\np if {\n\tevery x in input {\n\t\tsome y in input\n\t\ty == x\n\t}\n"
        "\tnot equal_all\n}\n\n"
        "equal_all if {\n\tsome x in input\n\tevery y in input { y == x }\n}\n"
    )
    query = Engine({"p.rego": text}).prepare("data.a.p")
    assert query.results([1, 2]) != []
    assert query.results([1, 1]) == []


def test_traceback_shows_the_line_of_the_policy() -> None:
    text = "package a\n\np := 1\n\np := 2 if input.x\n"
    with pytest.raises(EvalError) as caught:
        Engine({"some/p.rego": text}).prepare("data.a.p").value({"x": 1})
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(f.filename == "some/p.rego" and f.name == "data.a.p" for f in frames)


def test_generated_code_reaches_nothing_but_the_exports() -> None:
    engine = Engine({"p.rego": "package a\n\np := count(input.x)\n"})
    namespace = engine.prepare("data.a.p")._value.__globals__  # type: ignore[union-attr]
    assert namespace["__builtins__"] == {}
    own = ("k.", "at.", "fn.", "body.", "path.", "data.", "query", "table.")
    rest = {n for n in namespace if not n.startswith(own)} - {"__builtins__"}
    assert rest == set(EXPORTS)
