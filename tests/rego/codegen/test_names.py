"""Names in generated code: what a policy calls its things never makes two of them one."""

from __future__ import annotations

import ast
import json
from itertools import combinations, permutations
from typing import Any

import pytest

from doorward.rego import CompileError, Engine, Registry
from doorward.rego.builtins.registry.signature import any_
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.program import Unit
from doorward.rego.shared import InternalError
from doorward.rego.source import Source
from doorward.rego.values import UNDEFINED, operand_text

pytestmark = pytest.mark.long

KEYS = [
    *("", "a", "b", "a.b", "a.b.c", ".", "a.", ".a", "a b", "A"),
    *('a b"]["a b', '"]["', 'x-1"]["y-1'),
    *('"', "'", "\\", 'a"]["b', 'a"].b', 'b"]["c', 'a\\"]["b', "a]", "[a", '["a"]', "]["),
    *("if", "not", "None", "True", "lambda", "__debug__", "__class__", "__builtins__", "__name__"),
    *("ctx", "rt.type", "k.0", "path.a", "data.t", "table", "a#0", "#0", "a@1", "$0"),
    # Python's parser reads these as the same identifiers: `ﬁ` as `fi`, the Kelvin sign as `K`.
    *("fi", "\ufb01", "K", "\u212a", "a\u0301", "\u00e1", "ſ", "s", "ª", "𝐚"),
    *("\0", "\n", "\t", "\x7f", "\u2028", "\u200b", "\U0001f600", "\ufffd"),
]
"""Member names of which no two are one."""

ODD = ["a b", "", "x-1", "y-1", "a.b", "é"]
"""Those that no reference writes behind a dot."""


def said(*path: str) -> str:
    return "".join([f"[{json.dumps(name)}]" for name in path])


def test_operands_of_a_reference_never_read_alike() -> None:
    keys: list[Any] = [*KEYS, 0, 1, True, False, None, "0", "1", "true", "null", "[0]"]
    paths = [(key,) for key in keys] + [(a, b) for a in keys for b in keys]
    texts = {"".join(map(operand_text, path)) for path in paths}
    assert len(texts) == len(paths)


@pytest.mark.parametrize("shape", ["x{}.y", "x{}", "x.y{}.z", "x{0}{0}"])
def test_rules_of_odd_names_answer_for_themselves(shape: str) -> None:
    places = [shape.format(said(key)) for key in KEYS]
    rules = "\n".join([f"{number} := {n}" for n, number in enumerate(places)])
    engine = Engine({"t.rego": f"package t\n\n{rules}\n"})
    for n, number in enumerate(places):
        assert engine.prepare(f"data.t.{number}").value() == n


def test_rules_at_one_place_and_at_two_answer_for_themselves() -> None:
    places = [said(key) for key in KEYS if key not in ODD]
    places += [said(a, b) for a in ODD for b in ODD]
    places += ["[0]", "[1]", "[true]", "[null]", '["0"]', '["true"]']
    rules = "\n".join([f"x{number}[input] := {n}" for n, number in enumerate(places)])
    calls = "\n".join([f"f{number}(y) := {n} if y" for n, number in enumerate(places)])
    engine = Engine({"t.rego": f"package t\n\n{rules}\n\n{calls}\n"})
    for n, number in enumerate(places):
        assert engine.prepare(f"data.t.x{number}.y").value("y") == n
        assert engine.prepare(f"data.t.f{number}(1)").value() == n


def test_functions_of_odd_names_answer_for_themselves() -> None:
    rules = "\n".join([f"x{said(key)}(y) := {n} + y" for n, key in enumerate(KEYS)])
    calls = ", ".join([f"data.t.x{said(key)}(input)" for key in KEYS])
    engine = Engine({"t.rego": f"package t\n\n{rules}\n\np := [{calls}]\n"})
    assert engine.prepare("data.t.p").value(0) == list(range(len(KEYS)))


def test_tables_of_odd_names_answer_for_themselves() -> None:
    rules = "\n".join(
        [
            f'x{said(key)} := "{m}-{n}" if input.m == {m}'
            for n, key in enumerate(KEYS)
            for m in range(9)
        ]
    )
    engine = Engine({"t.rego": f"package t\n\n{rules}\n"})
    assert "rt.candidates" in engine.emit()["t.rego"]
    for n, key in enumerate(KEYS):
        assert engine.prepare(f"data.t.x{said(key)}").value({"m": 4}) == f"4-{n}"


