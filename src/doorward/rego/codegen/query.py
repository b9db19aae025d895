"""Queries to Python functions: one that lists every binding, one that gives a single value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from doorward.rego.analysis.bindings import Arity, names_function
from doorward.rego.analysis.evaluation_order import is_step
from doorward.rego.analysis.multiplicity import closure_outer, multiplicity_of_query
from doorward.rego.analysis.negation import is_generated
from doorward.rego.analysis.variables import body_vars
from doorward.rego.codegen.bodies import expression
from doorward.rego.codegen.calls import has_output
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import load, method, method_of, runtime
from doorward.rego.codegen.function import finish, new_function
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.state import FunctionKind, FunctionState
from doorward.rego.syntax.nodes import And, Body, Call, Every, Expr, Not, Or, SomeDecl, SomeIn

__all__ = ["query_bindings", "query_value", "query_variables"]

ROW: Final = 8
"""The number of items that a result row counts for, in addition to its values."""


def query_variables(body: Body, arity: Arity) -> list[str]:
    """Return the names of the variables in a query's results, in the order of the text, without
    wildcards and generated ones.
    """
    # `count` in `with f as count` is a name, not a variable.
    functions = {
        id(item.value) for expr in body for item in expr.withs if names_function(item, arity)
    }
    names: dict[str, None] = {}
    for var in body_vars(body, closures=False):
        if not var.is_wildcard and not is_generated(var.name) and id(var) not in functions:
            # A dict keeps the order of the text.
            names.setdefault(var.name)
    return list(names)


def query_bindings(
    name: str, body: Body, variables: Sequence[str], plan: Plan, constants: Constants
) -> ast.FunctionDef:
    """Return a function of `ctx` that returns a list with one tuple for each solution of the query:
    the values of `variables`, UNDEFINED for an unbound one, then one value for each expression:
    that of a term, True for others. What the function refers to is added to `constants`.
    """
    outer = closure_outer(body, ())
    state = _new_query(body, outer, plan, constants)
    code = state.code
    with code.at(body[0].span), state.env.scope(outer):
        out = state.temps.fresh("out")
        code.assign(out, ast.List(elts=[], ctx=ast.Load()))
        with state.scope(), code.leaving(lambda: load(out)):
            # Steps that were added to the query are not part of its rows.
            valued = [(expr, _value(state, expr)) for expr in body]
            values = [value for expr, value in valued if not is_step(expr)]
            bound = [
                state.env[v].code if v in state.env else runtime("UNDEFINED") for v in variables
            ]
            row = ast.Tuple(elts=[*bound, *values], ctx=ast.Load())
            if plan.limited:
                size = ast.Constant(value=ROW + len(row.elts))
                code.run(method("count_items", size, constants.add(body[0].span)))
            code.run(method_of(load(out), "append", row))
        code.return_value(load(out))
    return finish(state, name, ("ctx",))


def query_value(name: str, body: Body, plan: Plan, constants: Constants) -> ast.FunctionDef:
    """Return a function of `ctx` that returns the first value of the last expression of `body`,
    which may be false. The expressions before it must hold. UNDEFINED if there is no value.
    """
    *steps, expr = body
    state = _new_query(body, frozenset(), plan, constants)
    with state.code.at(expr.span):
        with state.scope(), state.code.leaving(lambda: runtime("UNDEFINED")):
            for step in steps:
                expression(state, step)
            state.code.return_value(_value(state, expr))
        state.code.return_value(runtime("UNDEFINED"))
    return finish(state, name, ("ctx",))


def _new_query(
    body: Body, outer: frozenset[str], plan: Plan, constants: Constants
) -> FunctionState:
    """Return the state for writing the function of a query. `outer`: its variables that occur
    outside of its inner bodies.
    """
    multiplicity = multiplicity_of_query(body, outer, plan.callees, prints=plan.prints)
    return new_function(plan, constants, FunctionKind.QUERY, multiplicity)


def _value(state: FunctionState, expr: Expr) -> ast.expr:
    """Write code for an expression and return that for its value. A term is not tested, so its
    value may be false; other expressions are tested, and their value is True.
    """
    node = expr.term
    only_holds = (
        expr.negated
        or isinstance(node, (SomeDecl, SomeIn, Every, Not, And, Or))
        or (isinstance(node, Call) and (node.name in _HOLD or has_output(state, node)))
    )
    if only_holds:
        expression(state, expr)
        return ast.Constant(value=True)
    with state.code.at(expr.span):
        return state.code.bind_temp(state.writers.expression_value(state, expr).code)


_HOLD = frozenset({"eq", "assign", "print", "internal.print"})
