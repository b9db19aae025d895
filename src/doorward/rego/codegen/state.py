"""All that is known while one Python function is written, each part with one owner.

    temps      the local names that are taken             changed by `emit.temporaries`
    code       the statements, and where the next goes    changed by `emit.builder`
    env        what holds the value of each variable      changed here, by `Environment`
    reads      what was read before                       changed here, by `Reads`
    loops      what was counted                           changed here, by `Counters`

The modules that write terms, references, calls and bodies are functions of this state and of a
node: they keep nothing themselves, and change the state only by its methods. docs/codegen.md
explains what the parts are for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, KeysView, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final, TypeAlias

from doorward.base.records import record
from doorward.rego.analysis.multiplicity import Multiplicity
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import attribute, load, method
from doorward.rego.codegen.emit.builder import Builder
from doorward.rego.codegen.emit.temporaries import Temporaries
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.plan import Plan
from doorward.rego.syntax.nodes import (
    ArrayComprehension,
    Body,
    Call,
    Expr,
    ObjectComprehension,
    Ref,
    SetComprehension,
)

__all__ = [
    "STATE_NAMES",
    "Comprehension",
    "Counters",
    "Environment",
    "FunctionKind",
    "FunctionState",
    "Read",
    "Reads",
    "Writers",
]

STATE_NAMES: Final = {
    "input": "input",
    "data": "data",
    "cache": "_cache",
    "constants": "_constants",
}
"""Local names for attributes of `ctx`."""

Comprehension: TypeAlias = ArrayComprehension | SetComprehension | ObjectComprehension

Read: TypeAlias = tuple[str | int, ...]
"""The key of a read: a name and the path below it, or the name of an evaluation and the slot of
rules.
"""


class FunctionKind(Enum):
    """The part of a program that a generated Python function evaluates."""

    RULE = auto()
    """All definitions of a rule; the function runs once in an evaluation."""
    CHOICE = auto()
    """A rule that chooses its definitions by a table."""
    FUNCTION = auto()
    """All definitions of a Rego function, or the choice among them."""
    DEFINITION = auto()
    """One definition, which a function that chooses by a table calls."""
    QUERY = auto()


class Environment:
    """The Python names that hold the bound Rego variables, and the name of the evaluation."""

    __slots__ = ("_operands", "evaluation", "outer")

    def __init__(self) -> None:
        self._operands: dict[str, Operand] = {}
        self.outer: frozenset[str] = frozenset()
        """Variables of the enclosing bodies, outside of closures."""
        self.evaluation = "ctx"
        """The name of the variable that holds the evaluation; another one under `with`."""

    def __getitem__(self, name: str) -> Operand:
        return self._operands[name]

    def __contains__(self, name: str) -> bool:
        return name in self._operands

    def get(self, name: str) -> Operand | None:
        return self._operands.get(name)

    def names(self) -> KeysView[str]:
        """Return a view of the names of the bound variables."""
        return self._operands.keys()

    def bind(self, name: str, operand: Operand) -> None:
        self._operands[name] = operand

    @contextmanager
    def scope(self, outer: frozenset[str] | None = None) -> Iterator[None]:
        """Context at whose end the variables bound inside are dropped. `outer`: the variables that
        the enclosing bodies have outside of closures, set while it lasts; None leaves them
        unchanged.
        """
        saved = self._operands, self.outer
        # INVARIANT: `names` of before stay those of the bindings that hold again afterwards.
        self._operands = dict(self._operands)
        if outer is not None:
            self.outer = outer
        try:
            yield
        finally:
            self._operands, self.outer = saved

    def enter(self, evaluation: str) -> None:
        """Make code written from here on read from the evaluation in the Python variable
        `evaluation`, until the enclosing `same_evaluation` ends.
        """
        self.evaluation = evaluation

    @contextmanager
    def same_evaluation(self) -> Iterator[None]:
        """Context at whose end code reads from the same evaluation as before, whatever `enter` set
        inside.
        """
        before = self.evaluation
        try:
            yield
        finally:
            self.evaluation = before


class Reads:
    """The references that the function has read already, by their keys, so that they are not read
    again while their values are known.
    """

    __slots__ = (
        *("_always", "_branches", "_code", "_getters", "_lengths", "_maybe"),
        *("_of_data", "_seen"),
    )

    def __init__(self, code: Builder) -> None:
        self._code = code
        self._seen: dict[Read, ast.Name] = {}
        """References that were read and tested to be defined within the current blocks."""
        self._maybe: dict[Read, ast.Name] = {}
        """References that were read but may be UNDEFINED, since no test was written yet."""
        self._always: dict[Read, ast.Name] = {}
        """References that the function reads in any case, before the code written next."""
        self._branches: dict[Read, ast.Name] = {}
        """The objects from which several members are read, by the key of their read."""
        self._lengths: set[int] = set()
        """How many names the keys of `_branches` have."""
        self._getters: dict[str, str] = {}
        """The name of the function that reads a member, by the name of the object."""
        self._of_data = {"data"}
        """Names of values read from base data."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Context at whose end references read inside are forgotten, unless they are always
        read.
        """
        seen, maybe = dict(self._seen), dict(self._maybe)
        try:
            yield
        finally:
            self._seen, self._maybe = seen, maybe

    @property
    def always(self) -> dict[Read, ast.Name]:
        """A copy of the references that the function reads in any case, for `forget_since`."""
        return dict(self._always)

    def forget_since(self, always: dict[Read, ast.Name]) -> None:
        """Forget the references recorded as read in any case since `always` was copied: the code
        that reads them is in another function.
        """
        self._always = always

    def recall(self, key: Read) -> ast.Name | None:
        """Return the name of the value read under `key`; None if it was not read here. Writes a
        test that it is defined, if that was not tested yet.
        """
        known = self._seen.get(key)
        if known is None:
            known = self._maybe.get(key) or self._always.get(key)
            if known is not None:
                self._seen[key] = known
                self._code.test_defined(known)
        return known

    def remember(self, key: Read, name: ast.Name) -> None:
        """Record that the value for `key` was read into `name`, for the rest of the function if the
        code written now always runs, otherwise for the current scope, and append a test that it is
        defined.
        """
        if not self._code.conditional:
            self._always[key] = name
        self._seen[key] = name
        self._code.test_defined(name)

    def knows(self, key: Read) -> bool:
        """Return True if the reference was read, whether or not its value was tested."""
        return key in self._seen or key in self._maybe or key in self._always

    def note(self, key: Read, name: ast.Name) -> None:
        """Record that the value for `key` was read into `name` but not tested: it may be UNDEFINED.
        That holds for the rest of the function if the code written now always runs, otherwise for
        the current scope.
        """
        known = self._maybe if self._code.conditional else self._always
        known[key] = name

    def note_untested(self, key: Read, name: ast.Name) -> None:
        """Record within the current scope that the value for `key` was read into `name`, but not
        tested: it may be UNDEFINED.
        """
        self._maybe[key] = name

    # Objects of which several members are read

    def share(self, key: Read, name: ast.Name, getter: str) -> None:
        """Record that the object for `key` was read into `name`, for the rest of the function, and
        that the function `getter` reads its members.
        """
        self._branches[key] = self._always[key] = name
        self._lengths.add(len(key) - 1)
        self._getters[name.id] = getter

    def nearest(self, base: ast.Name, names: Sequence[str]) -> tuple[ast.Name, Sequence[str]]:
        """Return the object that `share` recorded on the path of `names` below `base`, above its
        end and nearest to it, and the names after the object; `base` and all names if there is
        none.
        """
        # Only the lengths that exist: of a long path, trying all would take quadratic time.
        lengths = [n for n in self._lengths if 0 < n < len(names)]
        for n in sorted(lengths, reverse=True):
            inner = self._branches.get((base.id, *names[:n]))
            if inner is not None:
                return inner, names[n:]
        return base, names

    def getter(self, name: ast.Name) -> str | None:
        return self._getters.get(name.id)

    # Base data

    def mark_data(self, name: str) -> None:
        """Record that the value of `name` was read from base data."""
        self._of_data.add(name)

    def is_of_data(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and self._code.temps.original(value.id) in self._of_data


class Counters:
    """Counts the loops and calls written, and the loops whose rounds are not counted."""

    __slots__ = ("builtins", "calls", "comprehensions", "loops", "passed", "uncounted")

    def __init__(self) -> None:
        self.loops = 0
        """The number of loops written, without those of comprehensions."""
        self.calls = 0
        """The number of calls of functions written."""
        self.comprehensions = 0
        """The number of closures with loops written."""
        self.builtins = 0
        """The number of calls of built-ins that are not written in line."""
        self.uncounted = 0
        """The number of enclosing loops, counted from the innermost, whose rounds are not
        counted.
        """
        self.passed = 0
        """The number of loops so far that could be left uncounted."""

    def add_loop(self, *, counted: bool) -> None:
        self.loops += 1
        self.uncounted = 0 if counted else self.uncounted + 1

    def add_call(self) -> None:
        self.calls += 1

    def add_builtin(self) -> None:
        self.builtins += 1

    def number_uncounted_loop(self) -> int:
        """Count a loop that may go uncounted; return its number."""
        self.passed += 1
        return self.passed

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Context that restores `uncounted`, the number of enclosing uncounted loops, at its
        end.
        """
        saved = self.uncounted
        try:
            yield
        finally:
            self.uncounted = saved

    @contextmanager
    def one_value(self) -> Iterator[None]:
        """Context for code with a single value, such as a closure: the loops written in it are not
        added to `loops`, but count together as one of `comprehensions`.
        """
        saved = self.loops
        try:
            yield
        finally:
            self.comprehensions += self.loops > saved
            self.loops = saved


