"""A function that is called again with equal operands is not evaluated again, as in OPA.

What the rows expect is what OPA 1.9.0 and 1.18.2 printed and answered.
"""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from tests.differences import FOLDER

from doorward.rego import Engine, Environment, EvalError
from doorward.rego.source import Span


def chain(steps: int, first: str, line: str) -> str:
    """Functions `f0` to `f{steps}`, each of which calls the one before it as `line` says."""
    lines = [line.format(n=n, before=n - 1) for n in range(1, steps + 1)]
    return "\n".join(["package t", first, *lines])


EXPONENTIAL = {
    "a number": (
        chain(28, "f0(x) := x", "f{n}(x) := f{before}(x) + f{before}(x)"),
        "data.t.f28(1)",
        2**28,
    ),
    "new objects": (
        chain(
            28,
            "f0(x) := x.a",
            'f{n}(x) := f{before}({{"a": x.a}}) + f{before}({{"a": x.a, "b": 1}})',
        ),
        'data.t.f28({"a": 1})',
        2**28,
    ),
    "new arrays": (
        chain(28, "f0(x) := x[0]", "f{n}(x) := f{before}([x[0], 1]) + f{before}([x[0], 1])"),
        "data.t.f28([1, 1])",
        2**28,
    ),
    "undefined": (
        chain(
            28,
            "f0(x) := x.none",
            "f{n}(x) if {{ not f{before}(x); not f{before}(x); x.none }}",
        ),
        "not data.t.f28(1)",
        True,
    ),
    "a diamond": (
        chain(
            24,
            "f0(r) := {r}",
            'f{n}(r) := {{s | some p in [r, concat("", [r, "x"])]; some s in f{before}(p)}}',
        ),
        'count(data.t.f24(""))',
        25,
    ),
    "several definitions": (
        chain(
            28,
            "f0(x) := 1",
            "f{n}(x) := f{before}(x) + f{before}(x) if x > 0\n"
            "f{n}(x) := f{before}(x) - f{before}(x) if x <= 0",
        ),
        "data.t.f28(1)",
        2**28,
    ),
    "else": (
        chain(
            28,
            "f0(x) := 1",
            "f{n}(x) := 0 if x > 5 else := f{before}(x) + f{before}(x)",
        ),
        "data.t.f28(1)",
        2**28,
    ),
}


@pytest.mark.parametrize("name", EXPONENTIAL)
@pytest.mark.parametrize("strict", [False, True], ids=["fast", "exact"])
def test_equal_calls_are_evaluated_once(name: str, strict: bool) -> None:
    """Without the cache each takes 2^24 calls or more, and a limit ends it first."""
    policy, query, expected = EXPONENTIAL[name]
    engine = Engine({"t.rego": policy})
    prepared = engine.prepare(query, deadline=200, strict_builtin_errors=strict)
    assert prepared.value({}) == expected


def printed(policy: str, query: str, *, input: Any = None) -> tuple[list[str], Any]:
    """What a query prints, and its value; `print` of the policy's function `f` shows each call."""
    texts: list[str] = []

    def note(text: str, _span: Span) -> None:
        texts.append(text)

    engine = Engine({"t.rego": policy}, environment=Environment(on_print=note))
    return texts, engine.prepare(query).value(input)


F = 'package t\n\nf(x) := x if print("called", x)\n\n'


@pytest.mark.parametrize(
    ("rule", "calls"),
    [
        ("p := [f(1), f(1), f(2), f(1)]", 2),
        ("p if { not f(false); not f(false) }", 1),
        ("p := [f(1), x, f(1)] if x := f(1) with input as 3", 2),
        ("p := [f(1), f(1.0), f(1.00)]", 1),
        ("p := [f([1, 2]), f([1, 2]), f([2, 1])]", 2),
        ('p := [f({"a": 1}), f({"a": 1})]', 1),
        ("p := [f(true), f(1)]", 2),
        ("g(x) := f(x)\np := [g(1), f(1), g(1)]", 1),
        ("q := f(1)\np := [q, f(1), q]", 1),
    ],
)
def test_a_function_prints_once_for_equal_operands(rule: str, calls: int) -> None:
    texts, _ = printed(F + rule, "data.t.p")
    assert len(texts) == calls


def test_equal_numbers_have_the_text_of_the_first() -> None:
    assert str(printed(F + "p := [f(1), f(1.0)]", "data.t.p")[1]) == "[1, 1]"
    assert str(printed(F + "p := [f(1.0), f(1)]", "data.t.p")[1]) == "[1.0, 1.0]"


def test_what_is_undefined_prints_each_time() -> None:
    policy = 'package t\n\nf(x) if { print("called"); x > 5 }\n\np if { not f(1); not f(1) }'
    assert printed(policy, "data.t.p") == (["called", "called"], True)


def test_a_replacement_is_not_taken_for_the_function() -> None:
    policy = """package t

f(x) := [y | some y in [x, x]]
g(x) := ["mock", x]
p := [f(1), r, f(1)] if r := f(1) with f as g
"""
    engine = Engine({"t.rego": policy})
    assert engine.prepare("data.t.p").value({}) == [[1, 1], ["mock", 1], [1, 1]]


def test_answers_do_not_reach_into_with_nor_out_of_it() -> None:
    rule = """f(x) := [x, input.v, data.t.d] if print(x)

d := 0

p := [a, b, c, e] if {
	a := f(1)
	b := f(1) with input.v as 2
	c := f(1) with data.t.d as 3
	e := f(1)
}
"""
    texts, answers = printed(f"package t\n\n{rule}", "data.t.p", input={"v": 1})
    assert answers == [[1, 1, 0], [1, 2, 0], [1, 1, 3], [1, 1, 0]]
    assert len(texts) == 3


def test_answers_do_not_outlive_their_evaluation() -> None:
    policy = "package t\n\nf(x) := [y | some y in input.ys; y > x]\np := [f(1), f(1)]"
    query = Engine({"t.rego": policy}).prepare("data.t.p")
    for ys in ([1, 2], [3], []):
        above = [y for y in ys if y > 1]
        assert query.value({"ys": ys}) == [above, above]


def test_a_conflict_is_reported_however_often_it_is_called() -> None:
    policy = "package t\n\nf(x) := y if some y in [x, x + 1]\np := [f(1), f(1)]"
    with pytest.raises(EvalError, match="functions must not produce multiple outputs"):
        Engine({"t.rego": policy}).prepare("data.t.p").value({})


DIFFERENCES = tomllib.loads((FOLDER / "function_answers.toml").read_text())["difference"]


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row["rule"])
def test_the_listed_differences_are_there(row: dict[str, Any]) -> None:
    engine = Engine({"t.rego": f"package t\n{row['policy']}"})
    assert engine.prepare(row["query"]).results() == row["doorward"] != row["opa"]
