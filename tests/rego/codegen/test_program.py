"""What generated code promises: Rego's names and lines, no builtins, work that does not grow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import pytest

from doorward.rego import REGISTRY, Engine, EvalError, Registry
from doorward.rego.builtins.registry.signature import number

POLICY = """package p

import rego.v1

allow if {
    input.x == 1
    to_number(input.y) == 2
}
"""
INDEXED = "s := {n} if {{ input.host == `h{n}`; input.method == `GET` }}\n"
MEMBERS = "s contains {n} if {{ input.host == `h{n}`; input.method == `GET` }}\n"


def frame_of_policy(file: str) -> tuple[FrameType, int]:
    """The frame of the policy's code when its built-in fails, and the line it stands at."""
    query = Engine(modules={file: POLICY}).prepare("data.p.allow", strict_builtin_errors=True)
    with pytest.raises(EvalError) as caught:
        query.value({"x": 1, "y": "two"})
    trace: TracebackType | None = caught.tb
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            return trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next
    raise AssertionError("the policy is not in the traceback")


def test_a_traceback_shows_the_policy_its_rule_and_its_line() -> None:
    frame, line = frame_of_policy("authz/p.rego")
    assert frame.f_code.co_name == "data.p.allow"
    assert line == 7


def test_generated_code_has_no_builtins() -> None:
    frame, _ = frame_of_policy("p.rego")
    assert frame.f_globals["__builtins__"] == {}
    assert "import" not in Engine(modules={"p.rego": POLICY}).emit()["p.rego"]


def calls_in(work: Callable[[], object]) -> int:
    """How many Python functions `work` calls: its cost, without a clock."""
    count = 0

    def observe(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(observe)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def many(rule: str, count: int) -> dict[str, str]:
    return {"p.rego": "package p\n\n" + "".join(rule.format(n=n) for n in range(count))}


@pytest.mark.parametrize("rule", [INDEXED, MEMBERS], ids=["complete", "set"])
def test_a_decision_among_many_rules_costs_what_it_costs_among_few(rule: str) -> None:
    value = {"host": "h3", "method": "GET"}
    few, more = (Engine(modules=many(rule, count)).prepare("data.p.s") for count in (10, 200))
    assert few.value(value) == more.value(value)
    assert calls_in(lambda: more.value(value)) <= calls_in(lambda: few.value(value)) + 2


@pytest.mark.parametrize("rule", [INDEXED, MEMBERS], ids=["complete", "set"])
def test_compiling_many_rules_costs_in_proportion(rule: str) -> None:
    Engine(modules=many(rule, 5))
    few, more = (calls_in(lambda n=n: Engine(modules=many(rule, n))) for n in (40, 160))  # type: ignore[misc]
    assert more < 6 * few


def test_what_does_not_read_input_is_computed_once_for_all_decisions() -> None:
    registry = Registry(REGISTRY)
    calls = []

    @registry.builtin("count_me", number, returns=number)
    def count_me(x: int) -> int:
        """Its operand."""
        calls.append(x)
        return x

    policy = "package p\n\nfixed := count_me(data.n)\n\nallow if input.x == fixed\n"
    engine = Engine(modules={"p.rego": policy}, data={"n": 7}, registry=registry)
    query = engine.prepare("data.p.allow")
    assert [query.value({"x": x}) for x in (7, 7, 7)] == [True] * 3
    assert calls == [7]
    assert engine.with_data({"n": 8}).prepare("data.p.allow").value({"x": 8}) is True
    assert calls == [7, 8]


def test_code_is_emitted_per_file() -> None:
    engine = Engine(modules={"a.rego": "package a\n\np := 1\n", "b.rego": "package b\n\nq := 2\n"})
    emitted = engine.emit()
    assert "def data.a.p(" in emitted["a.rego"]
    assert "def data.b.q(" in emitted["b.rego"]