def test_packages_of_odd_names_answer_for_themselves() -> None:
    modules = {f"{n}": f"package t{said(key)}\n\np := {n}\n" for n, key in enumerate(KEYS)}
    engine = Engine(modules)
    for n, key in enumerate(KEYS):
        assert engine.prepare(f"data.t{said(key)}.p").value() == n


SPLIT = ["input.a.b.c", 'input["a.b"].c', 'input.a["b.c"]', 'input["a.b.c"]']
INPUTS: list[Any] = [
    {"a": {"b": {"c": 0}}, "a.b": {"c": 1}, "a.b.c": 3},
    {"a": {"b.c": 2}},
    {"a.b": {"c": 1}, "a.b.c": 3},
    {"a": "text", "a.b": {"c": 1}},
    {"a": {"b": 7}, "a.b.c": 3},
    {"a": [{"b": 1}], "a.b": ["c"], "a.b.c": False},
    {"a": None, "a.b": None},
]


def looked_up(input: Any, path: str) -> Any:
    names = {"input.a.b.c": "a b c", 'input["a.b"].c': "a.b c", 'input.a["b.c"]': "a b.c"}
    for name in names.get(path, "a.b.c").split(" "):
        input = input.get(name, UNDEFINED) if isinstance(input, dict) else UNDEFINED
    return input


@pytest.mark.parametrize("pair", list(permutations(SPLIT, 2)), ids=" ".join)
def test_paths_that_dots_would_make_one_are_read_apart(pair: tuple[str, str]) -> None:
    first, second = pair
    modules = {
        "1": f"package one\n\np := [{first}]\n\nq if {{ {first} == 3 }}\n",
        "2": f"package two\n\np := [{second}]\n\nq if {{ {second} == 3 }}\n",
    }
    engine = Engine(modules)
    for input in INPUTS:
        for position, path in (("one", first), ("two", second)):
            want = looked_up(input, path)
            assert engine.prepare(f"data.{position}.p[0]").value(input) == want
            assert engine.prepare(f"data.{position}.q").value(input) == (want == 3 or UNDEFINED)
            # A query brings its own paths to those of the modules.
            assert engine.prepare(f"[{path}][0]").value(input) == want


@pytest.mark.parametrize("pair", list(combinations(["a.b", 'a["b"]', 'a["b.c"]', '["a.b"].c'], 2)))
def test_data_of_odd_names_is_read_apart(pair: tuple[str, str]) -> None:
    data = {"a": {"b": {"c": 1}, "b.c": 2}, "a.b": {"c": 3}, "a.b.c": 4}
    want = {"a.b": {"c": 1}, 'a["b"]': {"c": 1}, 'a["b.c"]': 2, '["a.b"].c': 3}
    refs = [f"data{path}" if path.startswith("[") else f"data.{path}" for path in pair]
    engine = Engine({"t.rego": f"package t\n\np := [{', '.join(refs)}]\n"}, data)
    assert engine.prepare("data.t.p").value() == [want[path] for path in pair]


def test_what_replaces_a_rule_of_an_odd_name_replaces_no_other() -> None:
    rules = 'x["a"]["b"] := 1\n\nx["a\\"][\\"b"] := 2\n\nx["a.b"] := 3\n\n'
    policy = f'{rules}p := [x.a.b, x[`a"]["b`], x[`a.b`]]\n'
    engine = Engine({"t.rego": f"package t\n\n{policy}"})
    for n, target in enumerate([".a.b", '["a\\"][\\"b"]', '["a.b"]']):
        replaced: list[Any] = [1, 2, 3]
        replaced[n] = "new"
        query = f'x := data.t.p with data.t.x{target} as "new"'
        assert engine.prepare(query).results() == [{"x": replaced}]


def test_a_built_in_is_called_by_its_names_and_not_by_their_text() -> None:
    with pytest.raises(CompileError, match=r'undefined function io\["jwt.decode"\]'):
        Engine({"t.rego": 'package t\n\np := io["jwt.decode"](input)\n'})