@record
class Writers:
    """The functions by which a module writes parts of a term that a later module implements. Terms
    contain references and references contain terms, but modules import each other in one order
    only; the calls in the other direction use this table. docs/design.md says why.
    """

    ref: Callable[[FunctionState, Ref], Operand]
    call: Callable[[FunctionState, Call], Operand]
    comprehension: Callable[[FunctionState, Comprehension], Operand]
    body: Callable[[FunctionState, Body], None]
    expression_value: Callable[[FunctionState, Expr], Operand]


@record
class Join:
    """A condition on the items of the next loop, which may leave out those that fail it: the value
    at `path` in the item must equal `value`.
    """

    path: tuple[str, ...]
    value: ast.expr


class FunctionState:
    """One Python function under construction."""

    __slots__ = (
        *("code", "constants", "counters", "env", "join", "kind", "multiplicity"),
        *("plan", "reads", "stored", "temps", "writers"),
    )

    def __init__(
        self,
        plan: Plan,
        constants: Constants,
        writers: Writers,
        kind: FunctionKind = FunctionKind.QUERY,
        multiplicity: Multiplicity | None = None,
    ) -> None:
        self.plan = plan
        self.constants = constants
        self.writers = writers
        self.kind = kind
        self.multiplicity = multiplicity or Multiplicity()
        self.temps = Temporaries(("ctx", *STATE_NAMES.values()))
        self.code = Builder(self.temps)
        self.env = Environment()
        self.reads = Reads(self.code)
        self.counters = Counters()
        self.stored: set[str] = set()
        """Variables that were bound outside of all loops."""
        self.join: Join | None = None
        """The join that the next loop must use; None for none. The loop resets it."""

    def walk(self, collection: ast.expr, *, with_keys: bool = False) -> ast.expr:
        """Return code that iterates over the values of a collection, or with `with_keys` over its
        pairs, and counts them for the deadline. With a pending join, items that do not match it may
        be left out; the join is reset.
        """
        name, join = "items" if with_keys else "values", self.join
        if join is None:
            return method(name, collection)
        self.join = None
        path = self.constants.path(join.path) if join.path else ast.Tuple(elts=[], ctx=ast.Load())
        name = "matching_items" if with_keys else "matching"
        return method(name, collection, path, join.value)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Context at whose end tests and loops are closed, and references read inside are
        forgotten, except those that the function reads in any case.
        """
        with self.reads.scope(), self.counters.scope(), self.code.scope():
            yield

    def loop(self, target: ast.expr, iterable: ast.expr, *, counted: bool = True) -> None:
        """Write a loop over `iterable`; code written after this runs in it. `counted`: its rounds
        count for the deadline.
        """
        self.counters.add_loop(counted=counted)
        self.code.loop(target, iterable)

    def of_evaluation(self, part: str) -> ast.expr:
        """Return code for an attribute of the present evaluation, such as `ctx.input`. Those of the
        function's own `ctx` are read once, at its start, into a local variable; those of an
        evaluation under a `with` each time.
        """
        value = attribute(load(self.env.evaluation), part)
        if self.env.evaluation != "ctx":
            return value
        return self.temps.bind_at_start(STATE_NAMES[part], value)
