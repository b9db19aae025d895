"""Queries to Python functions: one that lists every binding, one that gives a single value."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from doorward.rego.analysis.bindings import body_vars
from doorward.rego.analysis.negation import is_generated
from doorward.rego.codegen.block import Constants, load, method_of, runtime
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.rules import RuleWriter
from doorward.rego.codegen.terms import Operand
from doorward.rego.syntax.nodes import And, Body, Call, Every, Expr, Not, Or, SomeDecl, SomeIn

__all__ = ["query_bindings", "query_value", "query_variables"]


def query_variables(body: Body) -> list[str]:
    """The variables a query's results name, in the order of the text; wildcards are left out."""
    found: dict[str, None] = {}
    for var in body_vars(body, closures=False):
        if not var.is_wildcard and not is_generated(var.name):
            found.setdefault(var.name)
    return list(found)


def query_bindings(
    name: str, body: Body, variables: Sequence[str], plan: Plan, constants: Constants
) -> ast.FunctionDef:
    """A function of `ctx` that returns a list of tuples: the values of `variables`, then the
    values of the expressions that are terms (True for the others)."""
    writer = _QueryWriter(constants, plan)
    writer.outer = frozenset(v.name for v in body_vars(body, closures=False))
    with writer.at(body[0].span):
        out = writer.fresh("out")
        writer.assign(out, ast.List(elts=[], ctx=ast.Load()))
        with writer.nest():
            values = [writer.valued(expr) for expr in body]
            held = [
                writer.env[v].code if v in writer.env else runtime("UNDEFINED") for v in variables
            ]
            row = ast.Tuple(elts=[*held, *values], ctx=ast.Load())
            writer.run(method_of(load(out), "append", row))
        writer.add(ast.Return(value=load(out)))
    return writer.function(name, ("ctx",))


def query_value(name: str, expr: Expr, plan: Plan, constants: Constants) -> ast.FunctionDef:
    """A function of `ctx` that returns the first value of `expr`, or UNDEFINED."""
    writer = _QueryWriter(constants, plan)
    with writer.at(expr.span):
        with writer.nest():
            writer.add(ast.Return(value=writer.valued(expr)))
        writer.add(ast.Return(value=runtime("UNDEFINED")))
    return writer.function(name, ("ctx",))


class _QueryWriter(RuleWriter):
    """Writes the expressions of a query, whose values matter and not only whether they hold."""

    def valued(self, expr: Expr) -> ast.expr:
        """The value of a term, false included; True for what only holds or does not."""
        term = expr.term
        only_holds = (
            expr.negated
            or isinstance(term, (SomeDecl, SomeIn, Every, Not, And, Or))
            or (isinstance(term, Call) and (term.name in _HOLD or self.has_output(term)))
        )
        if only_holds or isinstance(term, (SomeDecl, SomeIn, Every, Not, And, Or)):
            self.expression(expr)
            return ast.Constant(value=True)
        with self.at(expr.span):
            value: Operand = self.expression_value(expr)
            return self.hold(value.code)


_HOLD = frozenset({"eq", "assign", "print", "internal.print"})
