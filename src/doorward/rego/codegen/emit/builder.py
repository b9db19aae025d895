"""Statements with positions, blocks that nest, and scopes that close them again.

The builder keeps a current block. Opening a test or a loop makes its body the current block, so
that whatever is written next runs only where all of it holds: a Rego body, read from top to
bottom, becomes a nest of plain `if` and `for`. CPython limits how deep that may be; the builder
continues in an inner function where the limit is reached. Where nothing follows but a `return`
(`leaving`), a test is a guard instead, which returns where it fails: nothing nests before the first
loop.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from doorward.rego.codegen.emit.ast_nodes import (
    all_of,
    attribute,
    call,
    declare_nonlocals,
    failure_of,
    is_undefined_test,
    load,
    locate,
    make_function,
    name_of,
    runtime,
    store,
)
from doorward.rego.codegen.emit.temporaries import Temporaries
from doorward.rego.source import NOWHERE, Span

__all__ = ["Builder"]

# Some below 20, since the `try` of a lookup is a block, too.
MAX_LOOPS: Final = 16
"""The most nested loops in one Python function; CPython allows 20 blocks."""

MAX_TESTS: Final = 8
"""The most tests joined by `and` in one `if`; more would be hard to read."""

MAX_DEPTH: Final = 60
"""The most nested blocks in one Python function, below the limit of Python's compiler."""


class _At:
    """A context manager that sets the source position of new statements. It is a class because it
    is used more often than anything else here.
    """

    __slots__ = ("_before", "_builder", "_span")

    def __init__(self, builder: Builder, span: Span) -> None:
        self._builder = builder
        self._span = span

    def __enter__(self) -> None:
        self._before = self._builder.span
        if self._span.row:
            self._builder.span = self._span

    def __exit__(self, *_: object) -> None:
        self._builder.span = self._before


