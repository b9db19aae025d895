"""Bodies with one step per expression, in the order in which OPA takes the steps.

    startswith(input.a, trim(input.b, "x"))
    __step0__ = input.b; __step1__ = trim(__step0__, "x"); __step2__ = input.a
    startswith(__step2__, __step1__)

Calls inside operands come first, then the bodies are put in order again, then references and
comprehensions that are operands become equations before their expression. No value depends on
this order, but which step fails first does: it decides whether an error is reported, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from doorward.records import replace
from doorward.rego.analysis.bindings import names_function
from doorward.rego.analysis.body_order import order_steps
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.dependencies import branches
from doorward.rego.analysis.negation import GENERATED, Negations, is_generated
from doorward.rego.analysis.tree import Definition
from doorward.rego.analysis.variables import ROOTS, term_vars
from doorward.rego.source import Span
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
    TemplateString,
    Term,
    Var,
    With,
    is_ground,
)
from doorward.rego.syntax.walk import Node, rewrite

__all__ = ["definition_in_steps", "is_step", "query_in_steps", "rule_in_steps"]

_CLOSURES: Final = (ArrayComprehension, SetComprehension, ObjectComprehension)


def rule_in_steps(rule: Rule, callees: Callees) -> Rule:
    """`rule` without its `else`, in steps; what its head computes is computed by its body."""
    steps = _Steps(callees, {"eq", "equal", "assign"})
    head, after = rule.head, list[Expr]()
    args = None if head.args is None else tuple([steps.result(arg, after) for arg in head.args])
    places = tuple([steps.result(arg, after) for arg in head.ref.args])
    key = None if head.key is None else steps.result(head.key, after)
    value = None if head.value is None else steps.result(head.value, after)
    new = replace(head, ref=replace(head.ref, args=places), args=args, key=key, value=value)
    bound = {var.name for arg in args or () for var in term_vars(arg)}
    # As it was written: OPA puts it in order when operands are expressions of their own.
    text = sorted(rule.body, key=lambda expr: expr.span.start)
    body = steps.ordered((*steps.body(text), *after), bound)
    if body is None:
        return replace(rule, else_rule=None)
    return replace(rule, head=new, body=body, else_rule=None)


def definition_in_steps(definition: Definition, callees: Callees) -> Definition:
    """`definition` with its rule and its `else` branches in steps."""
    chain: Rule | None = None
    for branch in reversed(list(branches(definition.rule))):
        chain = replace(rule_in_steps(branch, callees), else_rule=chain)
    assert chain is not None
    operands = chain.head.ref.args
    return replace(definition, rule=chain, tail=operands[len(operands) - len(definition.tail) :])


def query_in_steps(body: Body, callees: Callees) -> Body:
    """A query's body in steps: `is_step` tells which of its expressions were added."""
    steps = _Steps(callees, {"eq", "assign"})
    result = steps.ordered(steps.body(body), set())
    if result is None:
        return body
    spans = [expr.span for expr in result if not is_step(expr)]
    return result if spans == [expr.span for expr in body] else body


def is_step(expr: Expr) -> bool:
    """Return True if an expression computes an operand of another one."""
    term = expr.term
    if expr.negated or not (isinstance(term, Call) and term.name == "eq"):
        return False
    local, value = term.args[0], term.args[-1]
    # What was `f(x) = 3` compares such a variable, too, but has a span of its own.
    return isinstance(local, Var) and is_generated(local.name) and value.span == expr.span


