"""A function looks for its answer first, and keeps every one that it returns."""

from __future__ import annotations

import ast

from doorward.rego.codegen.cached_functions import cache_answers
from doorward.rego.codegen.emit.ast_nodes import load

WRITTEN = """
def f(ctx, arg0):
    def chain():
        nonlocal answer
        return 1
    if arg0:
        return chain()
    for x in arg0:
        try:
            return x
        except rt.ERRORS:
            return 2
    return rt.UNDEFINED
"""

CACHED = """
def f(ctx, arg0):
    _call = known
    if _call is not None and _call.answer is not rt.MISSING:
        return _call.answer

    def chain():
        nonlocal answer
        return 1
    if arg0:
        return chain() if _call is None else _call.keep(chain())
    for x in arg0:
        try:
            return x if _call is None else _call.keep(x)
        except rt.ERRORS:
            return 2 if _call is None else _call.keep(2)
    return rt.UNDEFINED if _call is None else _call.keep(rt.UNDEFINED)
"""


def test_every_return_but_those_of_inner_functions_is_kept() -> None:
    (function,) = ast.parse(WRITTEN).body
    assert isinstance(function, ast.FunctionDef)
    cache_answers(function, "_call", load("known"))
    ast.fix_missing_locations(function)
    assert ast.unparse(function).strip() == CACHED.strip()


def test_what_is_declared_first_stays_first() -> None:
    (function,) = ast.parse("def f(ctx):\n    nonlocal x\n    return x\n").body
    assert isinstance(function, ast.FunctionDef)
    cache_answers(function, "_call", load("known"))
    assert isinstance(function.body[0], ast.Nonlocal)
