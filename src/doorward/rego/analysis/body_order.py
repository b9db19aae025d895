"""Bodies in the order in which they are evaluated: every variable is bound before it is used.

Programs are checked before (`opa_diagnostics.unsafe_variables` decides what is reported as unsafe);
what this module finds unsafe besides is an error too, since there is no order to evaluate.
An expression that needs a variable waits until another has bound it; otherwise the order stays as
written. What never becomes ready is unsafe. Bodies of closures are ordered with what is bound
around them at the place where they are. What is asked before something is negated goes before it
(`negation.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from doorward.records import replace
from doorward.rego.analysis.bindings import Arity, analyse
from doorward.rego.analysis.negation import Negations
from doorward.rego.analysis.scope import pattern_vars, source_name
from doorward.rego.analysis.variables import body_vars, expr_vars, term_vars
from doorward.rego.analysis.written_order import WrittenOrder
from doorward.rego.errors import UNSAFE_VAR_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Module,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Set,
    SetComprehension,
    SomeIn,
    TemplateString,
    Term,
    Var,
    is_ground,
)

__all__ = ["Safety", "order_modules", "order_query"]


def order_modules(
    modules: Sequence[Module], written: WrittenOrder
) -> tuple[list[Module], list[Diagnostic]]:
    """Every module with its bodies in order, and the variables that are unsafe."""
    safety = Safety(written.arity, Negations(in_query=False), written)
    ordered = [
        replace(module, rules=tuple(safety.rule(rule, set()) for rule in module.rules))
        for module in modules
    ]
    return ordered, safety.errors


def order_query(body: Body, arity: Arity) -> tuple[Body, list[Diagnostic]]:
    """A query's body in order, and the variables that are unsafe."""
    safety = Safety(arity, Negations(in_query=True))
    outer = {v.name for v in body_vars(body, closures=False)}
    ordered, _ = safety.body(body, set(), outer)
    return ordered, safety.errors


def _names_by_expression(body: Body) -> list[tuple[Expr, set[str]]]:
    """Each expression with the variables it names, those inside closures too."""
    return [(expr, {v.name for v in expr_vars(expr)}) for expr in body]


