"""Definitions that differ in their constants alone, and the variables for the constants in the code
that they share.

    allow if { input.path == "/a"; input.role == "x" }    row: ("/a", "x")
    allow if { input.path == "/b"; input.role == "y" }    row: ("/b", "y")

Their shapes (`analysis/shapes.py`) are the same. Code is written for the first one, with variables
in place of the constants, so that it holds for any text or number there. A constant that decides
what code is written is a part of the shape: a name in a path, a pattern that is compiled, 0 and 1
(which Python takes for `false` and `true`). Positions are constants, too: errors show those of the
definition itself.

What may fail is never shared: its order counts.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from types import CodeType
from typing import Any, Final

from doorward.base.records import mutable, record, replace
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.shapes import MIN_SHARED, NoShape, Reading
from doorward.rego.analysis.tree import Definition
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.inline import WRITTEN
from doorward.rego.codegen.operand import Operand, constant_value
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.state import FunctionState
from doorward.rego.runtime.evaluation import Site
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Call, Scalar, Set, Term, Var
from doorward.rego.syntax.walk import Node, rewrite, walk

__all__ = ["Group", "Part", "Rows", "Unshared", "lines_are_watched", "parts", "read"]


class Unshared(Exception):
    """Raised where the code of a group would depend on something other than the constants of its
    definitions.
    """


class Rows(list[tuple[Any, ...]]):
    """One tuple of constants for each definition that shares code with the others, in order."""


@mutable(eq=False)
class Group:
    """Definitions that differ in constants alone (its members), so that one piece of code serves
    all. `definition`: the first one, with variables in place of its constants; `operands`: what is
    known of each constant. `positions`: the source positions, or built-in calls at them, that the
    code refers to; they differ by member and are collected while the code is written.
    """

    first: Definition
    operands: tuple[Operand, ...]
    nodes: Sequence[Term]
    spans: dict[int, int]
    """The numbers of the first definition's positions, by identity."""
    repeated: list[tuple[int, int]]
    """Pairs of position numbers that are the same object in the first definition."""
    members: list[Reading] = field(default_factory=list)
    positions: list[tuple[str, int]] = field(default_factory=list)
    code: CodeType | None = None
    """The code of the function that members in a table share, once it is compiled."""
    is_shared: bool = True
    """False once it turned out that the definitions cannot share code."""
    definition: Definition = field(init=False)

    def seal(self) -> None:
        """Set `definition` to the first definition with variables in place of its constants, once
        all members are known. Unshared if a constant occurs more than once in the tree, or not at
        all.
        """
        names = {id(node): variable(n) for n, node in enumerate(self.nodes)}
        rule = self.first.rule
        # A node that stands twice in the tree would become one variable in two places.
        if sum(id(node) in names for node in walk(rule)) != len(names):
            raise Unshared

        def put_variable(node: Node) -> Node:
            name = names.get(id(node))
            return node if name is None else Var(name, node.span)

        self.definition = replace(self.first, rule=rewrite(rule, put_variable))

    @property
    def variables(self) -> frozenset[str]:
        """The names of the variables that stand for the constants in the shared code, one for each
        operand.
        """
        return frozenset(variable(n) for n in range(len(self.operands)))

    @contextmanager
    def written_into(
        self, state: FunctionState, names: Sequence[str], position: Callable[[int], ast.expr]
    ) -> Iterator[None]:
        """Context in which the code that all members share is written. `names`: the Python
        variables that hold the constants of the present member. `position`: returns code for the
        n-th of `positions`.
        """
        before = state.constants
        with state.env.scope(state.env.outer):
            for n, operand in enumerate(self.operands):
                state.env.bind(variable(n), replace(operand, code=load(names[n])))
            state.constants = _SharedConstants(before, self, position)
            try:
                yield
            finally:
                state.constants = before

    def row(self, number: int) -> tuple[Any, ...]:
        """Return one tuple: the constants of a member, then its values for `positions`."""
        member = self.members[number]
        return (*_values(member), *self._values_at_positions(member))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield one tuple for each member: its constants and, as the last item, a tuple of its
        values for `positions`, if there are any.
        """
        for member in self.members:
            member_value = tuple(self._values_at_positions(member))
            values = _values(member)
            yield (*values, member_value) if member_value else values

    def _values_at_positions(self, member: Reading) -> Iterator[Span | Site]:
        """Yield the spans and call sites that a member has for the group's `positions`."""
        for name, number in self.positions:
            span = member.spans[number]
            yield Site(name, span) if name else span


def _values(member: Reading) -> tuple[Any, ...]:
    return tuple([constant_value(constant) for constant in member.constants])


def variable(number: int) -> str:
    """Return the name of the variable for constant `number`, which no policy can write."""
    return f"constant {number}"


class _SharedConstants(Constants):
    """The constants of code that several definitions run."""

    __slots__ = ("_group", "_position")

    def __init__(
        self, constants: Constants, group: Group, position: Callable[[int], ast.expr]
    ) -> None:
        super().__init__(constants.names, constants.shared)
        self._group = group
        self._position = position

    def add(self, value: Any, prefix: str = "k") -> ast.expr:
        """Return code for a constant, which gets a name that begins with `prefix`. A span or call
        site of the first definition becomes code for that of the present member; Unshared if the
        definition does not contain it.
        """
        match value:
            case Span():
                return self._add_position("", value)
            case Site(name, span):
                return self._add_position(name, span)
        return super().add(value, prefix)

    def _add_position(self, name: str, span: Span) -> ast.expr:
        """Return code for the present member's own span in place of `span`, or for the call of the
        built-in `name` there, if that is not "". Unshared if the group's first definition does not
        contain `span`.
        """
        number = self._group.spans.get(id(span))
        if number is None:
            raise Unshared
        positions = self._group.positions
        if (name, number) not in positions:
            positions.append((name, number))
        return self._position(positions.index((name, number)))


