"""Modules to rules that can be evaluated, in a tree by their paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.oracle.metadata import answer_metadata
from tests.oracle.order import Ordering, variables
from tests.oracle.plain import Lifting, spread_body
from tests.oracle.scope import Fresh, Scope, call, globals_of, name_of

from doorward.rego import Registry
from doorward.rego.errors import RECURSION_ERROR, CompileError, Diagnostic
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import (
    And,
    Array,
    Body,
    Call,
    Every,
    Expr,
    Module,
    Not,
    Object,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.parser import parse_module, parse_query
from doorward.rego.syntax.walk import walk
from doorward.rego.values import Key, from_key, make_object, make_set, sorted_keys, to_key

__all__ = ["Chain", "Node", "Program", "RecursiveError", "constant"]


class RecursiveError(CompileError):
    """Rules that ask for themselves."""

    def __init__(self) -> None:
        super().__init__([Diagnostic(RECURSION_ERROR, "rules are recursive")])


@dataclass
class Chain:
    """A rule and its `else` branches; `path` is where it stands below `data`, open places last."""

    rules: list[Rule]
    path: tuple[Term, ...]
    default: bool

    @property
    def head(self) -> Any:
        return self.rules[0].head

    @property
    def is_function(self) -> bool:
        return bool(self.head.args)


@dataclass
class Node:
    """What the rules say of one path below `data`."""

    chains: list[Chain] = field(default_factory=list)
    children: dict[Key, Node] = field(default_factory=dict)

    @property
    def is_function(self) -> bool:
        return any(chain.is_function for chain in self.chains)

    def names(self) -> list[Any]:
        return [from_key(key) for key in sorted_keys(self.children)]

    def child(self, key: Any) -> Node | None:
        return self.children.get(to_key(key))

    def below(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children.values():
            yield from child.below()


def constant(term: Term) -> Any:
    """The value of a term that only has constants in it."""
    match term:
        case Scalar(value=value):
            return value
        case Array(items=items):
            return [constant(item) for item in items]
        case Set(items=items):
            return make_set(constant(item) for item in items)
        case Object(items=pairs):
            return make_object((constant(key), constant(value)) for key, value in pairs)
        case _:
            raise TypeError(f"{type(term).__name__} is not constant")


def _read_parts(rule: Rule) -> list[Term | Expr]:
    """A rule without its name, which may be `data`."""
    head = rule.head
    terms = [*head.ref.args, *(head.args or ()), head.key, head.value]
    return [*(term for term in terms if term is not None), *rule.body]


def _is_constant(term: Term) -> bool:
    return all(isinstance(node, Scalar | Array | Set | Object) for node in walk(term))


def _rule_names(modules: Sequence[Module]) -> dict[tuple[str, ...], list[str]]:
    """The names of the rules of each package."""
    names: dict[tuple[str, ...], list[str]] = {}
    for module in modules:
        package = names.setdefault(module.package.path, [])
        for rule in module.rules:
            assert isinstance(rule.head.ref.head, Var)
            package.append(rule.head.ref.head.name)
    return names


class Program:
    """Modules ready to be evaluated. Errors of parsing come out as the parser raises them."""

    def __init__(
        self,
        modules: Mapping[str, str],
        registry: Registry,
        *,
        v0: bool = False,
        metadata: bool = False,
    ) -> None:
        self.registry = registry
        self.v0 = v0
        self.fresh = Fresh()
        self.root = Node()
        parsed = [
            parse_module(Source(name, text), v0=v0, annotations=metadata, builtins=registry)
            for name, text in modules.items()
        ]
        parsed = answer_metadata(parsed) if metadata else parsed
        self._names = _rule_names(parsed)
        self._add(parsed)
        self.lifting = Lifting(self.fresh, self.is_function)
        self.ordering = Ordering(self.arity)
        for node in self.root.below():
            for chain in node.chains:
                chain.rules = [self.lifting.rule(rule) for rule in chain.rules]
        for node in self.root.below():
            for chain in node.chains:
                chain.rules = [self._ordered(rule) for rule in chain.rules]
        self._check_recursion()

    def _add(self, modules: list[Module]) -> None:
        for module in modules:
            known = globals_of(module, self._names[module.package.path])
            self._node([Scalar(part) for part in module.package.path])
            for rule in module.rules:
                chain: list[Rule] = []
                link: Rule | None = rule
                while link is not None:
                    chain.append(self._closed_head(Scope(known, self.fresh).rule(link)))
                    link = link.else_rule
                ref = chain[0].head.ref
                assert isinstance(ref.head, Var)
                path = (*map(Scalar, module.package.path), Scalar(ref.head.name), *ref.args)
                ground = 0
                # A composite key is read like a variable: it has no branch of its own in the tree.
                while ground < len(path) and isinstance(path[ground], Scalar):
                    ground += 1
                node = self._node(path[:ground])
                node.chains.append(Chain(chain, path, rule.default))

    def _closed_head(self, rule: Rule) -> Rule:
        """References in the brackets of a head are read in the body."""
        # Before the tree is made: `p[input.x]` is an open place.
        lifting = Lifting(self.fresh, lambda name: False)
        if all(_is_constant(arg) or isinstance(arg, Var) for arg in rule.head.ref.args):
            return rule
        plain = lifting.rule(replace(rule, head=replace(rule.head, key=None, value=None), body=()))
        head = replace(rule.head, ref=plain.head.ref)
        return replace(rule, head=head, body=(*rule.body, *plain.body))

    def _node(self, path: list[Term] | tuple[Term, ...]) -> Node:
        node = self.root
        for part in path:
            node = node.children.setdefault(to_key(constant(part)), Node())
        return node

    def _ordered(self, rule: Rule) -> Rule:
        head = rule.head
        args = frozenset(n for arg in head.args or () for n in variables(arg))
        outputs = [*head.ref.args, *([head.key] if head.key else []), head.value]
        names = frozenset(n for term in outputs if term is not None for n in variables(term))
        body = self.ordering.body(rule.body, args, head=names)
        return replace(rule, body=spread_body(body, self.fresh))

    # Functions

    def find(self, path: tuple[Any, ...]) -> Node | None:
        node: Node | None = self.root
        for key in path:
            node = node.child(key) if node is not None else None
        return node

    def is_function(self, name: str | tuple[object, ...]) -> bool:
        if isinstance(name, str):
            return name in self.registry
        node = self.find(name)
        return node is not None and node.is_function

    def arity(self, name: str | tuple[object, ...]) -> int:
        """How many operands a function takes."""
        if isinstance(name, str):
            actual = self.registry.get(name)
            if actual is None:
                raise LookupError(f"undefined function {name}")
            variadic = actual.signature.variadic is not None
            return 1_000 if variadic else len(actual.signature.args)
        node = self.find(name)
        if node is None or not node.is_function:
            raise LookupError(f"undefined function {name}")
        return len(node.chains[0].head.args or ())

    # Queries

    def query(self, text: str) -> tuple[Body, dict[str, str], Term | None]:
        """The body of a query, in order; the variables that its answers show, by their names here.

        A query without variables shows the value of its last expression: the third one.
        """
        body = parse_query(Source("", text), v0=self.v0)
        scope = Scope({}, self.fresh).inner(body)
        resolved = list(scope.exprs(body))
        shown = {unique: name for name, unique in scope.local.items() if not name.startswith("$")}
        # A built-in that stands in for another function is not a variable.
        values = [item.value for expr in body for item in expr.withs]
        heads = [value.head if isinstance(value, Ref) else value for value in values]
        mocks = {head.name for head in heads if isinstance(head, Var) and self._begins(head.name)}
        names = {name for expr in resolved for name in variables(expr)} - mocks
        captured: Term | None = None
        if not shown and all("#" in name or name.startswith("$") for name in names):
            captured = Scalar(True)
        checks: list[Expr] = []
        for number, expr in enumerate(resolved):
            value = self._value_of(expr)
            if value is None:
                continue
            result = self.fresh.variable()
            resolved[number] = replace(expr, term=call("eq", result, value))
            if len(resolved) > 1 or captured is None or names:
                checks.append(Expr(result))
            if captured is not None and number == len(resolved) - 1:
                captured = result
        ordered = self.ordering.body(self.lifting.body((*resolved, *checks)), frozenset())
        return spread_body(ordered, self.fresh, ("eq", "assign")), shown, captured

    def _begins(self, name: str) -> bool:
        """Whether a built-in's name begins with this one: `lower`, `json`."""
        return any(each.name.split(".")[0] == name for each in self.registry)

    def _value_of(self, expr: Expr) -> Term | None:
        """The term whose value an expression of a query has; whether it is false is seen last."""
        if expr.negated or isinstance(expr.term, Every | Not | And | Or | SomeDecl | SomeIn):
            return None
        if isinstance(expr.term, Call) and expr.term.args:
            name = name_of(expr.term)
            if name in ("eq", "assign") or len(expr.term.args) > self.arity(name):
                return None
        return expr.term

    # Recursion

    def _check_recursion(self) -> None:
        reads: dict[int, list[Node]] = {}
        for node in self.root.below():
            if node.chains:
                reads[id(node)] = [
                    other
                    for chain in node.chains
                    for rule in chain.rules
                    for part in _read_parts(rule)
                    for item in walk(part)
                    for other in self._read_by(item)
                ]
        done: set[int] = set()
        under: set[int] = set()

        def visit(node: Node) -> None:
            if id(node) in under:
                raise RecursiveError
            if id(node) not in done:
                under.add(id(node))
                for other in reads[id(node)]:
                    visit(other)
                under.remove(id(node))
                done.add(id(node))

        for node in self.root.below():
            if node.chains:
                visit(node)

    def _read_by(self, item: Any) -> Iterator[Node]:
        """The rules that a reference may ask, whatever its variables are."""
        if isinstance(item, Call):
            name = name_of(item) if isinstance(item.operator.head, Var) else ""
            node = self.find(name) if isinstance(name, tuple) else None
            if node is not None:
                yield node
        elif isinstance(item, Ref) and item.head == Var("data"):
            reached = [self.root]
            for arg in item.args:
                yield from (node for node in reached if node.chains)
                if isinstance(arg, Scalar):
                    reached = [n for node in reached if (n := node.child(arg.value)) is not None]
                elif isinstance(arg, Var):
                    reached = [n for node in reached for n in node.children.values()]
                else:
                    return
            for node in reached:
                yield from (inner for inner in node.below() if inner.chains)
