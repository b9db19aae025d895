"""States to write parts of a function in, and what was written as Python text."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from doorward.rego import REGISTRY
from doorward.rego.analysis.passes import CheckOptions, Program, check, check_query
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.state import FunctionKind, FunctionState, Writers
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Body, Term
from doorward.rego.syntax.parser import parse_module, parse_query

__all__ = [
    "NO_WRITERS",
    "checked",
    "program_of",
    "state_for",
    "term_of",
    "text_of",
    "written",
]


def _not_called(*_: Any) -> NoReturn:
    raise AssertionError("a module above was called")


NO_WRITERS = Writers(_not_called, _not_called, _not_called, _not_called, _not_called)


def program_of(policy: str = "") -> Program:
    modules = [parse_module(Source("t.rego", f"package t\n\n{policy}\n"))]
    return check(modules, REGISTRY, CheckOptions())


def state_for(
    policy: str = "",
    kind: FunctionKind = FunctionKind.QUERY,
    writers: Writers = NO_WRITERS,
    *,
    traced: bool = False,
    limited: bool = False,
) -> FunctionState:
    """A state for a program; what modules above the tested one write cannot be written in it."""
    program = program_of(policy)
    facts = program.callees, program.constant, program.mocked
    plan = Plan(*facts, traced=traced, limited=limited)
    return FunctionState(plan, Constants(), writers, kind)


def term_of(text: str) -> Term:
    """A term as it is parsed: names are not resolved, so that they are variables."""
    (expr,) = parse_query(Source("", text))
    term = expr.term
    assert isinstance(term, Term)
    return term


def checked(text: str, policy: str = "") -> Body:
    """The body of a query as code generation gets it."""
    return check_query(parse_query(Source("", text)), program_of(policy)).body


def text_of(state: FunctionState) -> list[str]:
    """The lines that were written."""
    return written(state.code.written)


def written(code: list[ast.stmt] | ast.expr | Operand) -> list[str]:
    """Code as lines."""
    if isinstance(code, Operand):
        code = code.code
    if isinstance(code, ast.expr):
        return [ast.unparse(code)]
    module = ast.Module(body=list(code), type_ignores=[])
    return [line for line in ast.unparse(module).split("\n") if line.strip()]
