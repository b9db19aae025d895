"""Which rules OPA does not evaluate at all, since a comparison of theirs cannot hold.

No answer depends on it, but which errors show does: what precedes the comparison in the body
of such a rule is not looked at either. OPA 1.20 keeps the rules in a trie: a level for each path
below `input` or base data, or parameter, that rules compare, the most frequent one first. A lookup
walks down every branch that fits the values, which also gives the order of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from tests.oracle.scope import is_root, name_of

from doorward.rego.syntax.nodes import (
    And,
    Array,
    Body,
    Call,
    Expr,
    Object,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    Term,
    Var,
)
from doorward.rego.syntax.walk import walk
from doorward.rego.values import UNDEFINED, equal, iterate, to_key

__all__ = ["left_in", "say_the_same"]

EQUATIONS: Final = ("eq", "assign", "equal")
WAYS: Final = 32
"""With more ways to reach a rule, what is in `or` is not looked at."""
_ANY: Final = Var("any")
_UNTESTED: Final = object()

Level = Ref | int
"""A path, or the number of a parameter."""


@dataclass(frozen=True)
class _Pair:
    """A comparison; of a glob, the delimiters by which the text is split."""

    level: Level
    term: Term
    split: str = ""


_Way = list[_Pair]


def left_in(
    chains: Sequence[Sequence[Rule]], args: Sequence[Any], read: Callable[[Ref], Any]
) -> list[tuple[int, list[Rule]]]:
    """The chains, by number, with the rules that the index leaves in, in its order.

    `read` gives the value at a path; LookupError where rules stand on it.
    """
    levels: list[Level] = []
    counts: dict[int, int] = {}

    def count(level: Level) -> None:
        if level not in levels:
            levels.append(level)
        counts[levels.index(level)] = counts.get(levels.index(level), 0) + 1

    branches = [[_Body(rule, read, count).whole() for rule in chain] for chain in chains]
    order = sorted(range(len(levels)), key=lambda n: (-counts[n], _where(levels[n])))
    trie = _Node([levels[n] for n in order])
    for number, chain in enumerate(branches):
        for number_, of_rule in enumerate(chain):
            for way in of_rule:
                trie.insert(way, (number, number_))
    reached: dict[int, list[int]] = {}

    def value_of(level: Level) -> Any:
        return args[level] if isinstance(level, int) else read(level)

    for number, number_ in trie.reached(value_of):
        if number_ not in reached.setdefault(number, []):
            reached[number].append(number_)
    return [
        (n, [chains[n][number_] for number_ in sorted(places)]) for n, places in reached.items()
    ]


def say_the_same(rules: Sequence[Rule]) -> bool:
    """Whether all values that the rules can have are one constant: one answer is enough then."""
    values = [rule.head.value for rule in rules if rule.head.value is not None]
    constant = all(
        isinstance(node, Scalar | Array | Object | Set) for value in values for node in walk(value)
    )
    return constant and all(value == values[0] for value in values)


def _where(level: Level) -> tuple[Any, ...]:
    if isinstance(level, int):
        return ("", 0, level)
    return (level.head.span.file, level.head.span.row, level.head.span.col)


# What a rule compares


class _Body:
    """The comparisons of a rule, or of an operand of `and` or `or` in it."""

    def __init__(
        self,
        rule: Rule,
        read: Callable[[Ref], Any],
        count: Callable[[Level], None],
        outside: Sequence[_Pair] = (),
        constants: Mapping[str, Term] | None = None,
    ) -> None:
        self.rule = rule
        self.read = read
        self.count = count
        self.outside = outside
        self.constants = dict(constants or {})
        self.pairs: _Way = []
        self.forks: list[list[_Way]] = []

    def whole(self) -> list[_Way]:
        self._exprs(self.rule.body)
        return self._ways()

    def _ways(self) -> list[_Way]:
        number = 1
        for fork in self.forks:
            number *= len(fork)
        if number > WAYS:
            return [self.pairs]
        return [sum(branches, self.pairs) for branches in product(*self.forks)]

    def _exprs(self, body: Body) -> None:
        for expr in body:
            if not (expr.negated or expr.withs):
                self._expr(expr)

    def _expr(self, expr: Expr) -> None:
        term = expr.term
        if isinstance(term, And):
            sides = [self._side(term.left), self._side(term.right)]
            for branches in sides:
                self._all_need(branches)
        elif isinstance(term, Or):
            left, right = self._side(term.left), self._side(term.right)
            if left and right:
                self._all_need(left + right)
        elif isinstance(term, Ref):
            if self._is_path(term):
                self._add(_Pair(term, _ANY))
        elif isinstance(term, Call):
            name = name_of(term)
            if name in EQUATIONS and len(term.args) == 2:
                self._equation(*term.args)
            elif name == "internal.member_2" and len(term.args) == 2:
                self._member(*term.args)
            elif name == "glob.match" and len(term.args) == 3:
                self._glob(*term.args)

    def _side(self, body: Body) -> list[_Way]:
        inner = _Body(
            self.rule, self.read, lambda _: None, [*self.pairs, *self.outside], self.constants
        )
        inner._exprs(body)
        branches = inner._ways()
        if branches == [[]]:
            return []
        # Its variables mean nothing outside.
        return [
            [_Pair(p.level, _ANY if isinstance(p.term, Var) else p.term, p.split) for p in way]
            for way in branches
        ]

    def _all_need(self, branches: list[_Way]) -> None:
        if len(branches) == 1:
            for pair in branches[0]:
                self._add(pair)
        elif branches:
            for way in branches:
                for pair in way:
                    self.count(pair.level)
            self.forks.append(branches)

    def _add(self, pair: _Pair) -> None:
        self.count(pair.level)
        for n, other in enumerate(self.pairs):
            if other.level == pair.level:
                if other.term == pair.term:
                    return
                if isinstance(other.term, Var) and not isinstance(pair.term, Var):
                    self.pairs[n] = pair
                    return
        self.pairs.append(pair)

    def _equation(self, left: Term, right: Term) -> None:
        sides = ((left, right), (right, left))
        for collection, item in sides:
            constant = self._known(item)
            if isinstance(collection, Ref) and collection.args and isinstance(constant, Scalar):
                path = Ref(collection.head, collection.args[:-1])
                if not isinstance(collection.args[-1], Scalar) and self._is_path(path):
                    self._add(_Pair(path, constant))
                    return
        for side, other in sides:
            if isinstance(side, Var):
                if not any(isinstance(node, Var | Ref | Call) for node in walk(other)):
                    self.constants[side.name] = other
                level = self._level(side)
                if level is not None and _is_comparable(other):
                    self._add(_Pair(level, other))
                    return
            elif self._is_path(side) and _is_comparable(other):
                assert isinstance(side, Ref)
                self._add(_Pair(side, self._known(other)))
                return

    def _member(self, item: Term, collection: Term) -> None:
        level = self._level(item) if isinstance(item, Var) else None
        if level is not None:
            known = self._known(collection)
            if isinstance(known, Array | Set):
                for member in known.items:
                    self._add(_Pair(level, member))
            elif isinstance(known, Object):
                for _, member in known.items:
                    self._add(_Pair(level, member))
            return
        if isinstance(item, Var | Scalar):
            path = self._level(collection) if isinstance(collection, Var) else collection
            if isinstance(path, Ref) and self._is_path(path):
                self._add(_Pair(path, self._known(item)))

    def _glob(self, pattern: Term, delimiters: Term, text: Term) -> None:
        level = self._level(text) if isinstance(text, Var) else None
        if level is None or not isinstance(pattern, Scalar) or not isinstance(delimiters, Array):
            return
        given = [item.value if isinstance(item, Scalar) else None for item in delimiters.items]
        if not isinstance(pattern.value, str) or not all(isinstance(d, str) for d in given):
            return
        split = "".join(map(str, given)) if given else "."
        parts: list[Term] = []
        for part in _split(pattern.value, split):
            plain = part.replace("\\\\", "")
            for special in "[?{*":
                plain = plain.replace("\\" + special, "")
            if part != "*" and any(special in plain for special in "[?{*"):
                return
            parts.append(_ANY if part == "*" else Scalar(part))
        self._add(_Pair(level, Array(tuple(parts)), split))

    def _known(self, term: Term) -> Term:
        return self.constants.get(term.name, term) if isinstance(term, Var) else term

    def _level(self, var: Var) -> Level | None:
        """The path that a variable is equal to, or the parameter that it is."""
        for pair in (*self.pairs, *self.outside):
            if pair.term == var:
                return pair.level
        parameters = self.rule.head.args or ()
        return parameters.index(var) if var in parameters else None

    def _is_path(self, term: Term) -> bool:
        if not isinstance(term, Ref) or not is_root(term):
            return False
        if not all(isinstance(arg, Scalar) for arg in term.args):
            return False
        try:
            self.read(term)
        except LookupError:
            return False
        return True


def _is_comparable(term: Term) -> bool:
    if isinstance(term, Array):
        return all(isinstance(item, Scalar | Var) for item in term.items)
    return isinstance(term, Scalar | Var)


def _split(text: str, delimiters: str) -> list[str]:
    parts, escaped = [""], False
    for char in text:
        if char in delimiters and not escaped and char != "\\":
            parts.append("")
            continue
        escaped = not escaped if char == "\\" or escaped else escaped
        parts[-1] += char
    return parts


# The trie


@dataclass
class _Node:
    """A node and what is below it, by what the level of the path is compared with."""

    levels: Sequence[Level]
    """Those that are still to come."""
    rules: list[tuple[int, int]] = field(default_factory=list)
    below: dict[Any, _Node] = field(default_factory=dict)
    arrays: list[tuple[tuple[Term, ...], _Node]] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)

    def insert(self, way: _Way, rule: tuple[int, int]) -> None:
        if not way or not self.levels:
            self.rules.append(rule)
            return
        here = [pair for pair in way if pair.level == self.levels[0]]
        self.splits += [pair.split for pair in here if pair.split]
        if not here:
            self._child(_UNTESTED).insert(way, rule)
        elif any(isinstance(pair.term, Var) for pair in here):
            self._child(_ANY).insert(way, rule)
        elif len(here) == 1:
            self._of(here[0].term).insert(way, rule)
        else:
            for pair in here:
                self._of(pair.term).rules.append(rule)

    def _of(self, term: Term) -> _Node:
        if isinstance(term, Scalar):
            return self._child(to_key(term.value))
        if not isinstance(term, Array):
            return self._child(_ANY)
        for items, node in self.arrays:
            if items == term.items:
                return node
        self.arrays.append((term.items, _Node(self.levels[1:])))
        return self.arrays[-1][1]

    def _child(self, key: Any) -> _Node:
        return self.below.setdefault(key, _Node(self.levels[1:]))

    def reached(self, value_of: Callable[[Level], Any]) -> Iterator[tuple[int, int]]:
        yield from self.rules
        if not self.below and not self.arrays:
            return
        value = value_of(self.levels[0])
        for child in self._fitting(value):
            yield from child.reached(value_of)

    def _fitting(self, value: Any) -> Iterator[_Node]:
        if _UNTESTED in self.below:
            yield self.below[_UNTESTED]
        if value is UNDEFINED:
            return
        if _ANY in self.below:
            yield self.below[_ANY]
        yield from self._with_value(value)
        for split in dict.fromkeys(self.splits):
            if isinstance(value, str):
                yield from self._with_array(_split(value, split))

    def _with_value(self, value: Any) -> Iterator[_Node]:
        if isinstance(value, list):
            yield from self._with_array(value)
        if isinstance(value, list | dict | frozenset):
            keys = [to_key(item) for _, item in iterate(value)]
        else:
            keys = [to_key(value)]
        for key in keys:
            if key in self.below:
                yield self.below[key]

    def _with_array(self, value: Sequence[Any]) -> Iterator[_Node]:
        fitting = [
            (items, node)
            for items, node in self.arrays
            if len(items) == len(value)
            and all(
                not isinstance(item, Scalar) or equal(item.value, part)
                for item, part in zip(items, value, strict=True)
            )
        ]
        for _, node in sorted(fitting, key=lambda f: [isinstance(item, Scalar) for item in f[0]]):
            yield node
