"""Definitions that differ in their constants alone, and what stands for the constants in the code
that they share.

    allow if { input.path == "/a"; input.role == "x" }    shape: input.path == ?, input.role == ?
    allow if { input.path == "/b"; input.role == "y" }    rows:  ("/a", "x"), ("/b", "y")

A definition is read once: what it is but for its constants is its shape, and the constants are its
row. Code is written for the first definition of a shape, with variables in place of the constants,
so that it holds for any text or number there. A constant that decides what code is written is a
part of the shape: a name in a path, a pattern that is compiled, 0 and 1 (which Python takes for
`false` and `true`). Positions are constants, too: errors show those of the definition itself.

What may fail is never shared: its order counts. What is not named here has no shape.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

from doorward.records import record, replace
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.tree import Definition
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.inline import WRITTEN
from doorward.rego.codegen.operand import Operand, constant_value
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.state import FunctionState
from doorward.rego.runtime.evaluation import Site
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.walk import Node, rewrite, walk

__all__ = ["MIN_SHARED", "Group", "Part", "Rows", "Unshared", "lines_are_watched", "parts"]

MIN_SHARED: Final = 16
"""Definitions of one shape from which they share code."""


class Unshared(Exception):
    """A definition has no shape, or its code names what is not a constant of it."""


class Rows(list[tuple[Any, ...]]):
    """The constants of the definitions of one shape, in order."""


@dataclass(slots=True, eq=False)
class Group:
    """The definitions of one shape.

    `definition`: the first one, with variables in place of its constants; `operands`: those by the
    name of the variable. `positions`: what the code names of each definition besides its constants,
    once it is written: a position, or the call of a built-in there.
    """

    first: Definition
    operands: tuple[Operand, ...]
    nodes: list[Term]
    spans: dict[int, int]
    """The numbers of the first definition's positions, by identity."""
    repeated: list[tuple[int, int]]
    """Numbers of positions that are one object."""
    members: list[_Reading] = field(default_factory=list)
    positions: list[tuple[str, int]] = field(default_factory=list)
    code: CodeType | None = None
    """The code of the function that members in a table share, once it is compiled."""
    is_shared: bool = True
    """False once it turned out that they cannot share it."""
    definition: Definition = field(init=False)

    def seal(self) -> None:
        """Write the definition with variables; nobody joins any more."""
        names = {id(node): variable(n) for n, node in enumerate(self.nodes)}
        rule = self.first.rule
        if sum(id(node) in names for node in walk(rule)) != len(names):
            raise Unshared

        def put_variable(node: Node) -> Node:
            name = names.get(id(node))
            return node if name is None else Var(name, node.span)

        self.definition = replace(self.first, rule=rewrite(rule, put_variable))

    @property
    def variables(self) -> frozenset[str]:
        """The variables in place of the constants."""
        return frozenset(variable(n) for n in range(len(self.operands)))

    @contextmanager
    def written_into(
        self, state: FunctionState, names: Sequence[str], position: Callable[[int], ast.expr]
    ) -> Iterator[None]:
        """Write code inside that runs for each member.

        `names`: the local names of the constants. `position`: an expression for one of `positions`.
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
        """The constants of a member, then what it is for each of `positions`."""
        member = self.members[number]
        return (*member.values, *self._own(member))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The constants of each member, then a tuple of its own for `positions`, if any."""
        for member in self.members:
            own = tuple(self._own(member))
            yield (*member.values, own) if own else tuple(member.values)

    def _own(self, member: _Reading) -> Iterator[Span | Site]:
        for name, number in self.positions:
            span = member.spans[number]
            yield Site(name, span) if name else span


def variable(number: int) -> str:
    """The name of a variable in place of a constant, which no policy can write."""
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
        match value:
            case Span():
                return self._number("", value)
            case Site(name, span):
                return self._number(name, span)
        return super().add(value, prefix)

    def _number(self, name: str, span: Span) -> ast.expr:
        number = self._group.spans.get(id(span))
        if number is None:
            raise Unshared
        positions = self._group.positions
        if (name, number) not in positions:
            positions.append((name, number))
        return self._position(positions.index((name, number)))


@record(frozen=True)
class Part:
    """What code is written for: one definition, or a group. `numbers`: theirs, in the node."""

    definition: Definition
    numbers: tuple[int, ...]
    group: Group | None = None

    @property
    def variables(self) -> frozenset[str]:
        """The variables that stand for constants."""
        return self.group.variables if self.group is not None else frozenset()

    def alone(self) -> list[Part]:
        """The definitions as parts of their own."""
        if self.group is None:
            return [self]
        members = zip(self.group.members, self.numbers, strict=True)
        return [Part(member.definition, (number,)) for member, number in members]


def parts(definitions: Sequence[Definition], plan: Plan) -> list[Part]:
    """The definitions of a node, those of one shape together."""
    alone = [Part(definition, (n,)) for n, definition in enumerate(definitions)]
    if len(definitions) < MIN_SHARED or not plan.shares:
        return alone
    if any(plan.failures.rule(definition.rule) for definition in definitions):
        return alone
    groups: dict[Hashable, tuple[Group, list[int]]] = {}
    for number, definition in enumerate(definitions):
        reading = _Reading(definition, plan.callees)
        try:
            shape = id(definition.rule.span.source), reading.shape()
        except Unshared:
            continue
        if shape not in groups:
            groups[shape] = reading.group(), []
        group, numbers = groups[shape]
        if reading.fits(group):
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


def lines_are_watched() -> bool:
    """Return True if a debugger or coverage.py follows the rows of code in this process: shared
    code has the rows of one definition alone."""
    if sys.gettrace() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any(
        monitoring.get_tool(tool) for tool in (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID)
    )


