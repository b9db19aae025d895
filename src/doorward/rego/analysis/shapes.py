"""Definitions without their constants: what is left of one is its shape.

    allow if { input.path == "/a"; input.role == "x" }    shape: input.path == ?, input.role == ?
    allow if { input.path == "/b"; input.role == "y" }    the same

What a reader does with one definition of a shape holds for all of them: its types, the code that
is generated. Which calls may have any constant as operand is for that reader to say; all other
constants belong to the shape, and what is not named here has none.

The passes of a check answer the same for all definitions of a shape if every call takes any
constant: what is called, bound, read and needed before what. `Shapes` numbers these shapes, so that
each pass need look only at the first definition of each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final

from doorward.rego.analysis.tree import Definition, RuleNode
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

__all__ = ["MIN_SHARED", "NoShape", "Reading", "Shapes"]

MIN_SHARED: Final = 16
"""Definitions of one rule are compared by shape only if there are at least this many."""


class NoShape(Exception):
    """A definition contains something that shapes do not cover."""


class Reading:
    """Separates one definition into its shape, which other definitions may share, and what is its
    own: its constants and the spans of its source, each in order.
    """

    __slots__ = ("_locals", "_opens_collections", "_takes_any", "constants", "definition", "spans")

    def __init__(
        self,
        definition: Definition,
        takes_any: Callable[[Call], bool],
        *,
        opens_collections: bool = False,
    ) -> None:
        """Prepare to compute the shape of `definition`. `takes_any` returns True for a call that
        treats all constants of a kind alike, so that they do not belong to the shape. With
        `opens_collections`, arrays and sets of strings count as constants.
        """
        self.definition = definition
        self._takes_any = takes_any
        self._opens_collections = opens_collections
        self._locals: dict[str, int] = {}
        self.constants: list[Scalar | Array | Set] = []
        self.spans: list[Span] = []

    def shape(self) -> Hashable:
        """Return a hashable key for the definition without its constants and positions, which go
        into `constants` and `spans`. Raise NoShape if it has no constants, or has an `else`,
        `default`, `with` or another part that shapes do not cover.
        """
        definition = self.definition
        rule, head = definition.rule, definition.rule.head
        if definition.tail or rule.else_rule is not None or rule.default:
            raise NoShape
        shape = (
            self._rule(rule),
            None if head.args is None else tuple([self._term(arg) for arg in head.args]),
            None if head.key is None else self._open(head.key),
            None if head.value is None else self._open(head.value),
            self._body(rule.body),
        )
        if not self.constants:
            raise NoShape
        return shape

    def _rule(self, rule: Rule) -> Hashable:
        """Collect the spans of a rule and its head; return the length of the head's reference."""
        # What its name is made of is the node's, the same for all.
        self.spans += (rule.span, rule.head.span, rule.head.ref.span)
        return len(rule.head.ref.args)

    def _body(self, body: Body) -> Hashable:
        return tuple([self._expression(expr) for expr in body])

    def _expression(self, expr: Expr) -> Hashable:
        """Return the shape of an expression; its spans and the constants that are not part of the
        shape are appended to `spans` and `constants`. NoShape if it has a `with` or a part without
        a shape.
        """
        if expr.withs:
            raise NoShape
        self.spans.append(expr.span)
        before = self._body(expr.before) if expr.before else None
        return expr.negated, before, self._literal(expr.term)

    def _literal(self, node: Any) -> Hashable:
        """Return the shape of an expression's term or declaration; its constants that do not belong
        to the shape are appended to `constants`, the spans of its parts to `spans`. NoShape for
        what has none, such as `and`, `or` and template strings.
        """
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
        """Return the shape of a term whose constants may differ between definitions of one shape. A
        string, an integer other than 0 and 1, and with `opens_collections` a collection of strings
        are collected as constants, and only their kind is in the shape.
        """
        if type(term) is Scalar:
            value = term.value
            # To Python `True == 1`: generated code compares with 0 and 1 in another way than with
            # 2.
            if type(value) is str or (type(value) is int and value not in (0, 1)):
                return self._constant(term)
        elif (
            self._opens_collections
            and isinstance(term, Set | Array)
            and term.items
            and all(map(_is_text, term.items))
        ):
            return self._constant(term)
        return self._term(term)

    def _constant(self, term: Scalar | Array | Set) -> Hashable:
        """Append a constant that does not belong to the shape to `constants`, and its span to
        `spans`; return its class and, for a scalar, that of its value, which do belong to it.
        """
        self.spans.append(term.span)
        self.constants.append(term)
        return type(term), type(term.value) if isinstance(term, Scalar) else None

    def _term(self, term: Term) -> Hashable:
        """Return the shape of a term, a hashable object in which variables are numbers and
        constants are contained, except as operands of calls for which `takes_any` is True: those
        are appended to `constants`. The spans of the term and its parts are appended to `spans`.
        NoShape for object comprehensions and template strings.
        """
        self.spans.append(term.span)
        # By type, and not by `match`: these are asked for every term of a thousand rules.
        if type(term) is Scalar:
            value = term.value
            return (str, value) if type(value) is str else (type(value), repr(value))
        if type(term) is Var:
            return self._name(term, term.name)
        if type(term) is Ref:
            return Ref, self._term(term.head), tuple([self._term(arg) for arg in term.args])
        if type(term) is Call:
            read = self._open if self._takes_any(term) else self._term
            return Call, self._term(term.operator), tuple([read(arg) for arg in term.args])
        match term:
            case Array(items) | Set(items):
                return type(term), tuple([self._term(item) for item in items])
            case Object(pairs):
                return Object, tuple([self._term(part) for pair in pairs for part in pair])
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                return type(term), self._term(inner), self._body(body)
        raise NoShape

    def _name(self, var: Var, name: str) -> Hashable:
        """Return the shape of a variable's name: the name, or for a wildcard or generated name the
        number of different ones before it.
        """
        # Names that were given out are other ones in each definition.
        if var.is_wildcard or "@" in name:
            return self._locals.setdefault(name, len(self._locals))
        return name