class Builder:
    """Builds the statements of one Python function. Only this file changes its state."""

    __slots__ = (
        "block",
        "conditional",
        "depth",
        "leave",
        "loops",
        "number",
        "opened",
        "opened_row",
        "opened_tests",
        "span",
        "tails",
        "temps",
        "written",
    )

    def __init__(self, temps: Temporaries) -> None:
        self.temps = temps
        self.written: list[ast.stmt] = []
        self.block = self.written
        self.span = NOWHERE
        self.loops = 0
        """The number of loops around the current block, in this Python function."""
        self.depth = 0
        """The number of blocks around the current block, in this Python function."""
        self.conditional = False
        """True if the statements written next may be skipped at run time."""
        self.opened: ast.If | None = None
        """The `if` statement opened last, to which another test may be joined."""
        self.opened_tests: list[ast.expr] = []
        """The tests of that statement, which must all hold."""
        self.opened_row = 0
        """The row of the policy that the statement tests."""
        self.number: int | None = None
        """The number of the definition whose failure is recorded if a test fails; None if nothing
        is recorded.
        """
        self.leave: Callable[[], ast.expr] | None = None
        """A function that makes the code of the value returned by a failing test; None if a test
        opens a block instead.
        """
        self.tails: list[list[ast.stmt]] = []
        """The bodies of the inner functions in which the code continues."""

    # Statements

    def add(self, statement: ast.stmt) -> None:
        """Append a statement to the current block, at the position of the current Rego
        expression.
        """
        self._locate(statement)
        self.block.append(statement)

    def _locate(self, node: ast.AST) -> None:
        locate(node, max(self.span.row, 1), max(self.span.col - 1, 0))

    def at(self, span: Span) -> _At:
        """Return a context manager in which statements get the position of `span`; a span without a
        row changes nothing.
        """
        return _At(self, span)

    def assign(self, name: str, value: ast.expr) -> None:
        self.add(ast.Assign(targets=[store(name)], value=value))

    def attempt(self, target: str, value: ast.expr, *handlers: ast.ExceptHandler) -> None:
        """Write `target = value` in a `try` statement with these `handlers`."""
        assign = ast.Assign(targets=[store(target)], value=value)
        self.add(ast.Try(body=[assign], handlers=list(handlers), orelse=[], finalbody=[]))

    def bind_temp(self, value: ast.expr, wish: str = "", *, holds: str = "") -> ast.Name:
        """Assign `value` to a new local variable, so that it is computed once, and return the
        variable. It is named `wish`, with a number if that is taken; without a `wish`, after what
        it `holds`. A `value` that is a variable is returned as it is, unless there is a `wish`.
        """
        if isinstance(value, ast.Name) and not wish:
            return value
        name = self.temps.fresh(wish) if wish else self.temps.holding(holds)
        if isinstance(value, ast.Name):
            self.temps.note_copy(name, value.id)
        self.assign(name, value)
        return load(name)

    def run(self, value: ast.expr) -> None:
        """Write an expression that is evaluated for its effect."""
        self.add(ast.Expr(value=value))

    def return_value(self, value: ast.expr) -> None:
        """Append `return value` to the current block; code written behind it in that block is never
        reached.
        """
        self.add(ast.Return(value=value))

    # Tests and loops

    def test(self, condition: ast.expr) -> None:
        """Append a test to the current block: code written next runs only if `condition` holds. It
        is joined to the test just opened if nothing was written behind that. While `leave` is set,
        the function returns where the test fails, and no block is nested. A failure is recorded at
        run time if `number` is set.
        """
        if self._join(condition):
            return
        self.opened_tests = _conjuncts(condition)
        self.opened_row = self.span.row
        if self.leave is None:
            self.ensure_depth()
        failed = [] if self.number is None else [self._note_failure(self.number, self.span.row)]
        if self.leave is not None:
            self.opened = ast.If(
                test=failure_of(self.opened_tests),
                body=[*failed, ast.Return(value=self.leave())],
                orelse=[],
            )
            self.add(self.opened)
            self.conditional = True
            return
        self.opened = ast.If(test=condition, body=[], orelse=failed)
        self.add(self.opened)
        self._enter(self.opened.body)

    def _join(self, condition: ast.expr) -> bool:
        """Add `condition` to the test that was opened last, so that both must hold, in place of its
        last part if that is a test for UNDEFINED that the condition implies; return True. Return
        False, with nothing changed, if no test is open, code follows it, it has `MAX_TESTS`
        conditions, or failures are recorded and it is of another row.
        """
        opened = self.opened
        if opened is None or len(self.opened_tests) >= MAX_TESTS:
            return False
        # A failure is recorded with its row, so that tests of two rows stay apart.
        if self.number is not None and self.opened_row != self.span.row:
            return False
        is_guard = self.leave is not None
        if is_guard:
            if not self.block or self.block[-1] is not opened:
                return False
        elif self.block is not opened.body or opened.body:
            return False
        self._locate(condition)
        # UNDEFINED fails the new test as well.
        if _implies(condition, self.opened_tests[-1]):
            self.opened_tests.pop()
        self.opened_tests += _conjuncts(condition)
        opened.test = failure_of(self.opened_tests) if is_guard else all_of(self.opened_tests)
        locate(opened.test, opened.lineno, opened.col_offset)
        return True

    def test_defined(self, value: ast.expr) -> None:
        """Write a test: code written next runs only if `value` is not UNDEFINED."""
        self.test(ast.Compare(left=value, ops=[ast.IsNot()], comparators=[runtime("UNDEFINED")]))

    def loop(self, target: ast.expr, iterable: ast.expr) -> None:
        """Append a loop over `iterable`, in an inner function if blocks are nested too deeply: code
        written after this runs for each item. If failures are being recorded, that ends here, with
        the row of the loop as the failure.
        """
        self.ensure_depth()
        if self.number is not None:
            # Not in each round: what stays is that none of them held.
            self.note(self.number, self.span.row)
            self.number = None
        statement = ast.For(target=target, iter=iterable, body=[], orelse=[], type_comment=None)
        self.add(statement)
        self._enter(statement.body)
        self.loops += 1

    def note_failures(self, number: int | None) -> None:
        """From here on, write with each test a statement that records the row where definition
        `number` failed, until the scope ends or a loop begins. None turns this off.
        """
        self.number = number

    def note(self, number: int, row: int) -> None:
        """Write a record for definition `number`: row 0 if it answered, otherwise the row of the
        condition that failed.
        """
        self.add(self._note_failure(number, row))

    def _note_failure(self, number: int, row: int) -> ast.stmt:
        """Return the statement that records `row` for definition `number`: that of the condition
        that failed, or 0 if it answered. Binds `_marks` at the start of the function.
        """
        marks = self.temps.bind_at_start("_marks", attribute(load("ctx"), "marks"))
        target = ast.Subscript(value=marks, slice=ast.Constant(value=number), ctx=ast.Store())
        return ast.Assign(targets=[target], value=ast.Constant(value=row))

    def _enter(self, block: list[ast.stmt]) -> None:
        """Continue in a nested block, one level deeper, whose code may be skipped at run time and
        in which failing tests do not return.
        """
        self.block = block
        self.depth += 1
        self.conditional = True
        self.leave = None

    @contextmanager
    def leaving(self, value: Callable[[], ast.expr] | None) -> Iterator[None]:
        """Context in which a failing test returns `value()` from the function instead of opening a
        block; not in loops and scopes inside. The caller must return the same value at the end and
        write nothing in between. None changes nothing.
        """
        before, self.leave = self.leave, value
        self.opened = None
        try:
            yield
        finally:
            self.leave = before

    # Inner functions

    def ensure_depth(self) -> None:
        """If blocks or loops are nested as deep as Python allows, continue in an inner function: it
        is called here, and if it returns a value, that is returned. What is written next goes into
        it, and a failing test in it returns MISSING. Otherwise do nothing.
        """
        if self.loops < MAX_LOOPS and self.depth < MAX_DEPTH:
            return
        inner = self.inner_function(self.temps.fresh("rest"))
        outcome = self.temps.fresh()
        self.assign(outcome, call(load(inner.name)))
        came = ast.Compare(left=load(outcome), ops=[ast.IsNot()], comparators=[runtime("MISSING")])
        self.add(ast.If(test=came, body=[ast.Return(value=load(outcome))], orelse=[]))
        # INVARIANT: it returns MISSING where it falls through; `function` writes that.
        self.tails.append(inner.body)
        self._go_to(inner.body)
        # Nothing follows in it but that return, so that it need not continue in a third one.
        self.leave = lambda: runtime("MISSING")

    def inner_function(self, name: str, body: list[ast.stmt] | None = None) -> ast.FunctionDef:
        """Add the definition of an inner function, which sees the variables of this one, and return
        it. It is empty without `body`.
        """
        function = make_function(name, ())
        function.body = [] if body is None else body
        self.add(function)
        return function

    def _go_to(self, block: list[ast.stmt]) -> None:
        """Continue at the end of `block`, which is outside all loops and tests: levels are counted
        from 0 again, and a failing test does not return early.
        """
        self.block = block
        self.loops = self.depth = 0
        self.conditional = True
        self.leave = None

    # Scopes

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Return a context at whose end the tests and loops opened inside are closed, so that
        writing goes on where it began. Inside, failing tests are not recorded and do not return
        (`leaving`).
        """
        saved = self.block, self.loops, self.depth, self.conditional, self.leave, self.number
        self.leave = self.number = None
        try:
            yield
        finally:
            self.block, self.loops, self.depth, self.conditional, self.leave, self.number = saved
            self.opened = None

    @contextmanager
    def redirect_to(self, function: ast.FunctionDef) -> Iterator[None]:
        """Context in which statements are written into the inner `function` instead of the current
        block.
        """
        with self.scope():
            self._go_to(function.body)
            yield

    @contextmanager
    def capture(self) -> Iterator[list[ast.stmt]]:
        """Context in which statements go into the list that it yields, so that the caller can
        insert them later with `splice`.
        """
        with self.scope():
            self.block = []
            yield self.block

    def splice(self, statements: Sequence[ast.stmt]) -> None:
        """Append captured statements to the current block."""
        self.block += statements

    def function(
        self, name: str, args: Sequence[str], first: Sequence[ast.expr]
    ) -> ast.FunctionDef:
        """Return a function `name` of all statements written so far. It begins with the assignments
        that `temps` collected for its start, and then evaluates the expressions in `first`.
        """
        result = make_function(name, args)
        self._locate(result)
        start: list[ast.stmt] = [
            ast.Assign(targets=[store(local)], value=value)
            for local, value in self.temps.at_start.items()
        ]
        start += [ast.Expr(value=value) for value in first]
        ends = [ast.Return(value=runtime("MISSING")) for _ in self.tails]
        for statement in (*start, *ends):
            self._locate(statement)
        result.body = start + self.written
        # INVARIANT: an inner function that falls through returns MISSING (see `ensure_depth`).
        for tail, end in zip(self.tails, ends, strict=True):
            tail.append(end)
        declare_nonlocals(result, self.temps.shared)
        return result


def _conjuncts(condition: ast.expr) -> list[ast.expr]:
    """Return the operands of an `and`; a list of `condition` itself otherwise."""
    match condition:
        case ast.BoolOp(op=ast.And(), values=values):
            return list(values)
    return [condition]


def _implies(condition: ast.expr, before: ast.expr) -> bool:
    """Return True if `condition` can only hold where `before`, a test that a value is not
    UNDEFINED, holds; False if `before` is another test or that is not known.
    """
    if not is_undefined_test(before):
        return False
    assert isinstance(before, ast.Compare)  # it is such a test
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
