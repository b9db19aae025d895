"""First step: every name says what it means, and the sugar of single expressions is gone.

Names of rules and imports become references below `data` and `input`; declared variables (`some`,
`:=`, parameters, `every`) get a name of their own, so that nothing is shadowed any more. What was
`some x in xs` or a template string is an equation or a call afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Import,
    Module,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.walk import walk

__all__ = ["ROOTS", "Fresh", "Scope", "call", "equation", "globals_of", "is_root", "name_of"]

ROOTS: Final = ("data", "input")


class Fresh:
    """Names that no text can hold."""

    def __init__(self) -> None:
        self.count = 0

    def variable(self, name: str = "") -> Var:
        self.count += 1
        return Var(f"{name}#{self.count}")


def call(name: str, *args: Term) -> Call:
    return Call(Ref(Var(name), ()), args)


def equation(left: Term, right: Term) -> Expr:
    return Expr(call("eq", left, right))


def name_of(term: Call) -> str | tuple[object, ...]:
    """A built-in's dotted name, or the path of a function below `data`."""
    operator = term.operator
    parts = [arg.value for arg in operator.args if isinstance(arg, Scalar)]
    if is_root(operator) and isinstance(operator.head, Var) and operator.head.name == "data":
        return tuple(parts)
    assert isinstance(operator.head, Var)
    return ".".join([operator.head.name, *map(str, parts)])


def is_root(term: object) -> bool:
    """Whether `term` is `data`, `input` or something below them."""
    return isinstance(term, Ref) and isinstance(term.head, Var) and term.head.name in ROOTS


def globals_of(module: Module, rules: Sequence[str]) -> dict[str, Ref]:
    """What the names of the package's rules and the module's imports stand for."""
    package = tuple(Scalar(part) for part in module.package.path)
    known = {name: Ref(Var("data"), (*package, Scalar(name))) for name in rules}
    for item in module.imports:
        path = item.path if isinstance(item.path, Ref) else Ref(item.path, ())
        assert isinstance(path.head, Var)
        if path.head.name in ROOTS:
            known[_import_name(item, path)] = path
    return known


def _import_name(item: Import, path: Ref) -> str:
    if item.alias is not None:
        return item.alias
    last = path.args[-1] if path.args else path.head
    return str(last.value) if isinstance(last, Scalar) else str(getattr(last, "name", last))


def _pattern_variables(term: Term) -> Iterator[str]:
    """The variables that a pattern on the left of `:=` or `in` declares."""
    match term:
        case Var(name=name):
            yield name
        case Array(items=items) | Set(items=items):
            for item in items:
                yield from _pattern_variables(item)
        case Object(items=pairs):
            for _, value in pairs:
                yield from _pattern_variables(value)
        case _:
            return


def _declared(body: Body) -> Iterator[str]:
    for expr in body:
        match expr.term:
            case SomeDecl(symbols=symbols):
                yield from (symbol.name for symbol in symbols)
            case SomeIn(key=key, value=value):
                yield from _pattern_variables(value)
                yield from _pattern_variables(key) if key is not None else ()
            case Call(args=(left, _)) as term if term.name == "assign":
                yield from _pattern_variables(left)
            case _:
                pass