class Safety:
    def __init__(
        self, arity: Arity, negations: Negations, written: WrittenOrder | None = None
    ) -> None:
        self.arity = arity
        self.written = written or WrittenOrder(arity)
        self.negations = negations
        self.errors: list[Diagnostic] = []

    def unsafe(self, variables: Iterable[Var], span: Span | None = None) -> None:
        first: dict[str, Var] = {}
        for var in variables:
            first.setdefault(var.name, var)
        for name, var in first.items():
            message = f"var {source_name(name)} is unsafe"
            self.errors.append(Diagnostic(UNSAFE_VAR_ERROR, message, span or var.span))

    def rule(self, rule: Rule, arguments: set[str]) -> Rule:
        head = rule.head
        if self.written.has(rule):
            return self._as_written(rule, arguments)
        bound = set(arguments)
        for arg in head.args or ():
            bound.update(v.name for v in pattern_vars(arg))
        parts = (*(head.args or ()), *head.ref.args, head.key, head.value)
        head_terms = [t for t in parts if t is not None]
        outer = set(bound)
        outer.update(v.name for v in body_vars(rule.body, closures=False))
        for term in head_terms:
            outer.update(v.name for v in term_vars(term, closures=False))
        body, head = self._with_head(rule.body, head, bound, outer)
        body, safe = self.body(body, bound, outer)
        for part in (*(head.args or ()), *head.ref.args, head.key, head.value):
            if part is not None:
                self.unsafe(analyse(Expr(part), safe, outer, self.arity).missing())
        otherwise = None
        if rule.else_rule is not None:
            otherwise = self.rule(rule.else_rule, bound)
        return replace(rule, head=self._head(head, safe, outer), body=body, else_rule=otherwise)

    def _as_written(self, rule: Rule, arguments: set[str]) -> Rule:
        """A rule that is in order, and has nothing negated in closures."""
        body, otherwise = rule.body, None
        if any([expr.negated for expr in body]):
            body = tuple([self.negations.apart(e) if e.negated else e for e in body])
        if rule.else_rule is not None:
            parameters = [arg for arg in rule.head.args or () if isinstance(arg, Var)]
            otherwise = self.rule(rule.else_rule, arguments | {v.name for v in parameters})
        if body is rule.body and otherwise is rule.else_rule:
            return rule
        return replace(rule, body=body, else_rule=otherwise)

    def _with_head(
        self, body: Body, head: Head, bound: set[str], outer: set[str]
    ) -> tuple[Body, Head]:
        """A head's reference may bind what the rest needs: `p := xs[i] if i > 1`, `p[i] := xs[i]`.

        It then becomes an equation of the body, and the head the variable it defines.
        """
        places = tuple(Expr(arg, span=arg.span) for arg in head.ref.args)
        if not self._stuck((*body, *places), bound, outer):
            return body, head
        if head.value is not None:
            body, value = self._move(body, head.value, places, bound, outer)
            head = replace(head, value=value)
        if head.key is not None:
            body, key = self._move(body, head.key, places, bound, outer)
            head = replace(head, key=key)
        return body, head

    def _move(
        self, body: Body, term: Term, places: Body, bound: set[str], outer: set[str]
    ) -> tuple[Body, Term]:
        var = Var(f"head@@{term.span.start}", term.span)
        operator = Ref(Var("eq", term.span), (), term.span)
        equation = Call(operator, (var, term), term.span, infix=True)
        moved = (*body, Expr(equation, span=term.span))
        before = self._stuck((*body, *places), bound, outer)
        if len(self._stuck((*moved, *places), bound, outer)) < len(before):
            return moved, var
        return body, term

    def _stuck(self, body: Body, bound: set[str], outer: set[str]) -> list[Expr]:
        """The expressions that no order makes ready."""
        waiting = _names_by_expression(body)
        for _ in self._ready(waiting, set(bound), outer):
            pass
        return [expr for expr, _ in waiting]

    def _ready(
        self, waiting: list[tuple[Expr, set[str]]], safe: set[str], outer: set[str]
    ) -> Iterator[tuple[Expr, set[str]]]:
        """Each expression that can be evaluated after those before it, with what it binds.

        It is taken from `waiting`, and what it binds is added to `safe`; what is left in `waiting`
        at the end no order makes ready.
        """
        fresh: set[str] | None = None
        while waiting:
            rest, added = [], set[str]()
            for expr, names in waiting:
                # What names nothing that has been bound since then would fail again.
                if fresh is not None and names.isdisjoint(fresh | added):
                    rest.append((expr, names))
                    continue
                binding = analyse(expr, safe, outer, self.arity)
                if binding.missing():
                    rest.append((expr, names))
                    continue
                yield expr, binding.binds
                safe |= binding.binds
                added |= binding.binds
            is_stuck = len(rest) == len(waiting)
            waiting[:], fresh = rest, added
            if is_stuck:
                return

    def _head(self, head: Head, safe: set[str], outer: set[str]) -> Head:
        ref = self.term(head.ref, safe, outer)
        return replace(
            head,
            ref=ref if isinstance(ref, Ref) else head.ref,
            key=None if head.key is None else self.term(head.key, safe, outer),
            value=None if head.value is None else self.term(head.value, safe, outer),
        )

    def body(self, body: Body, bound: set[str], outer: set[str]) -> tuple[Body, set[str]]:
        """The ordered body, and what is bound after it."""
        waiting = _names_by_expression(body)
        ordered: list[Expr] = []
        safe = set(bound)
        for expr, binds in self._ready(waiting, safe, outer):
            ordered.append(self._closures(expr, safe | binds, outer))
        if not waiting:
            return tuple(ordered), safe
        stuck = tuple(expr for expr, _ in waiting)
        self._report(stuck, safe, outer)
        return (*ordered, *stuck), safe | {v.name for v in body_vars(stuck)}

    def _report(self, stuck: Sequence[Expr], safe: set[str], outer: set[str]) -> None:
        for expr in stuck:
            binding = analyse(expr, safe, outer, self.arity)
            self.unsafe(binding.missing(), expr.span)

    # Closures

    def _closures(self, expr: Expr, safe: set[str], outer: set[str]) -> Expr:
        term = expr.term
        if isinstance(term, SomeIn):
            term = replace(term, domain=self.term(term.domain, safe, outer))
        elif isinstance(term, Every):
            term = self._every(term, safe, outer)
        elif isinstance(term, Not):
            term = replace(term, body=self._closure(term.body, (), safe, outer)[0])
        elif isinstance(term, (And, Or)):
            left, _ = self._closure(term.left, (), safe, outer)
            right, _ = self._closure(term.right, (), safe, outer)
            term = replace(term, left=left, right=right)
        elif isinstance(term, Term):
            term = self.term(term, safe, outer)
        withs = tuple(replace(w, value=self.term(w.value, safe, outer)) for w in expr.withs)
        expr = replace(expr, term=term, withs=withs)
        return self.negations.apart(expr) if expr.negated else expr

    def _every(self, term: Every, safe: set[str], outer: set[str]) -> Every:
        inner = safe | {term.value.name}
        if term.key is not None:
            inner.add(term.key.name)
        inside = outer | inner | {v.name for v in body_vars(term.body, closures=False)}
        body, _ = self.body(term.body, inner, inside)
        return replace(term, domain=self.term(term.domain, safe, outer), body=body)

    def _closure(
        self, body: Body, heads: tuple[Term, ...], safe: set[str], outer: set[str]
    ) -> tuple[Body, tuple[Term, ...]]:
        inside = outer | {v.name for v in body_vars(body, closures=False)}
        for head in heads:
            inside |= {v.name for v in term_vars(head, closures=False)}
        body, heads = self._with_heads(body, heads, safe, inside)
        ordered, bound = self.body(body, safe, inside)
        self.unsafe(analyse(Expr(Array(heads)), bound, inside, self.arity).missing())
        return ordered, tuple(self.term(head, bound, inside) for head in heads)

    def _with_heads(
        self, body: Body, heads: tuple[Term, ...], bound: set[str], outer: set[str]
    ) -> tuple[Body, tuple[Term, ...]]:
        """A comprehension's head may bind what its body needs: `[xs[i] | startswith(i, "x")]`."""
        moved = []
        for head in heads:
            if self._stuck(body, bound, outer):
                body, head = self._move(body, head, (), bound, outer)
            moved.append(head)
        return body, tuple(moved)

    def term(self, term: Term, safe: set[str], outer: set[str]) -> Term:
        """`term` with the bodies of its closures in order."""
        if is_ground(term):
            return term
        match term:
            case Ref(head, args):
                return replace(
                    term,
                    head=self.term(head, safe, outer),
                    args=tuple(self.term(a, safe, outer) for a in args),
                )
            case Call(_, args):
                return replace(term, args=tuple(self.term(a, safe, outer) for a in args))
            case Array(items) | Set(items):
                return replace(term, items=tuple(self.term(i, safe, outer) for i in items))
            case Object(items):
                pairs = tuple(
                    (self.term(k, safe, outer), self.term(v, safe, outer)) for k, v in items
                )
                return replace(term, items=pairs)
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                ordered, heads = self._closure(body, (inner,), safe, outer)
                return replace(term, term=heads[0], body=ordered)
            case ObjectComprehension(key, value, body):
                ordered, heads = self._closure(body, (key, value), safe, outer)
                return replace(term, key=heads[0], value=heads[1], body=ordered)
            case TemplateString(parts):
                return replace(
                    term,
                    parts=tuple(
                        p if isinstance(p, str) else self._closures(p, safe, outer) for p in parts
                    ),
                )
        return term