class Shapes:
    """The numbers of the shapes of rules, for the passes of one check. Rules have the same number
    if they define the same path and differ only in constants on which no pass depends.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of: dict[int, int | None] = {}
        self._rules: list[Rule] = []  # kept, so that no other rule gets the `id` of one of them

    def add(self, root: RuleNode) -> None:
        """Give the rules in a tree the numbers of their shapes, None to a rule without a shape.
        Rules at paths with fewer than `MIN_SHARED` definitions, and those added before, are passed
        over.
        """
        for node in root.walk():
            if len(node.definitions) >= MIN_SHARED:
                for definition in node.definitions:
                    if id(definition.rule) not in self._of:
                        self._number(node, definition)

    def _number(self, node: RuleNode, definition: Definition) -> None:
        """Give one rule the number of its shape, a new one for a shape that is new at this node, or
        None if it has no shape.
        """
        number: int | None = None
        try:
            shape = Reading(definition, lambda _: True).shape()
            number = self._numbers.setdefault((node.path, shape), len(self._numbers))
        except NoShape:
            pass
        self._of[id(definition.rule)] = number
        self._rules.append(definition.rule)

    def number(self, rule: Rule) -> int | None:
        """Return the number of the shape of a rule; None if it has none or was not added."""
        return self._of.get(id(rule))

    def first(self, rules: Iterable[Rule]) -> Iterator[Rule]:
        """Yield, in their order, the first of the rules of each shape, and all rules without one.
        Rules that were not numbered count as without.
        """
        seen: set[int] = set()
        for rule in rules:
            number = self._of.get(id(rule))
            if number is None:
                yield rule
            elif number not in seen:
                seen.add(number)
                yield rule


def _is_text(term: Term) -> bool:
    return isinstance(term, Scalar) and type(term.value) is str
