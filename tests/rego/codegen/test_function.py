"""Functions from their state to their definition."""

from __future__ import annotations

import ast

import pytest
from tests.rego.codegen.writing import program_of

from doorward.rego.analysis.multiplicity import Multiplicity
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import load, store
from doorward.rego.codegen.function import finish, new_function
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.state import FunctionKind


@pytest.mark.parametrize(
    ("kind", "calls", "loops", "counts"),
    [
        (FunctionKind.RULE, 9, 9, False),
        (FunctionKind.CHOICE, 9, 9, False),
        (FunctionKind.QUERY, 9, 9, False),
        (FunctionKind.FUNCTION, 0, 9, False),
        (FunctionKind.FUNCTION, 1, 0, False),
        (FunctionKind.FUNCTION, 1, 1, True),
        (FunctionKind.FUNCTION, 2, 0, True),
        (FunctionKind.DEFINITION, 0, 1, False),
        (FunctionKind.DEFINITION, 1, 0, True),
    ],
)
def test_what_can_double_the_work_counts_itself(
    kind: FunctionKind, calls: int, loops: int, counts: bool
) -> None:
    state = new_function(Plan(program_of().callees), Constants(), kind, Multiplicity())
    for _ in range(calls):
        state.counters.add_call()
    for _ in range(loops):
        with state.scope():
            state.loop(store("x"), load("xs"))
            state.code.run(load("x"))
    text = ast.unparse(finish(state, "data.f", ("ctx", "arg0")))
    assert ("ctx.count_step()" in text) is counts