@record
class Part:
    """The rules that a piece of code implements: one definition, or a group. `numbers`: the numbers
    of these definitions in the node."""

    definition: Definition
    numbers: tuple[int, ...]
    group: Group | None = None

    @property
    def variables(self) -> frozenset[str]:
        """The names of the variables that stand for constants in the code of a group; none for a
        single definition.
        """
        return self.group.variables if self.group is not None else frozenset()

    def alone(self) -> list[Part]:
        """Return a part for each definition that this one stands for, so that none shares its code;
        [self] for a single definition.
        """
        if self.group is None:
            return [self]
        members = zip(self.group.members, self.numbers, strict=True)
        return [Part(member.definition, (number,)) for member, number in members]


def parts(definitions: Sequence[Definition], plan: Plan) -> list[Part]:
    """Return the definitions of a node as parts, in order: at least `MIN_SHARED` of the same shape
    are one part, at the position of the first. Each is a part of its own if the plan shares no
    code, there are fewer than `MIN_SHARED`, or one of them may fail.
    """
    alone = [Part(definition, (n,)) for n, definition in enumerate(definitions)]
    # Comparing shapes costs more than the code of a few definitions.
    if len(definitions) < MIN_SHARED or not plan.shares:
        return alone
    groups: dict[Hashable, tuple[Group, list[int]]] = {}
    for number, definition in enumerate(definitions):
        reading = read(definition, plan)
        shape: Hashable = None
        with suppress(NoShape):
            # By file, since a code object has one file name for all its positions.
            shape = id(definition.rule.span.source), reading.shape()
        # No constant decides what may fail: definitions of one shape all do, or none.
        if shape not in groups and plan.failures.rule(definition.rule):
            return alone
        if shape is None:
            continue
        if shape not in groups:
            groups[shape] = _group(reading), []
        group, numbers = groups[shape]
        if _fits(reading, group):
            group.members.append(reading)
            numbers.append(number)
    together: dict[int, Part | None] = {}
    for group, numbers in groups.values():
        if len(numbers) < MIN_SHARED:
            continue
        try:
            group.seal()
        except Unshared:
            continue
        together |= dict.fromkeys(numbers)
        together[numbers[0]] = Part(group.definition, tuple(numbers), group)
    result = (together.get(n, part) for n, part in enumerate(alone))
    return [part for part in result if part is not None]


def read(definition: Definition, plan: Plan) -> Reading:
    """Return a `Reading` of a definition for code generation: constants that decide what code is
    written belong to the shape, and arrays and sets of strings count as constants.
    """
    takes_any = partial(_takes_any, plan.callees)
    return Reading(definition, takes_any, opens_collections=True)


def _group(reading: Reading) -> Group:
    """Return a group for the definitions with the shape of `reading`. It has no members yet, not
    even that definition.
    """
    numbers: dict[int, int] = {}
    repeated = []
    for n, span in enumerate(reading.spans):
        known = numbers.setdefault(id(span), n)
        if known != n:
            repeated.append((known, n))
    operands = tuple([_operand(constant) for constant in reading.constants])
    return Group(reading.definition, operands, reading.constants, numbers, repeated)


def _fits(reading: Reading, group: Group) -> bool:
    """Return True if the positions that are one object in the group's first definition are one in
    `reading` too.
    """
    return all(reading.spans[a] is reading.spans[b] for a, b in group.repeated)


def _takes_any(callees: Callees, call: Call) -> bool:
    """Return True if the code of a call does not depend on its constant operands, only on their
    kinds.
    """
    if call.name in _PLAIN_CALLS:
        return True
    callee = callees.find(call)
    if callee is None or callee.builtin is None:
        return callee is not None
    name = callee.builtin.name
    return callee.builtin.prepare is None and name not in WRITTEN and name not in _COMPUTED


def lines_are_watched() -> bool:
    """Return True if a debugger or coverage.py traces lines in this process: shared code has the
    lines of only one definition.
    """
    if sys.gettrace() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any(
        monitoring.get_tool(tool) for tool in (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID)
    )


_HERE: Final = load("constant")
"""A placeholder for the variable that holds the constant in the generated code."""

_PLAIN_CALLS: Final = frozenset(
    {"assign", "eq", "equal", "neq", "lt", "lte", "gt", "gte", "plus", "minus"}
    | {"internal.member_2", "contains", "endswith", "startswith"}
)
_COMPUTED: Final = frozenset({"mul"})
"""Built-ins whose generated code depends on their constant operands."""


def _operand(constant: Term) -> Operand:
    """Return an operand for a constant of a group, of which only the kind is known: a string, an
    integer, or an array or set of strings.
    """
    match constant:
        case Scalar(value):
            return Operand(_HERE, "string" if type(value) is str else "number", is_plain=True)
        case Set():
            return Operand(_HERE, "set", of="string")
    return Operand(_HERE, "array", of="string")