class _Reading:
    """Reads one definition: its constants and positions in order; what is left is its shape."""

    __slots__ = ("_callees", "_locals", "definition", "nodes", "operands", "spans", "values")

    def __init__(self, definition: Definition, callees: Callees) -> None:
        self.definition = definition
        self._callees = callees
        self._locals: dict[str, int] = {}
        self.values: list[Any] = []
        self.operands: list[Operand] = []
        self.nodes: list[Term] = []
        self.spans: list[Span] = []

    def group(self) -> Group:
        """A group without members that begins with this definition."""
        numbers: dict[int, int] = {}
        repeated = []
        for n, span in enumerate(self.spans):
            known = numbers.setdefault(id(span), n)
            if known != n:
                repeated.append((known, n))
        return Group(self.definition, tuple(self.operands), self.nodes, numbers, repeated)

    def fits(self, group: Group) -> bool:
        """Return True if the positions that are one object in the group are one here."""
        return all(self.spans[a] is self.spans[b] for a, b in group.repeated)

    def shape(self) -> Hashable:
        """All of the definition but its constants and positions. Unshared if it has none."""
        definition = self.definition
        rule, head = definition.rule, definition.rule.head
        if definition.tail or rule.else_rule is not None or rule.default:
            raise Unshared
        shape = (
            self._rule(rule),
            None if head.args is None else tuple([self._term(arg) for arg in head.args]),
            None if head.key is None else self._open(head.key),
            None if head.value is None else self._open(head.value),
            self._body(rule.body),
        )
        if not self.values:
            raise Unshared
        return shape

    def _rule(self, rule: Rule) -> Hashable:
        # What its name is made of is the node's, the same for all.
        self.spans += (rule.span, rule.head.span, rule.head.ref.span)
        return len(rule.head.ref.args)

    def _body(self, body: Body) -> Hashable:
        return tuple([self._expression(expr) for expr in body])

    def _expression(self, expr: Expr) -> Hashable:
        if expr.withs:
            raise Unshared
        self.spans.append(expr.span)
        before = self._body(expr.before) if expr.before else None
        return expr.negated, before, self._literal(expr.term)

    def _literal(self, node: Any) -> Hashable:
        match node:
            case SomeDecl(symbols):
                self.spans.append(node.span)
                return SomeDecl, tuple([self._term(symbol) for symbol in symbols])
            case SomeIn(key, value, domain):
                self.spans.append(node.span)
                name = None if key is None else self._term(key)
                return SomeIn, name, self._term(value), self._term(domain)
            case Every(key, value, domain, body):
                self.spans.append(node.span)
                name = None if key is None else self._term(key)
                inner = self._term(value), self._term(domain), self._body(body)
                return Every, name, inner
            case Not(body):
                self.spans.append(node.span)
                return Not, self._body(body)
        return self._term(node)

    def _open(self, term: Term) -> Hashable:
        """A term where any constant of its kind may stand."""
        match term:
            case Scalar(value) if type(value) is str:
                return self._parameter(term, value, Operand(_HERE, "string", is_plain=True))
            case Scalar(value) if type(value) is int and value not in (0, 1):
                return self._parameter(term, value, Operand(_HERE, "number", is_plain=True))
            case Set(items) | Array(items) if items and all(map(_is_text, items)):
                kind = "set" if isinstance(term, Set) else "array"
                return self._parameter(
                    term, constant_value(term), Operand(_HERE, kind, of="string")
                )
        return self._term(term)

    def _parameter(self, term: Term, value: Any, operand: Operand) -> Hashable:
        self.spans.append(term.span)
        self.values.append(value)
        self.operands.append(operand)
        self.nodes.append(term)
        return Scalar, operand.kind

    def _term(self, term: Term) -> Hashable:
        """A term whose constants decide what code is written."""
        self.spans.append(term.span)
        match term:
            case Scalar(value):
                return type(value), repr(value)
            case Var(name):
                return self._name(term, name)
            case Ref(head, args):
                return Ref, self._term(head), tuple([self._term(arg) for arg in args])
            case Call(operator, args):
                read = self._open if self._takes_any(term) else self._term
                return Call, self._term(operator), tuple([read(arg) for arg in args])
            case Array(items) | Set(items):
                return type(term), tuple([self._term(item) for item in items])
            case Object(pairs):
                return Object, tuple([self._term(part) for pair in pairs for part in pair])
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                return type(term), self._term(inner), self._body(body)
        raise Unshared

    def _name(self, var: Var, name: str) -> Hashable:
        # Names that were given out are other ones in each definition.
        if var.is_wildcard or "@" in name:
            return self._locals.setdefault(name, len(self._locals))
        return name

    def _takes_any(self, call: Call) -> bool:
        """Return True if the code of a call is the same for all constants of a kind."""
        if call.name in _PLAIN_CALLS:
            return True
        callee = self._callees.find(call)
        if callee is None or callee.builtin is None:
            return callee is not None
        name = callee.builtin.name
        return callee.builtin.prepare is None and name not in WRITTEN and name not in _COMPUTED


def _is_text(term: Term) -> bool:
    return isinstance(term, Scalar) and type(term.value) is str


_HERE: Final = load("constant")
"""In place of the name that a constant has in the code."""

_PLAIN_CALLS: Final = frozenset(
    {"assign", "eq", "equal", "neq", "lt", "lte", "gt", "gte", "plus", "minus"}
    | {"internal.member_2", "contains", "endswith", "startswith"}
)
_COMPUTED: Final = frozenset({"mul"})
"""Built-ins of which constants decide how they are computed."""
