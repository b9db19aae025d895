"""Bodies as the type checker reads them: one call, one equation or one term per expression.

A nested call becomes an expression of its own, whose result goes into a generated variable; so do
references and comprehensions that are inside other terms. `count(input.xs) + 1` reads

    __local0__ = input.xs; count(__local0__, __local1__); plus(__local1__, 1, __local2__)

Each expression stands where the term stood that it was made of: that is what decides where a type
error is reported. The tree that is evaluated stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from doorward.records import record, replace
from doorward.rego.analysis.bindings import Arity, as_call, names_function
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.source import NOWHERE, Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Head,
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
    is_ground,
)

__all__ = ["FlatRule", "Flattener"]

_COMPREHENSIONS = (ArrayComprehension, SetComprehension, ObjectComprehension)
_EQUALITIES: Final = frozenset({"eq", "assign"})


@record(frozen=True)
class FlatRule:
    """One rule, its terms taken apart; `head` holds what the body gives it."""

    head: Head
    body: Body
    rule: Rule


class Origins:
    """The written expressions, heads and bodies that flat ones were made of, by identity.

    An entry holds the flat one as well, so that its identity is not that of another one later.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[Expr, Expr | Term]] = {}
        self._bodies: dict[int, tuple[Body, Body]] = {}

    def add_expr(self, written: Expr, steps: Sequence[Expr]) -> None:
        """Note that `steps` stand for `written`."""
        for step in steps:
            self._parts[id(step)] = step, written

    def add_head(self, term: Term, steps: Sequence[Expr]) -> None:
        """Note that `steps` compute a head."""
        for step in steps:
            self._parts[id(step)] = step, term

    def add_body(self, written: Body, flat: Body) -> None:
        """Note that `flat` was made of a body, of which the heads may have become a part."""
        self._bodies[id(written)] = written, flat

    def part_of(self, step: Expr) -> Expr | Term:
        """The expression, or the term of a head, that `step` is a part of."""
        return self._parts[id(step)][1]

    def flat(self, written: Body) -> Body | None:
        """The flat form of a body."""
        entry = self._bodies.get(id(written))
        return None if entry is None else entry[1]


def _equation(left: Term, right: Term, span: Span) -> Expr:
    return Expr(Call(Ref(Var("eq", span), (), span), (left, right), span), span=span)


