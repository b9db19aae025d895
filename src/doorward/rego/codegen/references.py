"""References to Python: constant paths in one step, rules by name, open operands as walks.

A reference below `data` is followed through the tree of rules while its operands are constant.
Where it meets a rule, the rule is asked and the rest is looked up in the answer. Where it leaves
the tree it reads base data. Where an operand is open inside the tree, the way is walked at run
time, place by place.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, get_args

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.block import Constants, call, load, method, name_of, runtime, store
from doorward.rego.codegen.patterns import Patterns, is_class
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.terms import NOT_CONSTANT, Operand, constant_value
from doorward.rego.runtime.operations import values
from doorward.rego.syntax.nodes import (
    Array,
    Body,
    Call,
    Expr,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.walk import Node, children
from doorward.rego.values import Key, to_key

__all__ = ["References", "plain_references", "references_of"]


SHORT: Final = 8
"""Items of a list that may be walked without counting."""

MAX_FREED: Final = 16
"""One in so many walks of a function is always counted."""

MIN_SHARED: Final = 3
"""Uses that make it worth to read an object once and keep it."""


class References(Patterns):
    """Writes references."""

    def __init__(self, constants: Constants, plan: Plan) -> None:
        super().__init__(constants, plan)
        self.branches: dict[tuple[str, ...], ast.Name] = {}
        """Objects of which the function reads several members, by where they were read."""
        self.getters: dict[str, str] = {}
        """Names of functions that read a member of such an object, by its name."""
        self.of_data = {"data"}
        """Names of what was read from base data."""
        self.asked_once = False
        """Whether this function runs but once in an evaluation."""

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
            self.remember(key, known)
        return Operand(known)

    def _read(self, base: ast.Name, names: Sequence[str]) -> ast.Name:
        """`base[name]…`, or UNDEFINED."""
        for n in range(len(names) - 1, 0, -1):
            inner = self.branches.get((base.id, *names[:n]))
            if inner is not None:
                base, names = inner, names[n:]
                break
        get = self.getters.get(base.id)
        if get is not None and len(names) == 1:
            return self.hold(call(load(get), ast.Constant(value=names[0]), runtime("UNDEFINED")))
        held = self.fresh()
        slow = call(runtime("lookup_path"), base, self.constants.path(names))
        handlers = [_on(runtime("LOOKUP_ERRORS"), held, slow)]
        code: ast.expr = base
        if base.id in self.of_data:
            # What a policy asks of its own data is there.
            self.of_data.add(held)
            handlers.insert(0, _on(runtime("KeyError"), held, runtime("UNDEFINED")))
            for name in names:
                code = _member(code, name)
        else:
            # What may well be missing must not cost an exception: of the input the end of a path,
            # of an item that a walk came to anything.
            for name in names[:-1]:
                known = base.id == "input"
                code = _member(code, name) if known else _got(code, name, runtime("NOTHING"))
            code = _got(code, names[-1], runtime("UNDEFINED"))
        direct = ast.Assign(targets=[store(held)], value=code)
        self.add(ast.Try(body=[direct], handlers=handlers, orelse=[], finalbody=[]))
        return load(held)

    def _step(self, base: Operand, operand: Term, lookup: str) -> Operand:
        if self.is_open(operand):
            return self._walk(base, operand)
        key = self.term(operand)
        held = self.hold(looked_up(base, key, call(runtime(lookup), base.code, key.code)))
        if name_of(base.code) in self.of_data:
            self.of_data.add(held.id)
        self.defined(held)
        return Operand(held, base.of)

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
            self.walk_values(store(value), base)
            return Operand(load(value), base.of)
        key = self.target(operand)
        target = ast.Tuple(elts=[key, store(value)], ctx=ast.Store())
        if name_of(base.code) in self.of_data:
            self.of_data.add(value)
        self.walk(target, method("items_as_made" if base.as_made else "items", base.code))
        self.match_target(operand, key)
        return Operand(load(value))

    def walk_values(self, target: ast.expr, collection: Operand) -> None:
        """A walk over the values of `collection`; constants are put in order now.

        Looking at the clock is left to the walks around and before it where this one is short.
        """
        if collection.is_constant:
            ordered = list(values(collection.value))
            held = self.constants.add(ordered)
            # A short one is like so many lines of the policy.
            short = not self.uncounted and len(ordered) <= SHORT
            self.walk(target, held if short else method("walked", held), counted=not short)
            return
        uncounted = self._may_go_uncounted()
        name = self.hold(collection.code)
        if name.id in self.of_data and isinstance(target, ast.Name):
            self.of_data.add(target.id)
        walked: ast.expr = method("values", name)
        if uncounted:
            size = ast.Compare(
                left=call(runtime("len"), name),
                ops=[ast.LtE()],
                comparators=[ast.Constant(value=SHORT)],
            )
            short_list = ast.BoolOp(op=ast.And(), values=[is_class(name, "list"), size])
            walked = ast.IfExp(test=short_list, body=name, orelse=walked)
        self.walk(target, walked, counted=not uncounted)

    def _may_go_uncounted(self) -> bool:
        """Whether the next walk may take a short list without counting its rounds.

        Of walks inside each other one is counted (or two, in a rule, which is asked but once),
        and so is one of many in a row. A function that has such walks counts its calls.
        """
        outermost = self.walks == self.uncounted
        if self.uncounted >= (2 if self.asked_once and outermost else 1):
            return False
        self.freed += 1
        return self.freed % MAX_FREED != 0

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
                document, *names = self._plain_path(ref) or ("",)
                if document:
                    with self.at(ref.span):
                        self._names(Operand(self.of_state(document)), names)
        for expr in body:
            if not expr.withs:
                for ref in references_of(expr):
                    with self.at(ref.span):
                        self._read_quietly(self._plain_path(ref))

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
        names = _names(ref.args)
        node, rest = self._rule_of(ref) if ref.head.name == "data" else (None, ())
        alias = self.plan.alias(node) if node is not None else None
        if alias is not None:
            return ("input", *_names(alias.args), *_names(rest))
        if names and self._is_plain(ref.head.name, names):
            return (ref.head.name, *names)
        return ()

    def _branch_at(self, document: str, names: Sequence[str]) -> None:
        base = self.of_state(document)
        assert isinstance(base, ast.Name)
        held = self._read(base, names)
        self.branches[(base.id, *names)] = self.always[(base.id, *names)] = held
        get = self.fresh()
        own = ast.Attribute(value=held, attr="get", ctx=ast.Load())
        other = call(runtime("getter"), held)
        self.assign(get, ast.IfExp(test=is_class(held, "dict"), body=own, orelse=other))
        self.getters[held.id] = get

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
            self.remember(key, known)
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


def _on(error: ast.expr, held: str, value: ast.expr) -> ast.ExceptHandler:
    """`held = value` when `error` is raised."""
    assign = ast.Assign(targets=[store(held)], value=value)
    return ast.ExceptHandler(type=error, name=None, body=[assign])


def _member(value: ast.expr, name: str) -> ast.expr:
    return ast.Subscript(value=value, slice=ast.Constant(value=name), ctx=ast.Load())


def _got(value: ast.expr, name: str, default: ast.expr) -> ast.expr:
    get = ast.Attribute(value=value, attr="get", ctx=ast.Load())
    return call(get, ast.Constant(value=name), default)


def references_of(node: Expr | Rule) -> Iterator[Ref]:
    """Every reference in `node`, closures included, but none that a `with` may redirect."""
    waiting: list[Node] = [node]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, Ref):
            yield item
        if not (isinstance(item, Expr) and item.withs):
            waiting += children(item)


def looked_up(base: Operand, key: Operand, general: ast.expr) -> ast.expr:
    """`base[key]`, or UNDEFINED: by Python itself where one look tells that it may."""
    if not isinstance(base.code, ast.Name):
        return general
    if key.is_constant:
        if type(key.value) is not int or key.value < 0:
            return general
        there = ast.Compare(
            left=call(runtime("len"), base.code), ops=[ast.Gt()], comparators=[key.code]
        )
        item = ast.Subscript(value=base.code, slice=key.code, ctx=ast.Load())
        if base.kind == "array":
            return ast.IfExp(test=there, body=item, orelse=runtime("UNDEFINED"))
        fits = ast.BoolOp(op=ast.And(), values=[is_class(base.code, "list"), there])
        return ast.IfExp(test=fits, body=item, orelse=general)
    if not isinstance(key.code, ast.Name) or key.kind not in ("", "string"):
        return general
    get = ast.Attribute(value=base.code, attr="get", ctx=ast.Load())
    tests = [is_class(base.code, "dict")] if base.kind != "object" else []
    tests += [is_class(key.code, "str")] if key.kind != "string" else []
    member = call(get, key.code, runtime("UNDEFINED"))
    if not tests:
        return member
    test = tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=list(tests))
    return ast.IfExp(test=test, body=member, orelse=general)


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
