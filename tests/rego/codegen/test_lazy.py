"""Functions are generated at their first call: once, in any thread, at any depth of the stack."""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from types import FunctionType
from typing import Any

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.code import MAX_CHAIN
from doorward.rego.codegen import lazy
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.plan import Plan

POLICY = """package a

allow if is_admin(input.user)

is_admin(user) if user.role == "admin"

deny if input.banned

everything := x if x := data.a.deny
"""

FUNCTION = ast.parse("def f(ctx): return 7").body[0]

TABLE = "package a\n\n" + "\n".join(f'port := {n} if input.name == "s{n}"' for n in range(20))


def namespace(engine: Engine) -> dict[str, Any]:
    return engine.policies.code.linked.namespace


def waiting(engine: Engine) -> set[str]:
    """The functions whose code was not needed so far."""
    stub = lazy._first_call.__code__
    functions = namespace(engine).items()
    return {n for n, f in functions if isinstance(f, FunctionType) and f.__code__ is stub}


def test_only_what_is_called_is_generated() -> None:
    engine = Engine({"a.rego": POLICY})
    rules = {"data.a.allow", "data.a.is_admin", "data.a.deny", "data.a.everything"}
    query = engine.prepare("data.a.allow")
    assert waiting(engine) == rules
    function = namespace(engine)["data.a.allow"]
    assert query.value({"user": {"role": "admin"}}) is True
    assert waiting(engine) == rules - {"data.a.allow", "data.a.is_admin"}
    assert namespace(engine)["data.a.allow"] is function
    assert function.__kwdefaults__ is None


def test_warming_generates_what_a_query_reaches() -> None:
    engine = Engine({"a.rego": POLICY})
    engine.prepare("data.a.everything").warm()
    assert waiting(engine) == {"data.a.allow", "data.a.is_admin"}
    engine.prepare("data.a[input.name]").warm()
    assert waiting(engine) == set()


def test_warm_policies_generate_nothing_at_the_first_decision() -> None:
    engine = Engine({"a.rego": POLICY})
    engine.policies.warm()
    assert waiting(engine) == set()


def test_a_warm_table_waits_for_values_only() -> None:
    engine = Engine({"a.rego": f"{TABLE}\nport := 0 if input.any"})
    engine.policies.warm()
    assert len(waiting(engine)) == 20
    query = engine.prepare("data.a.port")
    assert query.value({"any": True}) == 0
    assert len(waiting(engine)) == 20


def test_a_definition_in_a_table_is_generated_when_it_is_chosen() -> None:
    engine = Engine({"a.rego": TABLE})
    query = engine.prepare("data.a.port")
    query.warm()
    assert len(waiting(engine)) == 20
    assert query.value({"name": "s7"}) == 7
    assert len(waiting(engine)) == 19


def test_the_code_that_runs_is_the_code_that_is_shown() -> None:
    engine = Engine({"a.rego": POLICY})
    engine.prepare("data.a").warm()
    for unit in engine.policies.whole_code().units:
        for code in unit.functions():
            own = namespace(engine)[code.co_name].__code__
            assert (own.co_code, own.co_filename) == (code.co_code, code.co_filename)


def test_threads_that_call_first_get_one_function() -> None:
    written = []
    functions = lazy.Functions(Engine({}).policies.code.plan)
    start = threading.Barrier(8)

    def write(plan: Plan, constants: Constants) -> Any:
        written.append(1)
        return FUNCTION

    stub = functions.stub("f", Engine({"a.rego": POLICY}).trees["a.rego"].span.source, write)
    answers: list[Any] = []

    def call() -> None:
        start.wait()
        answers.append(stub(None))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [7] * 8
    assert written == [1]
    lazy.generate_now(stub)
    assert written == [1]


def test_a_thread_that_waited_for_another_generates_nothing() -> None:
    written = []
    functions = lazy.Functions(Engine({}).policies.code.plan)

    def write(plan: Plan, constants: Constants) -> Any:
        written.append(1)
        return FUNCTION

    stub = functions.stub("f", Engine({"a.rego": POLICY}).trees["a.rego"].span.source, write)
    assert stub.__kwdefaults__ is not None
    generate = stub.__kwdefaults__["generate"]
    assert generate() is stub
    assert generate() is stub  # the second one read the default before the first had the lock
    assert written == [1]
    late = FunctionType(lazy._STUB, {}, "g")
    lazy.generate_now(late)  # the code is about to be there: its default is gone
    assert not lazy.is_generated(late)


def test_generation_does_not_depend_on_how_deep_the_caller_stands() -> None:
    arrays = "[" * 60 + "input.x" + "]" * 60
    engine = Engine({"a.rego": f"package a\n\np := {arrays}\n"})
    query = engine.prepare("data.a.p")

    def descend(levels: int) -> Any:
        return descend(levels - 1) if levels else query.value({"x": 1})

    # The call itself needs a dozen frames; generation, three for each array.
    answer = descend(sys.getrecursionlimit() - len(inspect.stack(0)) - 60)
    for _ in range(60):
        (answer,) = answer
    assert answer == 1
    assert waiting(engine) == set()


@pytest.mark.long
def test_rules_that_are_too_long_are_found_before_they_are_called() -> None:
    body = "\n".join(f"\twalk(input, [x{n}, {n}])" for n in range(450))
    long = f"p if {{\n{body}\n}}\n"
    table = "\n".join(f'q := {n} if input.name == "{n}"' for n in range(20))
    text = f'package a\n\n{long}\n{table}\n\nq := 21 if {{\n\tinput.name == "x"\n{body}\n}}\n'
    try:
        engine = Engine({"a.rego": text})
    except CompileError as error:
        refused = error.diagnostics
        row = text[: text.index("q := 21")].count("\n") + 1
        assert [each.span.row for each in refused] == [3, row]
        assert {each.message for each in refused} == {"rule is too long to be compiled: split it"}
    else:
        # Python 3.13 follows them: they are generated already.
        assert len(waiting(engine)) == 20


def test_a_long_chain_of_rules_is_generated_at_once() -> None:
    count = MAX_CHAIN + 1
    rules = "\n".join(f"p{n} if p{n + 1}" for n in range(count))
    engine = Engine({"a.rego": f"package a\n\n{rules}\n\np{count} if input.x\n"})
    assert waiting(engine) == set()
    assert engine.prepare("data.a.p0").value({"x": 1}) is True
    shorter = Engine({"a.rego": f"package a\n\np{count - 1} if input.x\n"})
    assert waiting(shorter) == {f"data.a.p{count - 1}"}
