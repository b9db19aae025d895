"""References to Python: constant paths in one step, rules by name, open operands as walks.

A reference below `data` is followed through the tree of rules while its operands are constant.
Where it meets a rule, the rule is asked and the rest is looked up in the answer. Where it leaves
the tree it reads base data. Where an operand is open inside the tree, the way is walked at run
time, place by place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import get_args

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.block import call, load, method, runtime, store
from doorward.rego.codegen.patterns import Patterns
from doorward.rego.codegen.terms import NOT_CONSTANT, Operand, constant_value
from doorward.rego.runtime.evaluation import TICKS
from doorward.rego.runtime.operations import values
from doorward.rego.syntax.nodes import (
    Array,
    Body,
    Call,
    Expr,
    Object,
    Ref,
    Scalar,
    Set,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.values import Key, to_key

__all__ = ["References", "plain_references"]


class References(Patterns):
    """Writes references."""

    def ref(self, term: Ref) -> Operand:
        head = term.head
        if isinstance(head, Var) and head.name == "data":
            return self._data(term)
        if isinstance(head, Var) and head.name == "input":
            if not term.args:
                return self.term(head)
            return self._document_path("input", term.args)
        return self._path(self.term(head), term.args)

    # Lookups in a value

    def _path(self, base: Operand, operands: Sequence[Term], lookup: str = "lookup") -> Operand:
        """`base[a][b]…`, a run of constant names in one step."""
        n = 0
        while n < len(operands):
            run = _names(operands[n:])
            if run:
                base = self._names(base, run)
                n += len(run)
            else:
                base = self._step(base, operands[n], lookup)
                n += 1
        return base

    def _names(self, base: Operand, names: Sequence[str]) -> Operand:
        """`base[name]…`; what was read of the same base before is not read again."""
        code = self.hold(base.code)
        key = (code.id, *names)
        known = self.recall(key)
        if known is None:
            known = self._read(code, names)
            self.seen[key] = known
            self.defined(known)
        return Operand(known)

    def _read(self, base: ast.Name, names: Sequence[str]) -> ast.Name:
        """`base[name]…`, or UNDEFINED."""
        held = self.fresh()
        code: ast.expr = base
        for name in names:
            code = ast.Subscript(value=code, slice=ast.Constant(value=name), ctx=ast.Load())
        slow = call(runtime("lookup_path"), base, self.constants.path(names))
        handler = ast.ExceptHandler(
            type=runtime("LOOKUP_ERRORS"),
            name=None,
            body=[ast.Assign(targets=[store(held)], value=slow)],
        )
        self.add(
            ast.Try(
                body=[ast.Assign(targets=[store(held)], value=code)],
                handlers=[handler],
                orelse=[],
                finalbody=[],
            )
        )
        return load(held)

    def _step(self, base: Operand, operand: Term, lookup: str) -> Operand:
        if self.is_open(operand):
            return self._walk(base, operand)
        key = self.term(operand)
        held = self.hold(call(runtime(lookup), base.code, key.code))
        self.defined(held)
        return Operand(held)

    def is_open(self, operand: Term) -> bool:
        """Whether `operand` has variables that walking must bind."""
        match operand:
            case Var(name):
                return name not in self.env and name not in ("input", "data")
            case Array(items):
                return any(self.is_open(item) for item in items)
            case Object(pairs):
                return any(self.is_open(value) for _, value in pairs)
        return False

    def _walk(self, base: Operand, operand: Term) -> Operand:
        """A walk over `base` that binds `operand`; gives the values."""
        value = self.fresh()
        if isinstance(operand, Var) and operand.is_wildcard:
            self.walk(store(value), self.values_of(base))
            return Operand(load(value))
        key = self.target(operand)
        target = ast.Tuple(elts=[key, store(value)], ctx=ast.Store())
        self.walk(target, method("items_as_made" if base.as_made else "items", base.code))
        self.match_target(operand, key)
        return Operand(load(value))

    def values_of(self, collection: Operand) -> ast.expr:
        """What a walk over the values of `collection` iterates; constants are put in order now."""
        if collection.is_constant:
            ordered = list(values(collection.value))
            held = self.constants.add(ordered)
            # A short one is not counted: what it stands in counts, or ends soon.
            return held if not self.walks and len(ordered) <= TICKS else method("walked", held)
        return method("values", collection.code)

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

    def _rule_path(self, node: RuleNode, operands: Sequence[Term]) -> Operand:
        alias = self.plan.alias(node)
        if alias is not None:
            return self._document_path("input", (*alias.args, *operands))
        return self._path(self.rule_value(node), operands)

    def _base(self, operands: Sequence[Term]) -> Operand:
        return self._document_path("data", operands, "lookup_data")

    def _document_path(
        self, document: str, operands: Sequence[Term], lookup: str = "lookup"
    ) -> Operand:
        """A path below `input` or base data; one that was read before is not read again."""
        return self._path(Operand(self.of_state(document)), operands, lookup)

    def read_ahead(self, body: Body) -> None:
        """Read, before `body` walks, the paths that it will read on every round.

        All of a body must hold, so a path that is not there may as well fail it here.
        """
        for expr in body:
            term = expr.term.domain if isinstance(expr.term, SomeIn) else expr.term
            if expr.negated or expr.withs or not isinstance(term, get_args(Term)):
                continue
            for ref in plain_references(term):
                names = _names(ref.args)
                if names and isinstance(ref.head, Var) and self._is_plain(ref.head.name, names):
                    with self.at(ref.span):
                        self._names(Operand(self.of_state(ref.head.name)), names)

    def _is_plain(self, document: str, names: Sequence[str]) -> bool:
        """Whether a path is read from the input or from base data, with no rules on the way."""
        if document != "data":
            return document == "input"
        return names[0] not in self.plan.root.children

    def _walks(self, expr: Expr) -> bool:
        if isinstance(expr.term, SomeIn):
            return True
        return isinstance(expr.term, get_args(Term)) and any(
            self.is_open(arg) for ref in plain_references(expr.term) for arg in ref.args
        )

    def rule_value(self, node: RuleNode) -> Operand:
        """The answer of the rules at `node`, computed once in an evaluation."""
        key = (self.state, node.name)
        known = self.recall(key)
        if known is None:
            known = self.ask(node)
            self.seen[key] = known
            self.defined(known)
        # OPA asks rules that open several places one by one, and keeps their order.
        return Operand(known, as_made=any(len(d.tail) > 1 for d in node.definitions))

    def ask(self, node: RuleNode) -> ast.Name:
        """The answer of the rules at `node`, or UNDEFINED."""
        store_name = "constants" if self.plan.is_constant(node) else "cache"
        cache = self.of_state(store_name)
        slot = ast.Constant(value=self.plan.slot(node))
        held = self.fresh()
        get = ast.Attribute(value=cache, attr="get", ctx=ast.Load())
        self.assign(held, call(get, slot, runtime("MISSING")))
        missing = ast.Compare(left=load(held), ops=[ast.Is()], comparators=[runtime("MISSING")])
        compute = ast.Assign(
            targets=[
                store(held),
                ast.Subscript(value=cache, slice=slot, ctx=ast.Store()),
            ],
            value=call(load(node.name), load(self.state)),
        )
        self.add(ast.If(test=missing, body=[compute], orelse=[]))
        return load(held)

    def prefetch(self, term: Term) -> None:
        """Read what `term` begins with, without a test: several rules will ask for it."""
        if not isinstance(term, Ref) or not isinstance(term.head, Var):
            return
        if term.head.name == "input":
            names = _names(term.args)
            base = self.of_state("input")
            if names and isinstance(base, ast.Name):
                self.maybe[(base.id, *names)] = self._read(base, names)
        elif term.head.name == "data":
            node, rest = self._rule_of(term)
            if node is None:
                return
            alias = self.plan.alias(node)
            if alias is not None:
                self.prefetch(Ref(alias.head, (*alias.args, *rest), term.span))
                return
            held = self.ask(node)
            self.maybe[(self.state, node.name)] = held
            names = _names(rest)
            if names:
                self.maybe[(held.id, *names)] = self._read(held, names)

    def _rule_of(self, term: Ref) -> tuple[RuleNode | None, Sequence[Term]]:
        """The node whose rules a reference asks, and the operands behind it."""
        node: RuleNode | None = self.plan.root
        for n, operand in enumerate(term.args):
            value = constant_value(operand)
            node = node.children.get(to_key(value)) if node and value is not NOT_CONSTANT else None
            if node is None or node.is_function:
                return None, ()
            if node.definitions:
                return node, term.args[n + 1 :]
        return None, ()

    def _document(self, node: RuleNode, path: Sequence[Key]) -> Operand:
        method = ast.Attribute(value=load(self.state), attr="document_at", ctx=ast.Load())
        held = self.hold(call(method, self.constants.add(tuple(path))))
        self.defined(held)
        return Operand(held)

    def _places(self, node: RuleNode, path: Sequence[Key], operands: Sequence[Term]) -> Operand:
        """Follow `operands` through places that are known only at run time."""
        at = ast.Attribute(value=load(self.state), attr="place", ctx=ast.Load())
        place: ast.expr = self.hold(call(at, self.constants.add(tuple(path))))
        for operand in operands:
            if self.is_open(operand):
                key, inner = self.fresh(), self.fresh()
                target = ast.Tuple(elts=[store(key), store(inner)], ctx=ast.Store())
                children = ast.Attribute(value=load(self.state), attr="children", ctx=ast.Load())
                self.walk(target, method("walked", call(children, place)))
                self.match(operand, Operand(load(key)))
                place = load(inner)
            else:
                child = ast.Attribute(value=load(self.state), attr="child", ctx=ast.Load())
                place = self.hold(call(child, place, self.term(operand).code))
        document = ast.Attribute(value=load(self.state), attr="document_of", ctx=ast.Load())
        held = self.hold(call(document, place))
        self.defined(held)
        return Operand(held)


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


def _names(operands: Sequence[Term]) -> list[str]:
    """The constant strings that `operands` begin with."""
    names: list[str] = []
    for operand in operands:
        if not (isinstance(operand, Scalar) and isinstance(operand.value, str)):
            break
        names.append(operand.value)
    return names
