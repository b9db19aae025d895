"""Second and fourth step: operands that must be evaluated stand in expressions of their own.

`f(g(x.a))` calls twice and reads once; OPA writes it as three expressions, and only the last one
is what a `not` before it negates. First, `lift_rule` and `lift_body` take out calls and the values
that references look into, the heads of comprehensions and rules, and the values of `with`. When
the bodies are in order, `spread_body` takes out the references and comprehensions that are
operands; `==` is an equation by then, and spared as equations are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.oracle.scope import Fresh, call, equation, is_root, name_of

from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
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
    Term,
    Var,
    With,
)
from doorward.rego.syntax.walk import walk

__all__ = ["COMPREHENSIONS", "Lifting", "OutOfScopeError", "spread_body"]

COMPREHENSIONS = (ArrayComprehension, SetComprehension, ObjectComprehension)


def _must_be_evaluated(term: Term) -> bool:
    return any(isinstance(node, (Ref, *COMPREHENSIONS)) for node in walk(term))


class OutOfScopeError(Exception):
    """The oracle says nothing: OPA contradicts itself here, or the answer takes too long."""


class Lifting:
    """Takes calls out of operands."""

    def __init__(self, fresh: Fresh, is_function: Callable[[str | tuple[object, ...]], bool]):
        self.fresh = fresh
        self.is_function = is_function

    def rule(self, rule: Rule) -> Rule:
        """The rule with nothing to evaluate in its head."""
        after: list[Expr] = []

        def plain(term: Term) -> Term:
            term = self._term(term, after)
            if not _must_be_evaluated(term):
                return term
            value = self.fresh.variable()
            after.append(equation(value, term))
            return value

        head = rule.head
        args = None if head.args is None else tuple(map(plain, head.args))
        ref = replace(head.ref, args=tuple(map(plain, head.ref.args)))
        key = None if head.key is None else plain(head.key)
        value = None if head.value is None else plain(head.value)
        new = replace(head, args=args, ref=ref, key=key, value=value)
        return replace(rule, head=new, body=(*self.body(rule.body), *after))

    def body(self, body: Body) -> Body:
        return tuple(plain for expr in body for plain in self._expr(expr))

    def _expr(self, expr: Expr) -> list[Expr]:
        first: list[Expr] = []
        withs = tuple(self._with(item, first) for item in expr.withs)
        before: list[Expr] = []
        term: Term | Every | Not | And | Or
        match expr.term:
            case Call(operator=operator, args=()) if is_root(operator):
                term = operator
            case Call(operator=operator, args=args):
                term = Call(operator, tuple(self._term(arg, before) for arg in args))
            case Every(domain=domain, body=body) as every:
                over = self.fresh.variable()
                before.append(equation(over, self._term(domain, before)))
                term = replace(every, domain=over, body=self.body(body))
            case Not(body=body):
                term = replace(expr.term, body=self.body(body))
            case And(left=left, right=right):
                term = And(self.body(left), self.body(right))
            case Or(left=left, right=right):
                term = Or(self.body(left), self.body(right))
            case SomeDecl() | SomeIn():
                raise AssertionError("is an equation by now")
            case other:
                term = self._term(other, before)
        return [
            *first,
            *(replace(extra, withs=withs) for extra in before),
            Expr(term, expr.negated, withs),
        ]

    def _with(self, item: With, first: list[Expr]) -> With:
        """The value in a variable; a function, which has no value, as a call without operands."""
        named = self._function_named(item.value)
        if named is not None:
            if self._function_named(item.target) is None:
                raise OutOfScopeError("a function in the place of a document")
            return replace(item, value=named)
        value = self.fresh.variable()
        first.append(equation(value, self._term(item.value, first)))
        return With(item.target, value)

    def _function_named(self, term: Term) -> Call | None:
        ref = Ref(term, ()) if isinstance(term, Var) else term
        if not isinstance(ref, Ref) or not isinstance(ref.head, Var):
            return None
        if not all(isinstance(arg, Scalar) for arg in ref.args):
            return None
        function = Call(ref, ())
        return function if self.is_function(name_of(function)) else None

    def _term(self, term: Term, before: list[Expr]) -> Term:
        match term:
            case Call(operator=operator, args=args):
                args = tuple(self._term(arg, before) for arg in args)
                result = self.fresh.variable()
                if is_root(operator) and not args:
                    before.append(equation(result, operator))
                else:
                    before.append(Expr(Call(operator, (*args, result))))
                return result
            case Ref(head=head, args=args):
                inner = head if is_root(term) else self._term(head, before)
                args = tuple(self._term(arg, before) for arg in args)
                if not isinstance(inner, Var):
                    value = self.fresh.variable()
                    before.append(equation(value, inner))
                    inner = value
                return Ref(inner, args)
            case Array(items=items):
                return Array(tuple(self._term(item, before) for item in items))
            case Set(items=items):
                return Set(tuple(self._term(item, before) for item in items))
            case Object(items=pairs):
                return Object(
                    tuple((self._term(k, before), self._term(v, before)) for k, v in pairs)
                )
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return self._comprehension(term)
            case _:
                return term

    def _comprehension(
        self, term: ArrayComprehension | SetComprehension | ObjectComprehension
    ) -> Term:
        after: list[Expr] = []

        def plain(head: Term) -> Term:
            head = self._term(head, after)
            if not _must_be_evaluated(head):
                return head
            value = self.fresh.variable()
            after.append(equation(value, head))
            return value

        if isinstance(term, ObjectComprehension):
            key, value = plain(term.key), plain(term.value)
            return ObjectComprehension(key, value, (*self.body(term.body), *after))
        head = plain(term.term)
        return replace(term, term=head, body=(*self.body(term.body), *after))


SPARED = ("eq", "assign", "equal")


def spread_body(body: Body, fresh: Fresh, spared: tuple[str, ...] = SPARED) -> Body:
    """The body, in order, with references and comprehensions taken out of operands.

    In queries `==` is a call like any other.
    """
    return tuple(plain for expr in body for plain in _Spreading(fresh, expr, spared).exprs())


class _Spreading:
    """Takes references and comprehensions out of the operands of one expression."""

    def __init__(self, fresh: Fresh, expr: Expr, spared: tuple[str, ...]) -> None:
        self.fresh = fresh
        self.spared = spared
        self.expr = expr
        self.before: list[Expr] = []

    def exprs(self) -> list[Expr]:
        term = self.expr.term
        new: Term | Every | Not | And | Or
        match term:
            case Call(args=(left, right)) if name_of(term) in self.spared:
                new = call("eq", self._shallow(left), self._shallow(right))
            case Call(operator=operator, args=args):
                new = Call(operator, tuple(map(self._deep, args)))
            case Every(body=body):
                new = replace(term, body=self._body(body))
            case Not(body=body):
                new = replace(term, body=self._body(body))
            case And(left=first, right=second):
                new = And(self._body(first), self._body(second))
            case Or(left=first, right=second):
                new = Or(self._body(first), self._body(second))
            case SomeDecl() | SomeIn():
                raise AssertionError("is an equation by now")
            case _:
                new = self._shallow(term)
        return [*self.before, replace(self.expr, term=new)]

    def _body(self, body: Body) -> Body:
        return spread_body(body, self.fresh, self.spared)

    def _shallow(self, term: Term) -> Term:
        """An operand that may itself be a reference or a comprehension."""
        match term:
            case Ref(head=head, args=args):
                return Ref(head, tuple(map(self._deep, args)))
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return replace(term, body=self._body(term.body))
            case _:
                return self._deep(term)

    def _deep(self, term: Term) -> Term:
        match term:
            case Ref() | ArrayComprehension() | SetComprehension() | ObjectComprehension():
                inner = self._shallow(term)
                value = self.fresh.variable()
                self.before.append(replace(equation(value, inner), withs=self.expr.withs))
                return value
            case Array(items=items):
                return Array(tuple(map(self._deep, items)))
            case Set(items=items):
                return Set(tuple(map(self._deep, items)))
            case Object(items=pairs):
                return Object(tuple((self._deep(k), self._deep(v)) for k, v in pairs))
            case _:
                return term