@pytest.mark.parametrize("name", ["", "data.a", "input.x", "data", "a b", "a.", "1", "é", 'a["b"]'])
def test_a_built_in_cannot_have_a_name_that_a_rule_may_have(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name for a built-in"):
        Registry().builtin(name, returns=any_)(lambda: 1)


@pytest.mark.parametrize("name", ["data_a", "inputs.x", "a.data", "a.b_1.c", "_"])
def test_other_names_can_be_those_of_built_ins(name: str) -> None:
    registry = Registry()
    registry.builtin(name, returns=any_)(lambda: 1)
    assert name in registry


def test_no_name_stands_for_two_things() -> None:
    constants = Constants()
    assert constants.path(["a", "b"]).id == constants.path(["a", "b"]).id == "path.a.b"
    assert constants.path(["a.b"]).id == 'path["a.b"]'
    constants.named("fn.count", len)
    constants.named("fn.count", len)
    with pytest.raises(InternalError, match=r"`fn\.count` stands for two things"):
        constants.named("fn.count", sum)
    constants.named('path["b"]', ("a",))
    with pytest.raises(InternalError):
        constants.named("path.a.b", ("a.b",))


@pytest.mark.parametrize("traced", [False, True])
def test_names_that_python_forbids_are_only_names(traced: bool) -> None:
    policy = (
        "package __debug__\n\n__debug__(__debug__) := x if x := __debug__ + 1\n\n"
        "p contains __debug__ if { some __debug__, _ in input; __debug__ != `b` }\n\n"
        "q := [__debug__ | __debug__ := data.__debug__.__debug__(1)]\n"
    )
    query = Engine({"t.rego": policy}, traced=traced).prepare(
        "[data.__debug__.p, data.__debug__.q]"
    )
    assert query.value({"a": 1, "b": 2}) == [frozenset({"a"}), [2]]


def test_what_python_refuses_to_compile_is_an_error_with_a_place() -> None:
    text = "package t\n# a\fb\u2028c\np := 1\n\nq := 2\n"
    good = ast.parse("def p():\n    pass").body
    (bad,) = ast.parse("\n\n\n\ndef q():\n    pass").body
    assert isinstance(bad, ast.FunctionDef)
    bad.body = [ast.Break(lineno=5, col_offset=5)]
    with pytest.raises(CompileError) as caught:
        list(Unit(Source("t.rego", text), ast.Module([*good, bad], [])).functions())
    (diagnostic,) = caught.value.diagnostics
    assert str(diagnostic).startswith(
        "t.rego:5: rego_compile_error: rule cannot be compiled: 'break'"
    )
    assert text[diagnostic.span.start :] == "q := 2\n"


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "a\ud800b", "é"])
def test_a_policy_may_have_any_file_name(name: str) -> None:
    assert Engine({name: "package t\n\np := input\n"}).prepare("data.t.p").value(1) == 1


def test_code_that_nests_too_deeply_to_be_printed_is_an_error() -> None:
    body = "\n".join([f"\tsome x{n + 1} in x{n}" for n in range(200)])
    engine = Engine({"t.rego": f"package t\n\np if {{\n\tx0 := input\n{body}\n}}\n"})
    assert engine.prepare("data.t.p").value([]) is UNDEFINED
    with pytest.raises(CompileError, match="nests too deeply to be printed"):
        engine.emit()


CALLS = "\n".join([f"\tf(input.a{n})" for n in range(1_000)])


@pytest.mark.parametrize(
    "rules",
    [
        f"p if {{\n{CALLS}\n}}",
        f"p := 1 if {{\n{CALLS}\n}}\n\np := 2 if input.b",
        f"p contains 1 if {{\n{CALLS}\n}}\n\np contains 2 if input.b",
        f"p if not q\n\nq if {{\n{CALLS}\n\tinput.b\n}}\n\nq if input.b",
        f"p if count([1 |\n{CALLS}\n]) == 1",
        f"p if {{\n\tsome _ in input.xs\n{CALLS}\n}}",
    ],
    ids=["rule", "rules", "set", "not", "comprehension", "loop"],
)
def test_a_body_may_have_any_number_of_calls(rules: str) -> None:
    engine = Engine({"t.rego": f"package t\n\nf(x) if x > 0\n\n{rules}\n"})
    given = {"xs": [1], **{f"a{n}": 1 for n in range(1_000)}}
    assert engine.prepare("data.t.p").value(given) not in (UNDEFINED, frozenset())


@pytest.mark.parametrize("length", [1, 2, 16, 17, 500, 3_000])
def test_paths_of_any_length_are_read(length: int) -> None:
    query = Engine({"t.rego": f"package t\n\np := input{'.a' * length}\n"}).prepare("data.t.p")
    input: Any = "end"
    for _ in range(length):
        assert query.value(input) is UNDEFINED
        input = {"a": input}
    assert query.value(input) == "end"
