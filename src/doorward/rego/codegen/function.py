"""One Python function from its first name to its definition: where the writers are put together."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from doorward.rego.analysis.multiplicity import Multiplicity
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.bodies import body, expression_value
from doorward.rego.codegen.cached_functions import cache_answers
from doorward.rego.codegen.calls import call_value
from doorward.rego.codegen.comprehensions import comprehension
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import attribute, load, method
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.references import ref
from doorward.rego.codegen.state import Counters, FunctionKind, FunctionState, Writers

__all__ = ["WRITERS", "finish", "finish_function", "new_function"]

WRITERS: Final = Writers(ref, call_value, comprehension, body, expression_value)
"""The table of functions that the modules below call without importing them."""


def new_function(
    plan: Plan, constants: Constants, kind: FunctionKind, multiplicity: Multiplicity
) -> FunctionState:
    """Return the state for writing one function of a program: `kind` says what it computes, and
    `multiplicity` what in it may have several answers.
    """
    return FunctionState(plan, constants, WRITERS, kind, multiplicity)


def finish(state: FunctionState, name: str, args: Sequence[str]) -> ast.FunctionDef:
    """Return the Python function `name` with the parameters `args` and all code written so far. It
    first counts a step if its calls could multiply the work.
    """
    first = [method("count_step")] if _counts_calls(state.kind, state.counters) else []
    return state.code.function(name, args, first)


def finish_function(
    state: FunctionState, node: RuleNode, args: Sequence[str], *, is_chosen: bool
) -> ast.FunctionDef:
    """Return the finished function at `node`. It caches its answers if it prints or is not cheap,
    but never in traced and exact code. `is_chosen`: a table chooses among its definitions, each of
    which is a function.
    """
    plan, counters = state.plan, state.counters
    prints = plan.may_print(node)
    costs = counters.calls, counters.loops, counters.comprehensions, counters.builtins
    is_cheap = not is_chosen and not any(costs)
    if plan.traced or plan.exact or (is_cheap and not prints):
        return finish(state, node.name, args)
    function = state.code.function(node.name, args, [])
    operands = [load(arg) for arg in args[1:]]
    slot = ast.Constant(value=plan.call_slot(node))
    call_name = state.temps.holding("call")
    if prints:
        known: ast.expr = method("printing_call", slot, *operands)
    else:
        counted = _counts_calls(state.kind, counters)
        test = method("count_call") if counted else attribute(load("ctx"), "caches_calls")
        known = ast.IfExp(
            test=test, body=method("cached_call", slot, *operands), orelse=ast.Constant(value=None)
        )
    cache_answers(function, call_name, known)
    return function


def _counts_calls(kind: FunctionKind, counters: Counters) -> bool:
    """Return True if calls of the function count as steps, at which the deadline is checked: it is
    a policy's function or a single definition, and itself contains calls that could multiply the
    work.
    """
    match kind:
        case FunctionKind.FUNCTION:
            return counters.calls > 1 or (counters.calls > 0 and counters.loops > 0)
        case FunctionKind.DEFINITION:
            return counters.calls > 0
    return False
