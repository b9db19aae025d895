"""A function whose answers are cached: it looks for one at its start, and keeps what it returns.

    _call = ctx.cached_call(3, arg0) if ctx.count_call() else None
    if _call is not None and _call.answer is not rt.MISSING:
        return _call.answer
    …
    return x if _call is None else _call.keep(x)

It stands in the function itself, behind the choice that a `with` makes of what is called, and adds
no frame to Python's stack.
"""

from __future__ import annotations

import ast

from doorward.rego.codegen.emit.ast_nodes import (
    all_of,
    attribute,
    load,
    locate,
    method_of,
    runtime,
    store,
)

__all__ = ["cache_answers"]


def cache_answers(function: ast.FunctionDef, name: str, lookup: ast.expr) -> None:
    """Change `function` in place so that it caches its answers. It begins with `lookup`, whose
    value is the entry of the call in the cache, or None if this call must not be cached. If the
    entry has an answer, that is returned; otherwise each return stores the returned value in the
    entry, if there is one. `name` is the local variable for the entry.
    """
    _keep_returns(function.body, name)
    has_answer = all_of(
        [_is_not(load(name), ast.Constant(value=None)), _is_not(_answer(name), runtime("MISSING"))]
    )
    start: list[ast.stmt] = [
        ast.Assign(targets=[store(name)], value=lookup),
        ast.If(test=has_answer, body=[ast.Return(value=_answer(name))], orelse=[]),
    ]
    for statement in start:
        locate(statement, function.lineno, function.col_offset)
    # What an inner function assigns is declared first.
    first = 1 if function.body and isinstance(function.body[0], ast.Nonlocal) else 0
    function.body[first:first] = start


def _answer(name: str) -> ast.Attribute:
    return attribute(load(name), "answer")


def _is_not(left: ast.expr, right: ast.expr) -> ast.Compare:
    return ast.Compare(left=left, ops=[ast.IsNot()], comparators=[right])


def _keep_returns(statements: list[ast.stmt], name: str) -> None:
    """Change the return statements in place, in nested blocks too, to store the value that they
    return in the cache entry in the variable `name`, unless that is None. Inner functions are left
    unchanged.
    """
    waiting = list(statements)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.Return):
            value = statement.value
            assert value is not None
            return_cached = ast.IfExp(
                test=ast.Compare(
                    left=load(name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]
                ),
                body=value,
                orelse=method_of(load(name), "keep", value),
            )
            locate(return_cached, statement.lineno, statement.col_offset)
            statement.value = return_cached
        # An inner function returns to this one, not to the caller.
        elif not isinstance(statement, ast.FunctionDef):
            for part in ("body", "orelse", "finalbody"):
                waiting += getattr(statement, part, ())
            for handler in getattr(statement, "handlers", ()):
                waiting += handler.body
