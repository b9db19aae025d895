"""Policies are compiled once and bound to any number of data."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from doorward.rego import CompileError, Engine, EvalError, Options, compile
from doorward.rego.clock import CLOCK
from doorward.rego.explanation.recorder import Recorder
from doorward.rego.shared import Source, parse_modules
from doorward.rego.syntax.nodes import Module
from doorward.rego.timers import Timers

POLICY = {
    "a.rego": "package a\n\np := count(data.xs)\n\nq if input.x == p\n",
    "b.rego": "package b\n\nlate := time.now_ns()\n",
}


def test_bound_to_other_data_nothing_is_compiled_again() -> None:
    policies = compile(POLICY)
    two, three = policies.bind({"xs": [1, 2]}), policies.bind({"xs": [1, 2, 3]})
    assert two.prepare("data.a.p").value() == 2
    assert three.prepare("data.a.p").value() == 3
    assert two.policies is three.policies is two.with_data({}).policies


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was_after_a_compilation(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        seen: list[bool] = []

        def prepare(modules: dict[str, Module]) -> tuple[dict[str, Module], object]:
            seen.append(gc.isenabled())
            return modules, None

        assert compile(POLICY, prepare=prepare).bind({"xs": []}).prepare("data.a.p").value() == 0
        assert gc.isenabled() is enabled
        with pytest.raises(CompileError):
            compile({"a.rego": "package a\n\np if x"})
        assert gc.isenabled() is enabled
        assert seen == [False]
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_answers_of_one_data_are_not_those_of_another() -> None:
    policies = compile(POLICY)
    first = policies.bind({"xs": [1]}).prepare("data.a.q")
    second = policies.bind({"xs": [1, 2]}).prepare("data.a.q")
    assert [first.value({"x": 1}), second.value({"x": 2}), first.value({"x": 1})] == [True] * 3


def test_parsed_modules_are_compiled_as_texts_are() -> None:
    parsed = parse_modules(POLICY)
    policies = compile(parsed)
    assert policies.modules == parsed
    assert policies.emit() == compile(POLICY).emit()
    assert Engine(parsed).trees == parsed


def test_traced_policies_share_the_program_and_are_made_once() -> None:
    policies = compile(POLICY)
    traced = policies.traced()
    assert traced.program is policies.program
    assert traced.modules is policies.modules
    assert policies.traced() is traced
    assert traced.traced() is traced
    recorder = Recorder()
    query = traced.bind({"xs": []}).prepare("data.a.q")
    evaluation = query.evaluation({"x": 0})
    evaluation.tracer = recorder
    assert query.value_of(evaluation) is True
    assert recorder.top


def test_replacing_functions_is_compiled_once_for_all_data() -> None:
    policies = compile(POLICY)
    query = "data.b.late with time.now_ns as data.n"
    engines = [policies.bind({"n": n}) for n in (1, 2)]
    assert [engine.prepare(query).value() for engine in engines] == [1, 2]
    names = frozenset({"time.now_ns"})
    assert policies.code_for(names) is policies.code_for(names) is not policies.code
    assert policies.code_for(frozenset()) is policies.code


def test_options_stay_with_the_policies() -> None:
    policies = compile({"a.rego": "package a\n\np[x] { x := 1 }\n"}, Options(v0=True))
    engine = policies.bind({})
    assert engine.options is policies.options
    assert engine.with_modules({"b.rego": "package b\n\nq { true }\n"}).options.v0


def test_policies_leave_nothing_else_to_choose() -> None:
    policies = compile(POLICY)
    with pytest.raises(TypeError, match="not both"):
        Engine({}, {}, policies=policies)
    with pytest.raises(TypeError, match="not both"):
        Engine(policies=policies, strict=True)


def test_every_error_is_reported() -> None:
    with pytest.raises(CompileError, match="2 errors occurred"):
        compile({"a.rego": "package a\n\np := x\n\nq := y\n"})


def test_policies_that_are_checked_again_end_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modules = {"a.rego": "package a\n\np := 1\n", "b.rego": "package b\n\nq := 1\n"}
    before = compile(modules)

    def expire() -> None:
        raise EvalError("eval_cancel_error", "too late")

    monkeypatch.setattr(CLOCK, "check_deadline", expire)
    for earlier in (None, before):
        with pytest.raises(EvalError, match="too late"):
            compile({**modules, "b.rego": "package b\n\nq := 2\n"}, before=earlier)


OTHERS: dict[str, tuple[dict[str, str | Source], Options]] = {
    "another text": ({**POLICY, "b.rego": "package b\n\nlate := 1\n"}, Options()),
    "one module less": ({"a.rego": POLICY["a.rego"]}, Options()),
    "one module more": ({**POLICY, "c.rego": "package c\n"}, Options()),
    "another file name": (dict(zip(["a.rego", "c.rego"], POLICY.values(), strict=True)), Options()),
    "another name in errors": ({**POLICY, "b.rego": Source("c.rego", POLICY["b.rego"])}, Options()),
    "other options": ({**POLICY}, Options(strict=True)),
    "other timers": ({**POLICY}, Options(timers=Timers())),
}


def test_policies_that_did_not_change_are_the_earlier_ones() -> None:
    options = Options()
    before = compile(POLICY, options)
    assert compile(dict(POLICY), replace(options), before=before) is before
    assert before.bind({}).with_modules(dict(POLICY)).policies is before


@pytest.mark.parametrize("changed", OTHERS)
def test_policies_that_changed_are_compiled(changed: str) -> None:
    modules, options = OTHERS[changed]
    environment = options.environment
    before = compile(POLICY, Options(environment=environment))
    after = compile(modules, options, before=before)
    assert after is not before
    assert after.texts == compile(modules, options).texts


def test_modules_that_callers_parsed_or_changed_are_compiled() -> None:
    options = Options()
    parsed = parse_modules(POLICY)
    before = compile(POLICY, options)
    assert compile(parsed, options, before=before) is not before

    def prepare(modules: dict[str, Module]) -> tuple[dict[str, Module], object]:
        return {name: module for name, module in modules.items() if name == "a.rego"}, "notes"

    after = compile(POLICY, options, before=before, prepare=prepare)
    assert list(after.modules) == ["a.rego"]
    again = compile({"a.rego": POLICY["a.rego"]}, options, before=after)
    assert again.notes is None


def test_modules_that_a_preparation_changed_are_parsed_again() -> None:
    def prepare(modules: dict[str, Module]) -> tuple[dict[str, Module], object]:
        return {name: replace(module, rules=()) for name, module in modules.items()}, "notes"

    modules = {**POLICY, "c.rego": "package c\n"}
    prepared = compile(POLICY, prepare=prepare)
    for before in (prepared, prepared.traced()):
        assert compile(modules, before=before).modules == compile(modules).modules
