"""Python functions under construction: statements with positions, nesting, fresh names.

The writer keeps a current block. Opening a test or a walk makes its body the current block, so
that whatever is written next runs only where all of it holds: a Rego body, read from top to
bottom, becomes a nest of plain `if` and `for`. What a Rego expression means is not known here.
"""

from __future__ import annotations

import ast
import keyword
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from doorward.rego.errors import COMPILE_ERROR, Diagnostic, InternalError
from doorward.rego.source import NOWHERE, Span
from doorward.rego.values import operand_text

__all__ = [
    "Block",
    "Constants",
    "all_of",
    "attribute",
    "bind",
    "call",
    "finish",
    "load",
    "make_function",
    "method",
    "method_of",
    "name_of",
    "on",
    "runtime",
    "store",
]

MAX_WALKS: Final = 16
"""Walks nested in one Python function; CPython allows 20 blocks."""

MAX_TESTS: Final = 8
"""Tests joined by `and` in one `if`: more would be hard to read."""

MAX_DEPTH: Final = 60
"""Blocks nested in one Python function, below what Python's compiler can follow."""


def _is_reserved(name: str) -> bool:
    """Whether Python lets nobody assign `name`."""
    return keyword.iskeyword(name) or name == "__debug__"


def load(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Store())


def runtime(name: str) -> ast.Name:
    """A name of `runtime.exports`."""
    return load(f"rt.{name}")


def call(function: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.Call(func=function, args=list(args), keywords=[])


def method(name: str, *args: ast.expr) -> ast.Call:
    """A call of a method of the evaluation."""
    return method_of(load("ctx"), name, *args)


def attribute(value: ast.expr, name: str) -> ast.Attribute:
    return ast.Attribute(value=value, attr=name, ctx=ast.Load())


def method_of(value: ast.expr, name: str, *args: ast.expr) -> ast.Call:
    """`value.name(args)`"""
    return call(attribute(value, name), *args)


def on(errors: ast.expr, held: str, value: ast.expr, error: str | None = None) -> ast.ExceptHandler:
    """`held = value` when one of `errors` is raised, which is then named `error`."""
    assign = ast.Assign(targets=[store(held)], value=value)
    return ast.ExceptHandler(type=errors, name=error, body=[assign])


def all_of(tests: Sequence[ast.expr]) -> ast.expr:
    """A test for whether all of `tests`, at least one, hold."""
    return tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=list(tests))


