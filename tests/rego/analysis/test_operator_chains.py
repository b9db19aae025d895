"""Long chains of operators mean what short ones mean, wherever they stand."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from doorward.rego import UNDEFINED, CompileError, Engine
from doorward.rego.analysis.operator_chains import LINKS, split_chains
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Call
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.parser.cursor import MAX_QUERY_LINKS
from doorward.rego.syntax.walk import walk

pytestmark = pytest.mark.long

LONG = 240


def chain(operand: str = "input.x", operator: str = "+", length: int = LONG) -> str:
    return f" {operator} ".join([operand] * length)


def answer(body: str, **input_: Any) -> Any:
    imports = "import future.keywords\nimport future.keywords.not\n"
    module = f"package a\n\n{imports}\n{body}\n"
    return Engine({"a.rego": module}).prepare("data.a.p").value(input_)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (f"p := {chain()}", LONG),
        (f"p := [1, {chain()}]", [1, LONG]),
        (f'p := {{"a": {chain()}}}', {"a": LONG}),
        (f"p := sum([{chain()}, {chain()}])", 2 * LONG),
        (f"p := [y | y := {chain()}]", [LONG]),
        (f"p := [({chain('y')}) | some y in [1, 2]]", [LONG, 2 * LONG]),
        (f'p := {{"k": ({chain("y")}) | some y in [3]}}', {"k": 3 * LONG}),
        (f"p if {chain()} == {LONG}", True),
        (f"p if {LONG} == {chain()}", True),
        (f"p if {{ y = {chain()}; y > 1 }}", True),
        (f"p if {{ {chain()} = y; y > 1 }}", True),
        (f"p if not {chain()} == 0", True),
        (f"p if not {{ {chain()} == 0 }}", True),
        (f"p := y if {{ y := {chain()} with input.x as 2 }}", 2 * LONG),
        (f"p := y if {{ y := input.x with input.x as {chain()} }}", LONG),
        (f"p if every y in [{chain()}] {{ {chain('y')} > y }}", True),
        (f"p := y if {{ some y in [{chain()}] }}", LONG),
        (f"p := 1 if input.x > 1 else := {chain()}", LONG),
        (f"p if {{ {{ {chain()} == 0 }} or {{ {chain()} == {LONG} }} }}", True),
        (f"p if {{ {chain()} == {LONG} and {chain()} > 1 }}", True),
        (f"p := y if {{ some i; y := [{chain()}][i] }}", LONG),
        (f"p if {{ some y; y = {chain()} }}", True),
        (f"f(y) := {chain('y')}\n\np := f({chain()})", LONG * LONG),
        (f"q[y] := 1 if some y in [{LONG}]\n\np := q[{chain()}]", 1),
        (f"p contains {chain()}", frozenset({LONG})),
        (f"p := 7 * {chain('1', '*', 200)} - {chain('1', '-', 200)}", 7 - 200),
        (f"p := {chain('{input.x}', '|')}", frozenset({1})),
        (f"p := {chain('{input.x}', '&')}", frozenset({1})),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_long_chain_has_the_value_of_its_operators(body: str, wanted: Any) -> None:
    assert answer(body, x=1) == wanted


def test_a_chain_with_an_undefined_operand_is_undefined() -> None:
    assert answer(f"p := {chain()} + input.y", x=1) is UNDEFINED
    assert answer(f"p := input.y + {chain()}", x=1) is UNDEFINED
    assert answer(f"p if not {chain()} + input.y == 1", x=1) is True


def test_a_chain_is_computed_from_the_left() -> None:
    assert answer("p := 1000" + " - 1" * LONG) == 1000 - LONG
    assert answer("p := 1" + " / 2 * 2" * (LONG // 2)) == 1


@pytest.mark.parametrize(
    ("given", "want"), [({"x": 1}, UNDEFINED), ({"x": 2}, True), ({}, UNDEFINED)]
)
def test_a_chain_is_computed_before_it_is_negated(given: Any, want: Any) -> None:
    module = f"package a\n\np if not {chain()} == {LONG}\n"
    assert Engine({"a.rego": module}).prepare("data.a.p").value(given) is want


@pytest.mark.parametrize(("given", "want"), [({"x": 1}, UNDEFINED), ({"x": 2}, True), ({}, True)])
def test_the_import_negates_a_chain_as_a_whole(given: Any, want: Any) -> None:
    assert answer(f"p if not {chain()} == {LONG}", **given) is want


def test_a_chain_in_print_stays_where_it_is() -> None:
    body = f"package a\n\np if print({chain(length=LINKS + 5)})\n"
    module = parse_module(Source("a.rego", body))
    assert split_chains(module) == module


def test_a_query_may_hold_a_chain() -> None:
    wanted = [{"x": MAX_QUERY_LINKS + 1}]
    query = f"x := {chain(length=MAX_QUERY_LINKS + 1)}"
    assert Engine().prepare(query).results({"x": 1}) == wanted
    with pytest.raises(CompileError, match="more than 100 operators follow each other"):
        Engine().prepare(f"{query} + 1")


def test_no_chain_stays_long() -> None:
    module = split_chains(parse_module(Source("a.rego", f"package a\n\np := {chain()}\n")))
    body = module.rules[0].body
    assert len(body) == (LONG - 2) // LINKS
    for expr in body:
        calls = [node for node in walk(expr) if isinstance(node, Call)]
        assert len(calls) == LINKS + 1


def test_what_has_no_long_chain_is_not_touched() -> None:
    text = f"package a\n\np := {chain(length=LINKS)}\n\nq if {{ {chain('input.a', ';')} }}\n"
    module = parse_module(Source("a.rego", text))
    assert split_chains(module) is module


def test_an_operand_that_is_wrong_is_found_in_its_place() -> None:
    with pytest.raises(CompileError, match=r"a.rego:6: rego_unsafe_var_error: var y is unsafe"):
        answer(f"p := {chain()} + y")


def test_a_small_stack_is_enough() -> None:
    """Deep policies are errors or answers, in threads as small as some systems give."""
    texts = [
        f"p := {chain(length=499)}",
        "p := " + "[" * 90 + "]" * 90,
        "p := " + "[" * 5000,
        "p := 0 if input.x > 1" + "".join(f" else := {n} if input.x == {n}" for n in range(450)),
    ]
    rows: list[Any] = []

    def work() -> None:
        for text in texts:
            try:
                rows.append(answer(text, x=1))
            except CompileError as error:
                rows.append(error)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert rows[0] == 499
    assert isinstance(rows[2], CompileError)
    assert rows[3] == 1


def test_what_stays_too_deep_is_an_error() -> None:
    with pytest.raises(CompileError, match="the policy is nested too deeply"):
        answer(f"p if print({chain(length=400)})")
