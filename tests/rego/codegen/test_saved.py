"""The functions of a program as values: those that were generated come back, the others later."""

from __future__ import annotations

import marshal
import pickle

import pytest

from doorward.rego import Engine
from doorward.rego import code as code_of_programs
from doorward.rego.code import generate_code
from doorward.rego.codegen.lazy import is_generated
from doorward.rego.codegen.saved import link_saved, save_functions

TABLE = "\n".join(f'port := {n} if input.name == "s{n}"' for n in range(20))
RULES = "allow if startswith(input.user, data.prefix)\n\ndeny if input.banned"
POLICY = f"package a\n\n{RULES}\n\n{TABLE}\n"


def test_what_was_generated_comes_back_and_the_rest_is_a_stub(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_of_programs, "lines_are_watched", lambda: False)
    engine = Engine({"a.rego": POLICY}, {"prefix": "a"})
    engine.prepare("data.a.port").value({"name": "s3"})
    code = engine.policies.code
    saved = pickle.loads(pickle.dumps(save_functions(code.plan, code.linked)))
    generated = {name for name, text in saved.code.items() if text is not None}
    assert generated == {"data.a.port", "data.a.port#3"}
    # The definitions from 2 on share the code of the first of them.
    assert marshal.loads(saved.code["data.a.port#3"]).co_name == "data.a.port#2"
    again = generate_code(engine.policies.program, engine.options, saved=saved)
    namespace = again.linked.namespace
    assert {name for name in saved.code if is_generated(namespace[name])} == generated
    assert list(again.plan.slots.values()) == list(code.plan.slots.values())


def test_built_ins_are_those_of_this_process() -> None:
    engine = Engine({"a.rego": POLICY}, {"prefix": "a"})
    engine.policies.warm()
    code = engine.policies.code
    saved = save_functions(code.plan, code.linked)
    assert not any(name in saved.constants for name in saved.builtins)
    plan = generate_code(engine.policies.program, engine.options).plan
    namespace = link_saved(plan, saved).namespace
    for name in saved.builtins:
        assert namespace[name] is code.linked.namespace[name]