def name_of(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


@dataclass(slots=True)
class Constants:
    """Objects that generated code names: values, call sites, tree nodes.

    `shared` are the names of a program that a query is added to: they are used, not copied.
    """

    names: dict[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)

    def add(self, value: Any, prefix: str = "k") -> ast.Name:
        return self.named(f"{prefix}.{len(self.shared) + len(self.names)}", value)

    def path(self, names: Sequence[str]) -> ast.Name:
        """A path of names; equal ones are one object."""
        path = tuple(names)
        name = f"path{''.join(map(operand_text, names))}"
        known = self.shared[name] if name in self.shared else self.names.get(name)
        return self.named(name, known if known == path else path)

    def named(self, name: str, value: Any) -> ast.Name:
        """An object under a name of its own, such as a built-in."""
        if name not in self.shared:
            bind(self.names, name, value)
        elif self.shared[name] is not value:
            raise _taken(name)
        return load(name)


def bind(names: dict[str, Any], name: str, value: Any) -> None:
    """Let `name` stand for `value` in generated code.

    InternalError where it stands for another object: one policy would then run with a part of
    another.
    """
    if names.setdefault(name, value) is not value:
        raise _taken(name)


def _taken(name: str) -> InternalError:
    message = f"`{name}` stands for two things in generated code"
    return InternalError([Diagnostic(COMPILE_ERROR, message)])


class Block:
    """Writes the statements of one Python function."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.statements: list[ast.stmt] = []
        self.block = self.statements
        self.span = NOWHERE
        self.walks = 0
        self.depth = 0
        self.taken: set[str] = set()
        self.prelude: dict[str, ast.expr] = {}
        self.walked = 0
        self.called = 0
        self.tails: list[list[ast.stmt]] = []
        self.shared: set[str] = set()
        self.opened: ast.If | None = None
        self.copies: dict[str, str] = {}
        self.uncounted = 0
        """How many of the walks around, from the innermost on, nobody counts the rounds of."""

    # Names

    def fresh(self, wish: str = "") -> str:
        """A local name not used yet in this function: `wish`, or numbered."""
        base = wish or "_"
        if wish and wish not in self.taken and not _is_reserved(wish):
            self.taken.add(wish)
            return wish
        number = len(self.taken)
        while f"{base}{number}" in self.taken:
            number += 1
        self.taken.add(f"{base}{number}")
        return f"{base}{number}"

    # Statements

    def add(self, statement: ast.stmt) -> None:
        """Append to the current block, with the position of the current Rego expression."""
        self._place(statement)
        self.block.append(statement)

    def _place(self, statement: ast.stmt) -> None:
        span = self.span
        row, col = max(span.row, 1), max(span.col - 1, 0)
        for node in ast.walk(statement):
            if isinstance(node, (ast.stmt, ast.expr, ast.excepthandler, ast.arg)) and not hasattr(
                node, "lineno"
            ):
                node.lineno = node.end_lineno = row
                node.col_offset = node.end_col_offset = col

    @contextmanager
    def at(self, span: Span) -> Iterator[None]:
        """Write at the position of `span`."""
        before, self.span = self.span, span if span.row else self.span
        try:
            yield
        finally:
            self.span = before

    def assign(self, name: str, value: ast.expr) -> None:
        self.add(ast.Assign(targets=[store(name)], value=value))

    def attempt(self, held: str, value: ast.expr, *handlers: ast.ExceptHandler) -> None:
        """`held = value`, or what one of `handlers` makes of an error."""
        assign = ast.Assign(targets=[store(held)], value=value)
        self.add(ast.Try(body=[assign], handlers=list(handlers), orelse=[], finalbody=[]))

    def hold(self, value: ast.expr, wish: str = "") -> ast.Name:
        """`value` under a name, so that it is computed once."""
        if isinstance(value, ast.Name) and not wish:
            return value
        name = self.fresh(wish)
        if isinstance(value, ast.Name):
            self.copies[name] = self.original(value.id)
        self.assign(name, value)
        return load(name)

    def original(self, name: str) -> str:
        """The name that `name` is another one for, so that debuggers show it as policies do."""
        return self.copies.get(name, name)

    def run(self, value: ast.expr) -> None:
        """An expression evaluated for its effect."""
        self.add(ast.Expr(value=value))

    def test(self, condition: ast.expr) -> None:
        """Everything written from here on runs only if `condition` holds."""
        if self._joined(condition):
            return
        self._room()
        statement = ast.If(test=condition, body=[], orelse=[])
        self.add(statement)
        self.block = statement.body
        self.opened = statement
        self.depth += 1

    def _joined(self, condition: ast.expr) -> bool:
        """Add `condition` to the test just opened, if nothing stands behind that one yet."""
        opened = self.opened
        if opened is None or self.block is not opened.body or opened.body:
            return False
        self._place(ast.Expr(value=condition))
        tests = opened.test.values if isinstance(opened.test, ast.BoolOp) else [opened.test]
        if len(tests) >= MAX_TESTS:
            return False
        if _implies(condition, tests[-1]):
            tests = tests[:-1]
        joined = [*tests, condition]
        opened.test = all_of(joined)
        ast.copy_location(opened.test, opened)
        return True

    def defined(self, value: ast.expr) -> None:
        """Everything written from here on runs only if `value` is not UNDEFINED."""
        self.test(ast.Compare(left=value, ops=[ast.IsNot()], comparators=[runtime("UNDEFINED")]))

    def walk(self, target: ast.expr, iterable: ast.expr, *, counted: bool = True) -> None:
        """Everything written from here on runs for each of `iterable`, which counts its rounds."""
        self._room()
        self.uncounted = 0 if counted else self.uncounted + 1
        statement = ast.For(target=target, iter=iterable, body=[], orelse=[], type_comment=None)
        self.add(statement)
        self.block = statement.body
        self.walks += 1
        self.walked += 1
        self.depth += 1

    def _room(self) -> None:
        """Go on in a function of its own where the nest is as deep as Python allows."""
        if self.walks < MAX_WALKS and self.depth < MAX_DEPTH:
            return
        inner = self.function_here(self.fresh("rest"), ())
        outcome = self.fresh()
        self.assign(outcome, call(load(inner.name)))
        found = ast.Compare(left=load(outcome), ops=[ast.IsNot()], comparators=[runtime("MISSING")])
        self.add(ast.If(test=found, body=[ast.Return(value=load(outcome))], orelse=[]))
        self.deepen(inner)

    def function_here(self, name: str, args: Sequence[str]) -> ast.FunctionDef:
        """A function inside this one, still empty; it sees this one's variables."""
        function = make_function(name, args)
        self.add(function)
        return function

    def deepen(self, function: ast.FunctionDef) -> None:
        """Continue inside `function`, which returns MISSING when it falls through."""
        self.tails.append(function.body)
        self.block = function.body
        self.walks = self.depth = 0

    @contextmanager
    def aside(self, block: list[ast.stmt], *, fresh_function: bool = False) -> Iterator[None]:
        """Write into `block` for a while; the nest outside is as it was afterwards."""
        saved = self.block, self.walks, self.depth, self.uncounted
        self.block = block
        if fresh_function:
            self.walks = self.depth = 0
        try:
            yield
        finally:
            self.block, self.walks, self.depth, self.uncounted = saved

    @contextmanager
    def nest(self) -> Iterator[None]:
        """Tests and walks opened inside are closed again at the end."""
        saved = self.block, self.walks, self.depth, self.uncounted
        try:
            yield
        finally:
            self.block, self.walks, self.depth, self.uncounted = saved


def _implies(condition: ast.expr, before: ast.expr) -> bool:
    """Whether `condition` can only hold where `before`, a test for UNDEFINED, holds too."""
    if not (isinstance(before, ast.Compare) and isinstance(before.ops[0], ast.IsNot)):
        return False
    if name_of(before.comparators[0]) != "rt.UNDEFINED":
        return False
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        condition = condition.values[0]
    if not isinstance(condition, ast.Compare):
        return False
    tested, left, right = name_of(before.left), condition.left, condition.comparators[0]
    match condition.ops[0]:
        case ast.Eq() | ast.Is() if isinstance(right, ast.Constant):
            return tested is not None and tested == name_of(left)
        case ast.Eq():
            # The other side is defined, and nothing but UNDEFINED equals it.
            sides = name_of(left), name_of(right)
            return tested in sides and None not in sides and len(set(sides)) == 2
        case ast.Is():
            # `type(x) is str` and its like
            return (
                isinstance(left, ast.Call)
                and name_of(left.func) == "rt.type"
                and name_of(left.args[0]) == tested
            )
    return False


def finish(function: ast.FunctionDef, shared: set[str]) -> None:
    """Make `function` complete: inner functions name what they assign outside."""
    _complete(function, shared, frozenset())


def _complete(function: ast.FunctionDef, shared: set[str], outside: frozenset[str]) -> None:
    own: set[str] = set()
    inner: list[ast.FunctionDef] = []
    waiting: list[ast.stmt] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            inner.append(node)
        elif isinstance(node, ast.Assign):
            own.update(t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, (ast.If, ast.For)):
            waiting += node.body
    reached = sorted(own & shared & outside)
    if reached:
        function.body.insert(0, ast.copy_location(ast.Nonlocal(names=reached), function))
    for node in inner:
        _complete(node, shared, outside | own)


def make_function(name: str, args: Sequence[str]) -> ast.FunctionDef:
    """An empty function definition."""
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(arg=arg, annotation=None, type_comment=None) for arg in args],
        vararg=None,
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