class Flattener:
    """Takes terms apart.

    `arity` tells which values of `with` are functions. `unify_equals`: `==` between expressions is
    read as `=`, as in modules; in queries it can be false. `prefix`: what OPA's names for generated
    variables begin with, which its errors show. `bind`: references and comprehensions
    inside terms are bound to variables; without, only calls are. `captured` are the expressions
    made of what print and template strings hold, `templates` their comprehensions: variables must
    be bound outside of them. `origins`: what the expressions were, without `bind`.
    """

    def __init__(
        self, arity: Arity, *, unify_equals: bool, bind: bool = True, prefix: str = "__local"
    ) -> None:
        self.equalities = _EQUALITIES | ({"equal"} if unify_equals else set())
        self.bind = bind
        self.arity = arity
        self.prefix = prefix
        self.count = 0
        self.captured: dict[int, Span] = {}
        self.templates: set[int] = set()
        self.expr_span: Span | None = None
        self.origins = Origins()

    def rule(self, rule: Rule) -> FlatRule:
        """A rule without its `else`, all its terms taken apart."""
        out: list[Expr] = []
        self.exprs(rule.body, out)
        head = rule.head
        key = None if head.key is None else self.result(head.key, out)
        value = None if head.value is None else self.result(head.value, out)
        args = head.args and tuple(self.result(arg, out) for arg in head.args)
        ref = replace(head.ref, args=tuple(self.result(arg, out) for arg in head.ref.args))
        flat = tuple(out)
        if not self.bind:
            self.origins.add_body(rule.body, flat)
        return FlatRule(replace(head, ref=ref, args=args, key=key, value=value), flat, rule)

    def body(self, body: Body) -> Body:
        """A body, all its terms taken apart."""
        return self._closed(body, ())[0]

    def _closed(self, body: Body, heads: Sequence[Term]) -> tuple[Body, tuple[Term, ...]]:
        """A body with what computes the heads of its comprehension, and these."""
        out: list[Expr] = []
        self.exprs(body, out)
        values = tuple([self.result(head, out) for head in heads])
        flat = tuple(out)
        if not self.bind:
            self.origins.add_body(body, flat)
        return flat, values

    def local(self, span: Span) -> Var:
        self.count += 1
        # `@` keeps the name apart from any that a policy can write (`scope.source_name`).
        return Var(f"{self.prefix}{self.count - 1}__@", span)

    # Expressions

    def exprs(self, body: Sequence[Expr], out: list[Expr]) -> None:
        around = self.expr_span
        for expr in body:
            self.expr_span = expr.span
            self.expr(expr, out)
        self.expr_span = around

    def expr(self, expr: Expr, out: list[Expr]) -> None:
        begin = len(out)
        withs = tuple(self._with(item, out) for item in expr.withs)
        first = len(out)
        self._expr(expr, withs, out)
        if withs:  # what is taken out of the expression is evaluated under its `with` as well
            out[first:-1] = [replace(step, withs=(*step.withs, *withs)) for step in out[first:-1]]
        if not self.bind:
            self.origins.add_expr(expr, out[begin:])

    def _expr(self, expr: Expr, withs: tuple[With, ...], out: list[Expr]) -> None:
        for before in expr.before:
            self.expr(before, out)
        flat = replace(expr, withs=withs, before=()) if withs or expr.before else expr
        term = expr.term
        match term:
            case SomeDecl():
                if not self.bind:
                    out.append(flat)
            case SomeIn(key, value, domain):
                reference = self._member(domain, key)
                self._call(flat, "eq", (value, reference), out)
            case Every(_, _, domain, body):
                local = self.local(domain.span)
                self.emit(_equation(local, self.term(domain, out), domain.span), out)
                every = replace(term, domain=local, body=self.body(body))
                out.append(replace(flat, term=every))
            case Not((inner,), False):
                # Without braces its only expression stands, for OPA, where the `not` does.
                body = self.body((replace(inner, span=expr.span),))
                if not self.bind:
                    self.origins.add_body(term.body, body)
                out.append(replace(flat, term=replace(term, body=body)))
            case Not(body):
                out.append(replace(flat, term=replace(term, body=self.body(body))))
            case And(left, right) | Or(left, right):
                both = replace(term, left=self.body(left), right=self.body(right))
                out.append(replace(flat, term=both))
            case Call() if term.name == "print" and not term.infix:
                parts = tuple(self._capture(arg) for arg in term.args)
                self.emit(replace(flat, term=Array(parts, term.span)), out)
            case Call(operator, args):
                if term.name in self.equalities and len(args) == 2:
                    name = "assign" if term.name == "assign" else "eq"
                    self._call(flat, name, args, out)
                else:
                    given = tuple(self.term(arg, out) for arg in args)
                    self.emit(replace(flat, term=Call(operator, given, term.span)), out)
            case _:
                self.emit(replace(flat, term=self.term(term, out)), out)

    def _call(self, flat: Expr, name: str, args: tuple[Term, ...], out: list[Expr]) -> None:
        given = tuple(self.term(arg, out) for arg in args)
        operator = Ref(Var(name, flat.span), (), flat.span)
        self.emit(replace(flat, term=Call(operator, given, flat.span)), out)

    def _with(self, item: With, out: list[Expr]) -> With:
        value = item.value
        call = as_call(value)
        is_function = call is not None and self.arity(call) is not None
        if names_function(item, self.arity) or (is_function and _is_data(item.target, value)):
            return replace(item, value=Ref(value, ())) if isinstance(value, Var) else item
        if is_function and isinstance(value, Var):
            # The name of a built-in is a reference for OPA, to a variable nobody binds.
            value = Ref(value, (), value.span)
        return replace(item, value=self.result(value, out))

    def _member(self, domain: Term, key: Term | None) -> Ref:
        index = key if key is not None else self.local(domain.span)
        if isinstance(domain, Ref):
            return Ref(domain.head, (*domain.args, index), domain.span)
        return Ref(domain, (index,), domain.span)

    def emit(self, expr: Expr, out: list[Expr]) -> None:
        """Append `expr`, after what its references and comprehensions are bound to."""
        term = expr.term
        if not self.bind:
            out.append(expr)
            return
        if isinstance(term, Call):
            outermost = self._outermost if term.name in ("eq", "assign") else self._bound
            args = tuple(outermost(arg, out) for arg in term.args)
            term = replace(term, args=args)
        else:
            assert isinstance(term, Term)
            term = self._outermost(term, out)
        out.append(replace(expr, term=term))

    def _outermost(self, term: Term, out: list[Expr]) -> Term:
        match term:
            case Ref(_, args):
                return replace(term, args=tuple(self._bound(arg, out) for arg in args))
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return term
            case Var(name) if name in ROOTS:
                return term
        return self._bound(term, out)

    def _bound(self, term: Term, out: list[Expr]) -> Term:
        if is_ground(term):
            return term
        match term:
            case Ref(_, args):
                inner = replace(term, args=tuple(self._bound(arg, out) for arg in args))
                return self._bind(inner, out)
            case Array(items) | Set(items):
                return replace(term, items=tuple(self._bound(item, out) for item in items))
            case Object(items):
                pairs = tuple((self._bound(k, out), self._bound(v, out)) for k, v in items)
                return replace(term, items=pairs)
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return self._bind(term, out)
            case Var(name) if name in ROOTS:
                return self._bind(term, out)
        return term

    def _bind(self, term: Term, out: list[Expr]) -> Var:
        local = self.local(term.span)
        out.append(_equation(local, term, term.span))
        return local

    # Terms

    def result(self, term: Term, out: list[Expr]) -> Term:
        """`term` without anything to evaluate in it: that is in `out`."""
        begin = len(out)
        flat: Term = self.term(term, out)
        if _is_evaluated(flat):
            local = self.local(term.span)
            self.emit(_equation(local, flat, term.span), out)
            flat = local
        if not self.bind:
            self.origins.add_head(term, out[begin:])
        return flat

    def term(self, term: Term, out: list[Expr]) -> Term:
        """`term` without calls: those are in `out`."""
        if is_ground(term):
            return term
        match term:
            case Call(operator, args):
                given = tuple(self.term(arg, out) for arg in args)
                local = self.local(term.span)
                call = Call(operator, (*given, local), term.span)
                self.emit(Expr(call, span=term.span), out)
                return local
            case Ref(head, args):
                first = self.term(head, out)
                operands = tuple(self.term(arg, out) for arg in args)
                if not isinstance(first, (Var, Scalar)):
                    local = self.local(head.span)
                    self.emit(_equation(local, first, head.span), out)
                    first = local
                return Ref(first, operands, term.span)
            case Array(items) | Set(items):
                return replace(term, items=tuple(self.term(item, out) for item in items))
            case Object(items):
                pairs = tuple((self.term(k, out), self.term(v, out)) for k, v in items)
                return replace(term, items=pairs)
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                flat, (head,) = self._closed(body, (inner,))
                return replace(term, term=head, body=flat)
            case ObjectComprehension(key, value, body):
                flat, heads = self._closed(body, (key, value))
                return replace(term, key=heads[0], value=heads[1], body=flat)
            case TemplateString(parts):
                captured = tuple(
                    self._capture(self._at_expr(p.term, term.span), p)
                    for p in parts
                    if isinstance(p, Expr)
                )
                self.emit(Expr(Array(captured, term.span), span=term.span), out)
                local = self.local(term.span)
                out.append(_equation(local, Scalar("", term.span), term.span))
                return local
        return term

    def _at_expr(self, term: object, span: Span) -> object:
        """A lone variable of a template string is reported where the expression around stands."""
        return replace(term, span=self.expr_span or span) if isinstance(term, Var) else term

    def _capture(self, term: object, part: Expr | None = None) -> Term:
        """`{x | x = term}`: a value that may be undefined without harm."""
        inside: list[Expr] = []
        assert isinstance(term, Term)  # template strings hold nothing else
        span = term.span
        if part is not None and isinstance(term, Call):
            # OPA has no position for a call inside a template string.
            term = replace(term, span=NOWHERE)
        local = self.local(span)
        self.emit(_equation(local, self.term(term, inside), span), inside)
        if part is None or not isinstance(term, Var):
            self.captured.update((id(expr), term.span) for expr in inside)
        comprehension = SetComprehension(local, tuple(inside), span)
        self.templates.add(id(comprehension))
        return comprehension


def _is_data(*terms: Term) -> bool:
    return all(
        isinstance(t, Ref) and isinstance(t.head, Var) and t.head.name == "data" for t in terms
    )


def _is_evaluated(term: Term) -> bool:
    """Return True if a flat term holds references or comprehensions."""
    if is_ground(term):
        return False
    match term:
        case Var(name):
            return name in ROOTS
        case Array(items) | Set(items):
            return any(map(_is_evaluated, items))
        case Object(items):
            return any(_is_evaluated(k) or _is_evaluated(v) for k, v in items)
    return isinstance(term, (Ref, *_COMPREHENSIONS))
