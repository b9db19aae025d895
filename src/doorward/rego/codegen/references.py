"""References to Python: documents and rules by name, and what is asked of them early.

A reference below `data` is followed through the tree of rules while its operands are constant.
Where it meets a rule, the rule is asked and the rest is looked up in the answer. Where it leaves
the tree it reads base data. Where an operand is open inside the tree, the way is walked at run
time, place by place.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, get_args

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.block import call, load, method, method_of, runtime, store
from doorward.rego.codegen.lookups import Lookups, constant_names
from doorward.rego.codegen.terms import NOT_CONSTANT, Operand, Read, constant_value
from doorward.rego.syntax.nodes import (
    Array,
    Body,
    Call,
    Expr,
    Object,
    Ref,
    Rule,
    Set,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.walk import Node, children, walk
from doorward.rego.values import Key, to_key

__all__ = ["References", "plain_references", "references_of"]

MIN_SHARED: Final = 3
"""Uses that make it worth to read an object once and keep it."""


class References(Lookups):
    """Writes references."""

    def ref(self, term: Ref) -> Operand:
        head = term.head
        if isinstance(head, Var) and head.name == "data":
            return self._data(term)
        if isinstance(head, Var) and head.name == "input":
            return self._document_path("input", term.args)
        return self._path(self.term(head), term.args)

    # Lookups in a value

    # References below data

    def _data(self, term: Ref) -> Operand:
        node: RuleNode | None = self.plan.root
        path: list[Key] = []
        for n, operand in enumerate(term.args):
            assert node is not None
            if node.definitions and not node.is_function:
                return self._rule_path(node, term.args[n:])
            value = constant_value(operand)
            if value is NOT_CONSTANT:
                if not node.children:
                    return self._base(term.args)
                return self._places(node, path, term.args[n:])
            key = to_key(value)
            path.append(key)
            node = node.children.get(key)
            if node is None:
                return self._base(term.args)
        assert node is not None
        if node.definitions and not node.is_function:
            return self._rule_path(node, ())
        if node.is_function:
            self.test(ast.Constant(value=False))
            return Operand(ast.Constant(value=None))
        return self._document(node, path)

    def is_folder(self, term: Term) -> bool:
        """Whether a term names a place below `data` that has rules below it, and none itself."""
        head, operands = (term.head, term.args) if isinstance(term, Ref) else (term, ())
        if not (isinstance(head, Var) and head.name == "data"):
            return False
        node: RuleNode | None = self.plan.root
        for operand in operands:
            value = constant_value(operand)
            if node is None or node.definitions or value is NOT_CONSTANT:
                return False
            node = node.children.get(to_key(value))
        return node is not None and not node.definitions and bool(node.children)

    def _rule_path(self, node: RuleNode, operands: Sequence[Term]) -> Operand:
        alias = self.plan.alias(node)
        if alias is not None:
            return self._document_path("input", (*alias.args, *operands))
        if not self.plan.is_keyed(node) or not operands or self.is_open(operands[0]):
            return self._path(self.rule_value(node), operands)
        operands = self._known_first(operands)
        known = itertools.takewhile(lambda operand: not self.is_open(operand), operands)
        path = [self.term(operand).code for operand in known]
        return self._path(Operand(self._with_key(node, path)), operands)

    def _known_first(self, operands: Sequence[Term]) -> list[Term]:
        """`operands`, those that are known before the first open one under names."""
        named: list[Term] = list(operands)
        for n, operand in enumerate(operands):
            if self.is_open(operand):
                break
            if constant_value(operand) is NOT_CONSTANT:
                value = self.term(operand)
                held = self.hold(value.code)
                name = f"@{held.id}"
                self.env[name] = replace(value, code=held)
                named[n] = Var(name, operand.span)
        return named

    def _base(self, operands: Sequence[Term]) -> Operand:
        return self._document_path("data", operands, "lookup_data")

    def _document_path(
        self, document: str, operands: Sequence[Term], lookup: str = "lookup"
    ) -> Operand:
        """A path below `input` or base data; one that was read before is not read again."""
        return self._path(Operand(self.of_state(document)), operands, lookup)

    def read_ahead(self, body: Body) -> None:
        """Read, before `body` walks, the paths that it will read on every round.

        All of a body must hold, so a path that is not there may as well fail it here, if nothing
        before it can be an error.
        """
        for expr in body:
            if not self._never_fails(expr):
                break
            for ref in _read_in_any_case(expr):
                document, *names = self._plain_path(ref) or ("",)
                if document:
                    with self.at(ref.span):
                        self._names(Operand(self.of_state(document)), names)
        for expr in body:
            if not expr.withs:
                for ref in references_of(expr):
                    with self.at(ref.span):
                        self._read_quietly(self._plain_path(ref))

    def _never_fails(self, expr: Expr) -> bool:
        """Whether asking `expr` cannot be an error: it calls nothing, and asks no rule."""
        if expr.withs:
            return False
        for node in walk(expr):
            match node:
                case Call() if node.name not in _QUIET:
                    return False
                case Ref(Var("data")) if not self._plain_path(node):
                    return False
        return True

    def _read_quietly(self, path: tuple[str, ...]) -> None:
        """Read a path that is needed only if something else holds: it may be UNDEFINED."""
        base = self.of_state(path[0]) if path else None
        if not isinstance(base, ast.Name):
            return
        key = (base.id, *path[1:])
        if key not in self.seen and key not in self.maybe and key not in self.always:
            known = self.always if self.block is self.statements else self.maybe
            known[key] = self._read(base, path[1:])

    def share(self, references: Iterable[Ref]) -> None:
        """Read the objects below which several of `references` end, once for all of them.

        Reading fails nobody: what is not there is UNDEFINED.
        """
        if self.plan.traced:
            return
        uses: Counter[tuple[str, ...]] = Counter()
        for path in map(self._plain_path, references):
            uses.update(path[:n] for n in range(2, len(path)))
        below = {(path[:-1], times) for path, times in uses.items()}
        for path, times in sorted(uses.items()):
            # An object that is only on the way to another one needs no name.
            if times >= MIN_SHARED and (path, times) not in below:
                self._branch_at(path[0], path[1:])

    def _plain_path(self, ref: Ref) -> tuple[str, ...]:
        """The document and the constant names that `ref` reads below it; () for another one."""
        if not isinstance(ref.head, Var):
            return ()
        names = constant_names(ref.args)
        node, rest = self.plan.rule_of(ref)
        alias = self.plan.alias(node) if node is not None else None
        if alias is not None:
            return ("input", *constant_names(alias.args), *constant_names(rest))
        if names and self._is_plain(ref.head.name, names):
            return (ref.head.name, *names)
        return ()

    def _is_plain(self, document: str, names: Sequence[str]) -> bool:
        """Whether a path is read from the input or from base data, with no rules on the way."""
        if document != "data":
            return document == "input"
        return names[0] not in self.plan.root.children

    def _walks(self, expr: Expr) -> bool:
        if isinstance(expr.term, SomeIn) or any(map(self._walks, expr.before)):
            return True
        return isinstance(expr.term, get_args(Term)) and any(
            self.is_open(arg) for ref in plain_references(expr.term) for arg in ref.args
        )

    def rule_value(self, node: RuleNode) -> Operand:
        """The answer of the rules at `node`, computed once in an evaluation."""
        key = (self.state, self.plan.slot(node))
        known = self.recall(key)
        if known is None:
            known = self.ask(node)
            self.remember(key, known)
        # OPA asks rules that open several places one by one, and keeps their order.
        return Operand(known, as_made=any(len(d.tail) > 1 for d in node.definitions))

    def _with_key(self, node: RuleNode, path: Sequence[ast.expr]) -> ast.Name:
        """The object that rules make, for a lookup at `path`."""
        slot = self.plan.slot(node)
        key: Read = (self.state, slot, *map(ast.dump, path))
        known = self.recall((self.state, slot)) or self.recall(key)
        if known is None:
            known = self.ask(node, path)
            self.remember(key, known)
        return known

    def ask(self, node: RuleNode, path: Sequence[ast.expr] = ()) -> ast.Name:
        """The answer of the rules at `node`, or UNDEFINED; only for a lookup at `path` if given."""
        store_name = "constants" if self.plan.is_constant(node) else "cache"
        cache = self.of_state(store_name)
        slot = ast.Constant(value=self.plan.slot(node))
        held = self.fresh()
        self.assign(held, method_of(cache, "get", slot, runtime("MISSING")))
        missing = ast.Compare(left=load(held), ops=[ast.Is()], comparators=[runtime("MISSING")])
        kept = ast.Subscript(value=cache, slice=slot, ctx=ast.Store())
        compute = ast.Assign(
            targets=[store(held), kept], value=call(load(node.name), load(self.state))
        )
        if path:
            keys = ast.Tuple(elts=list(path), ctx=ast.Load())
            part = method_of(load(self.state), "with_key", cache, slot, load(node.name), keys)
            compute = ast.Assign(targets=[store(held)], value=part)
        self.add(ast.If(test=missing, body=[compute], orelse=[]))
        return load(held)

    def prefetch(self, term: Ref) -> None:
        """Read what `term` begins with, without a test: several definitions will ask for it."""
        path = self._plain_path(term)
        node, rest = self.plan.rule_of(term)
        if path:
            self._read_quietly(path)
        elif node is not None:
            names = constant_names(rest)
            key: Read = (self.state, self.plan.slot(node))
            constants: list[ast.expr] = []
            if rest and self.plan.is_keyed(node):
                constants = [ast.Constant(value=name) for name in names]
                if len(names) < len(rest):
                    return
                key = (*key, *map(ast.dump, constants))
            held = self.maybe[key] = self.ask(node, constants)
            if names:
                self.maybe[(held.id, *names)] = self._read(held, names)

    def _document(self, node: RuleNode, path: Sequence[Key]) -> Operand:
        place = self.constants.add(tuple(path))
        held = self.hold(method_of(load(self.state), "document_at", place))
        self.defined(held)
        return Operand(held)

    def _places(self, node: RuleNode, path: Sequence[Key], operands: Sequence[Term]) -> Operand:
        """Follow `operands` through places that are known only at run time."""
        state = load(self.state)
        where = self.constants.add(tuple(path))
        place: ast.expr = self.hold(method_of(state, "place", where))
        for operand in operands:
            if self.is_open(operand):
                key, inner = self.fresh(), self.fresh()
                target = ast.Tuple(elts=[store(key), store(inner)], ctx=ast.Store())
                self.walk(target, method("walked", method_of(state, "children", place)))
                self.match(operand, Operand(load(key)))
                place = load(inner)
            else:
                place = self.hold(method_of(state, "child", place, self.term(operand).code))
        held = self.hold(method_of(state, "document_of", place))
        self.defined(held)
        return Operand(held)


_QUIET: Final = frozenset(
    {"assign", "eq", "equal", "neq", "lt", "lte", "gt", "gte"}
    | {"internal.member_2", "internal.member_3"}
)
"""Calls that are never an error."""


def references_of(node: Expr | Rule) -> Iterator[Ref]:
    """Every reference in `node`, closures included, but none that a `with` may redirect."""
    waiting: list[Node] = [node]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, Ref):
            yield item
        if not (isinstance(item, Expr) and item.withs):
            waiting += children(item)


def _read_in_any_case(expr: Expr) -> Iterator[Ref]:
    """The references that have to be defined for `expr` to hold."""
    for each in (*expr.before, expr):
        term = each.term.domain if isinstance(each.term, SomeIn) else each.term
        if not each.negated and isinstance(term, get_args(Term)):
            yield from plain_references(term)


def plain_references(term: Term) -> Iterator[Ref]:
    """The references that evaluating `term` reads in any case: none inside closures."""
    match term:
        case Ref(head, args):
            yield term
            yield from plain_references(head)
            for arg in args:
                yield from plain_references(arg)
        case Call(_, args) | Array(args) | Set(args):
            for arg in args:
                yield from plain_references(arg)
        case Object(pairs):
            for key, value in pairs:
                yield from plain_references(key)
                yield from plain_references(value)
