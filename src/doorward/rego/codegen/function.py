"""One Python function from its first name to its definition: where the writers are put together."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from doorward.rego.analysis.multiplicity import Multiplicity
from doorward.rego.codegen.bodies import body, expression_value
from doorward.rego.codegen.calls import call_value
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import method
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.references import ref
from doorward.rego.codegen.state import Counters, FunctionKind, FunctionState, Writers

__all__ = ["WRITERS", "finish", "new_function"]

WRITERS: Final = Writers(ref, call_value, body, expression_value)
"""The functions that the modules below call without knowing them."""


def new_function(
    plan: Plan, constants: Constants, kind: FunctionKind, multiplicity: Multiplicity
) -> FunctionState:
    """The state to write one function in."""
    return FunctionState(plan, constants, WRITERS, kind, multiplicity)


def finish(state: FunctionState, name: str, args: Sequence[str]) -> ast.FunctionDef:
    """The written statements as a function, complete."""
    first = [method("count_step")] if _counts_calls(state.kind, state.counters) else []
    return state.code.function(name, args, first)


def _counts_calls(kind: FunctionKind, counters: Counters) -> bool:
    """Whether a call is a step that the deadline is checked at: not of rules and queries, which
    run once in an evaluation, and not of what calls so little that it ends soon."""
    match kind:
        case FunctionKind.FUNCTION:
            return counters.calls > 1 or (counters.calls > 0 and counters.loops > 0)
        case FunctionKind.DEFINITION:
            return counters.calls > 0
    return False