class _Steps:
    """Takes expressions apart. `equalities`: the calls that take references as they are."""

    def __init__(self, callees: Callees, equalities: set[str]) -> None:
        self.callees = callees
        self.equalities = equalities
        self.count = 0

    def ordered(self, body: Body, bound: set[str]) -> Body | None:
        """`body`, whose calls are taken apart, in order and in steps; None if there is no order."""
        negations = Negations(in_query="equal" not in self.equalities, prefix="__negated")
        result = order_steps(body, bound, self.callees, negations)
        return None if result is None else self.spread(result)

    def _bind(self, term: Term, out: list[Expr]) -> Var:
        local = Var(f"__step{self.count}{GENERATED}", term.span)
        self.count += 1
        out.append(_equation(local, term, term.span))
        return local

    # Calls

    def body(self, body: Sequence[Expr]) -> Body:
        return tuple([step for expr in body for step in self._expr(expr)])

    def result(self, term: Term, out: list[Expr]) -> Term:
        """`term` without anything to evaluate in it: that is in `out`."""
        lifted = self._lift(term, out)
        return self._bind(lifted, out) if _is_evaluated(lifted) else lifted

    def _expr(self, expr: Expr) -> list[Expr]:
        first: list[Expr] = []
        withs = tuple([self._with(item, first) for item in expr.withs])
        before, references = list[Expr](), dict[str, Term]()
        for each in expr.before:
            assert isinstance(each.term, Call)
            local, value = each.term.args
            if isinstance(local, Var) and isinstance(value, (Ref, Var)):
                references[local.name] = value
            else:
                before += self._expr(each)
        # OPA reads the references of what is negated when the body is in order: they bind nothing.
        term = rewrite(expr.term, partial(_value, references)) if references else expr.term
        match term:
            case SomeDecl():
                return []
            case SomeIn(_, _, domain):
                term = replace(term, domain=self._lift(domain, before))
            case Every(_, _, domain, body):
                over = self.result(domain, before)
                term = replace(term, domain=over, body=self.body(body))
            case Not(body):
                term = replace(term, body=self.body(body))
            case And(left, right) | Or(left, right):
                term = replace(term, left=self.body(left), right=self.body(right))
            case Call() if _is_print(term):
                pass
            case Call(_, args):
                term = replace(term, args=tuple([self._lift(arg, before) for arg in args]))
            case _:
                term = self._lift(term, before)
        steps = [replace(step, withs=withs) for step in before]
        return [*first, *steps, replace(expr, term=term, withs=withs, before=())]

    def _with(self, item: With, out: list[Expr]) -> With:
        if names_function(item, self.callees.arity):
            return item
        return replace(item, value=self.result(item.value, out))

    def _lift(self, term: Term, out: list[Expr]) -> Term:
        """`term` with the results of the calls in it."""
        if is_ground(term):
            return term
        match term:
            case Call(_, args):
                return self._bind(
                    replace(term, args=tuple([self._lift(arg, out) for arg in args])), out
                )
            case TemplateString():
                return self._bind(term, out)
            case Ref(head, args):
                inner = self._lift(head, out)
                args = tuple([self._lift(arg, out) for arg in args])
                if not isinstance(inner, (Var, Scalar)):
                    inner = self._bind(inner, out)
                return replace(term, head=inner, args=args)
            case Array(items) | Set(items):
                return replace(term, items=tuple([self._lift(item, out) for item in items]))
            case Object(items):
                pairs = [(self._lift(key, out), self._lift(item, out)) for key, item in items]
                return replace(term, items=tuple(pairs))
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                after: list[Expr] = []
                lifted = self.result(inner, after)
                return replace(term, term=lifted, body=(*self.body(body), *after))
            case ObjectComprehension(key, value, body):
                after = []
                heads = self.result(key, after), self.result(value, after)
                return replace(term, key=heads[0], value=heads[1], body=(*self.body(body), *after))
        return term

    # References and comprehensions

    def spread(self, body: Sequence[Expr]) -> Body:
        return tuple([step for expr in body for step in self._spread(expr)])

    def _spread(self, expr: Expr) -> list[Expr]:
        before = [step for each in expr.before for step in self._spread(each)]
        term = expr.term
        match term:
            case SomeIn(_, _, domain):
                term = replace(term, domain=self._outermost(domain, before))
            case Every(_, _, _, body):
                term = replace(term, body=self.spread(body))
            case Not(body):
                term = replace(term, body=self.spread(body))
            case And(left, right) | Or(left, right):
                term = replace(term, left=self.spread(left), right=self.spread(right))
            case Call() if _is_print(term):
                pass
            case Call(_, args):
                whole = term.name in self.equalities and len(args) == 2
                read = self._outermost if whole else self._read
                term = replace(term, args=tuple([read(arg, before) for arg in args]))
            case SomeDecl():
                pass
            case _:
                term = self._outermost(term, before)
        steps = [replace(step, withs=expr.withs) for step in before]
        return [*steps, replace(expr, term=term, before=())]

    def _outermost(self, term: Term, out: list[Expr]) -> Term:
        match term:
            case Ref(_, args) | Call(_, args):
                return replace(term, args=tuple([self._read(arg, out) for arg in args]))
            case ArrayComprehension(_, body) | SetComprehension(_, body):
                return replace(term, body=self.spread(body))
            case ObjectComprehension(_, _, body):
                return replace(term, body=self.spread(body))
            case Var():
                return term
        return self._read(term, out)

    def _read(self, term: Term, out: list[Expr]) -> Term:
        if is_ground(term):
            return term
        match term:
            case Ref() | ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return self._bind(self._outermost(term, out), out)
            case Var(name) if name in ROOTS:
                return self._bind(term, out)
            case Array(items) | Set(items):
                return replace(term, items=tuple([self._read(item, out) for item in items]))
            case Object(items):
                pairs = [(self._read(key, out), self._read(item, out)) for key, item in items]
                return replace(term, items=tuple(pairs))
            case TemplateString(parts):
                inside = [part if isinstance(part, str) else self._part(part) for part in parts]
                return replace(term, parts=tuple(inside))
        return term

    def _part(self, part: Expr) -> Expr:
        """An expression of a template string: a body of its own, the steps of which come first."""
        *steps, last = self.spread(self._expr(part))
        return replace(last, before=tuple(steps))


def _value(references: Mapping[str, Term], node: Node) -> Node:
    """Return the reference that `node` stands for, if it is a variable for one of `references`."""
    return references.get(node.name, node) if isinstance(node, Var) else node


def _equation(left: Term, right: Term, span: Span) -> Expr:
    return Expr(Call(Ref(Var("eq", span), (), span), (left, right), span), span=span)


def _is_print(term: Call) -> bool:
    """Return True if `term` takes operands that are undefined."""
    return term.name == "print" and not term.infix


def _is_evaluated(term: Term) -> bool:
    if is_ground(term):
        return False
    match term:
        case Var(name):
            return name in ROOTS
        case Array(items) | Set(items):
            return any(map(_is_evaluated, items))
        case Object(items):
            return any(_is_evaluated(part) for pair in items for part in pair)
    return isinstance(term, (Ref, *_CLOSURES))
