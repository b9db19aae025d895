"""Constructors for the Python syntax that generated code is made of, and positions for it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from typing import Any, Final

__all__ = [
    "all_of",
    "attribute",
    "call",
    "declare_nonlocals",
    "except_clause",
    "is_undefined_test",
    "load",
    "locate",
    "make_function",
    "method",
    "method_of",
    "name_of",
    "negation",
    "runtime",
    "store",
    "subscript",
]


def load(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Store())


def runtime(name: str) -> ast.Name:
    """Return code for a name of `runtime.exports`."""
    return load(f"rt.{name}")


def call(function: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.Call(func=function, args=list(args), keywords=[])


def method(name: str, *args: ast.expr) -> ast.Call:
    """Return code for the call of a method of the evaluation `ctx`."""
    return method_of(load("ctx"), name, *args)


def attribute(value: ast.expr, name: str) -> ast.Attribute:
    return ast.Attribute(value=value, attr=name, ctx=ast.Load())


def method_of(value: ast.expr, name: str, *args: ast.expr) -> ast.Call:
    """Return code for `value.name(args)`."""
    return call(attribute(value, name), *args)


def subscript(value: ast.expr, key: str | int) -> ast.Subscript:
    """Return code for `value[key]`."""
    return ast.Subscript(value=value, slice=ast.Constant(value=key), ctx=ast.Load())


def negation(value: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(op=ast.Not(), operand=value)


def failure_of(tests: Sequence[ast.expr]) -> ast.expr:
    """Return a test that at least one of `tests` does not hold."""
    failures = [_inverse(test) for test in tests]
    return failures[0] if len(failures) == 1 else ast.BoolOp(op=ast.Or(), values=failures)


def _inverse(test: ast.expr) -> ast.expr:
    """Return code that tests the opposite of `test`, with `is not` for `is` and without a double
    `not`; other tests get a `not`.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        # Of the operators only those that no class defines: `!=` may not be the inverse of `==`.
        case ast.Compare(left=left, ops=[ast.Is()], comparators=comparators):
            return ast.Compare(left=left, ops=[ast.IsNot()], comparators=comparators)
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=comparators):
            return ast.Compare(left=left, ops=[ast.Is()], comparators=comparators)
    return negation(test)


def except_clause(
    errors: ast.expr, target: str, value: ast.expr, error: str | None = None
) -> ast.ExceptHandler:
    """Return an except clause that assigns `value` to `target` if one of `errors` is raised.
    `error` is the name of the caught error, None if it needs none.
    """
    assign = ast.Assign(targets=[store(target)], value=value)
    return ast.ExceptHandler(type=errors, name=error, body=[assign])


def all_of(tests: Sequence[ast.expr]) -> ast.expr:
    """Return a test that all of `tests` hold; there must be at least one."""
    return tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=list(tests))


def name_of(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def is_undefined_test(test: ast.expr) -> bool:
    """Return True if `test` has the form `… is not rt.UNDEFINED`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.IsNot)
        and name_of(test.comparators[0]) == "rt.UNDEFINED"
    )


def make_function(name: str, args: Sequence[str]) -> ast.FunctionDef:
    """Return a function definition without statements and defaults, whose parameters are `args`;
    the last may be `*rest`.
    """
    every = [ast.arg(arg=arg.lstrip("*"), annotation=None, type_comment=None) for arg in args]
    rest = every.pop() if args and args[-1].startswith("*") else None
    arguments = ast.arguments(
        posonlyargs=[],
        args=every,
        vararg=rest,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )
    return ast.FunctionDef(
        name=name,
        args=arguments,
        body=[],
        decorator_list=[],
        returns=None,
        type_comment=None,
        **_TYPE_PARAMS,
    )


_TYPE_PARAMS: Final[dict[str, Any]] = {"type_params": []} if sys.version_info >= (3, 12) else {}


def locate(node: ast.AST, row: int, col: int) -> None:
    """Give a position to `node` and everything below it that has none. INVARIANT: below a node with
    a position every node has one, so such a node is not entered again.
    """
    waiting: list[ast.AST] = [node]
    while waiting:
        item = waiting.pop()
        fields = item.__dict__
        if item._attributes:
            if "lineno" in fields:
                continue
            fields["lineno"] = fields["end_lineno"] = row
            fields["col_offset"] = fields["end_col_offset"] = col
        for name in _PARTS.get(item.__class__, item._fields):
            value = fields.get(name)
            if value.__class__ is list:
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                waiting.append(value)


_PARTS: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    ast.Name: (),
    ast.Constant: (),
    ast.Attribute: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.Call: ("func", "args"),
    ast.Compare: ("left", "comparators"),
    ast.BoolOp: ("values",),
    ast.UnaryOp: ("operand",),
    ast.Assign: ("targets", "value"),
    ast.Expr: ("value",),
    ast.Return: ("value",),
    ast.List: ("elts",),
    ast.Tuple: ("elts",),
    ast.Dict: ("keys", "values"),
    ast.IfExp: ("test", "body", "orelse"),
}
"""By class of AST node, the fields that hold nodes with a position, for the classes that generated
code mostly consists of.
"""


def declare_nonlocals(function: ast.FunctionDef, shared: set[str]) -> None:
    """Add a `nonlocal` statement to each inner function of `function` that assigns a name in
    `shared` which a function around it assigns too.
    """
    _declare_nonlocals(function, shared, frozenset())


def _declare_nonlocals(
    function: ast.FunctionDef, shared: set[str], outside: frozenset[str]
) -> None:
    """Add a `nonlocal` statement to `function`, and to each function inside, for the names in
    `shared` that both it and a function around it assign. `outside` are the names that the
    functions around `function` assign.
    """
    assigned_names: set[str] = set()
    inner: list[ast.FunctionDef] = []
    waiting: list[ast.stmt] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            inner.append(node)
        elif isinstance(node, ast.Assign):
            assigned_names.update(t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, (ast.If, ast.For)):
            waiting += node.body
    reached = sorted(assigned_names & shared & outside)
    if reached:
        function.body.insert(0, ast.copy_location(ast.Nonlocal(names=reached), function))
    for node in inner:
        _declare_nonlocals(node, shared, outside | assigned_names)