class Scope:
    """What each name means at one place of a rule."""

    def __init__(
        self,
        known: Mapping[str, Ref],
        fresh: Fresh,
        outer: Mapping[str, str] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.known = known
        self.fresh = fresh
        self.local = dict(outer or {})
        self.hidden = hidden
        """Names that are declared somewhere in the bodies around: no longer rules or imports."""

    def inner(self, body: Body = ()) -> Scope:
        return Scope(self.known, self.fresh, self.local, self.hidden | set(_declared(body)))

    def declare(self, *patterns: Term | None, but: Collection[str] = ()) -> None:
        for pattern in patterns:
            names = _pattern_variables(pattern) if pattern is not None else ()
            for name in (name for name in names if name not in but):
                self.local[name] = self.fresh.variable(name).name

    # Rules

    def rule(self, rule: Rule) -> Rule:
        """The rule with its names resolved; its `else` is not looked at."""
        head = rule.head
        top = self.inner(rule.body)
        top.declare(*(head.args or ()))
        args = None if head.args is None else tuple(map(top.term, head.args))
        body = top.exprs(rule.body)
        new = Head(
            Ref(head.ref.head, tuple(map(top.term, head.ref.args))),
            args,
            None if head.key is None else top.term(head.key),
            Scalar(True) if head.value is None else top.term(head.value),
        )
        return replace(rule, head=new, body=body, else_rule=None)

    # Bodies

    def exprs(self, body: Body) -> Body:
        exprs = [self._expr(expr) for expr in body]
        return tuple(expr for expr in exprs if expr is not None)

    def body(self, body: Body) -> Body:
        return self.inner(body).exprs(body)

    def _expr(self, expr: Expr) -> Expr | None:
        withs = tuple(With(self._target(w.target), self.term(w.value)) for w in expr.withs)
        term: Term | Every | Not | And | Or
        match expr.term:
            case SomeDecl(symbols=symbols):
                self.declare(*symbols)
                return None
            case SomeIn(key=key, value=value, domain=domain):
                over = self.term(domain)
                # What the domain reads is not declared again.
                read = {node.name for node in walk(domain) if isinstance(node, Var)} | {*ROOTS}
                self.declare(key, value, but=read)
                position = self.fresh.variable() if key is None else self.term(key)
                term = call("eq", self.term(value), self._below(over, (position,)))
            case Call(args=(left, right)) as actual if actual.name == "assign":
                result = self.term(right)
                self.declare(left)
                term = call("assign", self.term(left), result)
            case Call() as actual if actual.name == "print":
                return None
            case Every(key=key, value=value, domain=domain, body=body):
                over = self.term(domain)
                inside = self.inner()
                inside.declare(key, value)
                first, second = inside.term(key or self.fresh.variable()), inside.term(value)
                assert isinstance(first, Var)
                assert isinstance(second, Var)
                term = Every(first, second, over, inside.body(body))
            case Not(body=body):
                term = replace(expr.term, body=self.body(body))
            case And(left=first, right=second):
                term = And(self.body(first), self.body(second))
            case Or(left=first, right=second):
                term = Or(self.body(first), self.body(second))
            case other:
                term = self.term(other)
        return Expr(term, expr.negated, withs)

    def _target(self, target: Ref | Var) -> Ref | Var:
        term = self.term(target)
        assert isinstance(term, Ref | Var)
        return term

    # Terms

    def _variable(self, var: Var) -> Term:
        name = var.name
        if name in self.local:
            return Var(self.local[name])
        if name in self.known and name not in self.hidden:
            path = self.known[name]
            # `[data] := …` takes the document from the names of rules and imports as well.
            local = self.local.get(path.head.name) if isinstance(path.head, Var) else None
            return path if local is None else Ref(Var(local), path.args)
        return Ref(var, ()) if name in ROOTS else var

    def term(self, term: Term) -> Term:
        match term:
            case Scalar():
                return term
            case Var():
                return self._variable(term)
            case Ref(head=head, args=args):
                return self._below(self.term(head), tuple(map(self.term, args)))
            case Call(operator=operator, args=args):
                target = self._below(self.term(operator.head), operator.args)
                assert isinstance(target, Ref)
                return Call(target, tuple(map(self.term, args)))
            case Array(items=items):
                return Array(tuple(map(self.term, items)))
            case Set(items=items):
                return Set(tuple(map(self.term, items)))
            case Object(items=pairs):
                return Object(tuple((self.term(k), self.term(v)) for k, v in pairs))
            case TemplateString(parts=parts):
                texts = Array(tuple(map(self._part, parts)))
                return Call(Ref(Var("internal"), (Scalar("template_string"),)), (texts,))
            case _:
                return self._comprehension(term)

    def _below(self, head: Term, args: tuple[Term, ...]) -> Term:
        if is_root(head):
            assert isinstance(head, Ref)
            return Ref(head.head, head.args + args)
        return Ref(head, args)

    def _part(self, part: str | Expr) -> Term:
        """Text, or the set of what an expression gives."""
        if isinstance(part, str):
            return Scalar(part)
        value = self.fresh.variable()
        expr = self._expr(part)
        assert expr is not None
        assert not isinstance(expr.term, Every | Not | And | Or | SomeDecl | SomeIn)
        return SetComprehension(value, (replace(expr, term=call("eq", value, expr.term)),))

    def _comprehension(self, term: Term) -> Term:
        assert isinstance(term, ArrayComprehension | SetComprehension | ObjectComprehension)
        inside = self.inner(term.body)
        body = inside.exprs(term.body)
        match term:
            case ObjectComprehension(key=key, value=value):
                return ObjectComprehension(inside.term(key), inside.term(value), body)
            case ArrayComprehension(term=head):
                return ArrayComprehension(inside.term(head), body)
            case SetComprehension(term=head):
                return SetComprehension(inside.term(head), body)
