"""Long chains of operators to several expressions: `a + b + … + z` to `l := a + b + …; l + … + z`.

The tree of a chain is as deep as the chain is long, and the passes follow terms by recursion, which
Python bounds. So the first `LINKS` links of a chain that is longer become the value of a variable
in the same body, then the next, until few are left. All expressions of a body must hold, so it
makes no difference where a link is undefined; where it does (`print`, template strings), chains
stay. Nothing else of a tree is changed: a tree without such a chain comes back as itself. Queries,
whose expressions have values that are requested, keep their chains, which the parser bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from doorward.base.records import replace
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Module,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.walk import walk

__all__ = ["LINKS", "split_chains"]

LINKS: Final = 40
"""A chain of operators is split into expressions of at most this many operators."""

_SIGNS: Final = "+-*/%|&=<>"
"""Every operator other than `in` contains one of these characters."""
ExprTerm: TypeAlias = Term | SomeDecl | SomeIn | Every | Not | And | Or


def split_chains(module: Module) -> Module:
    """Return the module with chains of more than `LINKS` operators split, except in operands of
    `print` and in template strings; the same object if there are none.
    """
    rules = tuple([_Shortener().rule(rule) if _is_long(rule) else rule for rule in module.rules])
    changed = any(a is not b for a, b in zip(rules, module.rules, strict=True))
    return replace(module, rules=rules) if changed else module


def _is_long(node: Rule) -> bool:
    """Return True if a chain of operators in `node` is longer than `LINKS`, also one that is not
    split (in `print`). A quick look at the text of its span answers for most rules.
    """
    text = node.span.text
    # A look at the text is a hundredth of a walk through the tree.
    # A chain of n operators has more than 2n characters.
    if len(text) <= 2 * LINKS or sum(map(text.count, _SIGNS)) + text.count("in") <= LINKS:
        return False
    lengths: dict[int, int] = {}
    for node_below in walk(node):
        if isinstance(node_below, Call) and node_below.infix:
            length = lengths.get(id(node_below), 0) + 1
            if length > LINKS:
                return True
            lengths[id(node_below.args[0])] = length
    return False


class _Shortener:
    """Splits the long chains of operators in the terms of one rule; `out` receives the expressions
    that must come first.
    """

    def __init__(self) -> None:
        self.count = 0

    def rule(self, rule: Rule) -> Rule:
        """Return a rule and its `else` branches, each with its long chains of operators split by
        itself.
        """
        rules = [rule]
        while rules[-1].else_rule is not None:
            rules.append(rules[-1].else_rule)
        shortened: Rule | None = None
        for one in reversed(rules):
            shortened = replace(self._alone(one), else_rule=shortened)
        assert shortened is not None
        return shortened

    def _alone(self, rule: Rule) -> Rule:
        """Return one branch of a rule with its long chains of operators split, its `else`
        unchanged; expressions with the links of chains in the head are appended to the body.
        """
        out = list(self.body(rule.body))
        head = rule.head
        ref = replace(head.ref, args=self.terms(head.ref.args, out))
        key = None if head.key is None else self.term(head.key, out)
        value = None if head.value is None else self.term(head.value, out)
        return replace(rule, head=replace(head, ref=ref, key=key, value=value), body=tuple(out))

    def body(self, body: Body) -> Body:
        """Return a body with its chains split: the parts of a chain become expressions before the
        one that contained it.
        """
        out: list[Expr] = []
        for expr in body:
            self.expr(expr, out)
        return tuple(out)

    def expr(self, expr: Expr, out: list[Expr]) -> None:
        """Append an expression with its chains split to `out`, after the expressions that compute
        the parts of the chains.
        """
        withs = tuple([replace(w, value=self.term(w.value, out)) for w in expr.withs])
        before: list[Expr] = []
        term = self.expr_term(expr.term, before)
        out += [replace(item, withs=withs) for item in before]
        out.append(replace(expr, term=term, withs=withs))

    def expr_term(self, term: ExprTerm, out: list[Expr]) -> ExprTerm:
        """Return the term of an expression with its chains of operators split, so that none is
        longer than `LINKS`; the expressions that compute the parts are appended to `out`, those of
        inner bodies added to these. An operand that gets several expressions gets braces.
        """
        match term:
            case SomeDecl():
                return term
            case SomeIn(_, value, domain):
                return replace(term, value=self.term(value, out), domain=self.term(domain, out))
            case Every(_, _, domain, body):
                return replace(term, domain=self.term(domain, out), body=self.body(body))
            case Not(body):
                inside = self.body(body)
                # Without braces `not` takes one expression.
                return replace(term, body=inside, braces=term.braces or len(inside) > len(body))
            case And(left, right) | Or(left, right):
                sides = self.body(left), self.body(right)
                # An operand of several expressions has variables of its own, as in braces.
                longer = [
                    len(new) > len(old) for new, old in zip(sides, (left, right), strict=True)
                ]
                braces = term.braces[0] or longer[0], term.braces[1] or longer[1]
                return replace(term, left=sides[0], right=sides[1], braces=braces)
        return self.term(term, out)

    def terms(self, terms: tuple[Term, ...], out: list[Expr]) -> tuple[Term, ...]:
        return tuple([self.term(term, out) for term in terms])

    def term(self, term: Term, out: list[Expr]) -> Term:
        """Return a term with its chains of operators split, so that none is longer than `LINKS`;
        the expressions for the parts are appended to `out`, those of a comprehension to its body.
        The operands of `print` and template strings are left unchanged.
        """
        match term:
            case Call(infix=True):
                return self.chain(term, out)
            case Call() if term.name == "print":
                return term
            case Call(_, args):
                return replace(term, args=self.terms(args, out))
            case Ref(head, args):
                return replace(term, head=self.term(head, out), args=self.terms(args, out))
            case Array(items) | Set(items):
                return replace(term, items=self.terms(items, out))
            case Object(items):
                pairs = tuple([(self.term(k, out), self.term(v, out)) for k, v in items])
                return replace(term, items=pairs)
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                inside = list(self.body(body))
                inner = self.term(inner, inside)
                return replace(term, term=inner, body=tuple(inside))
            case ObjectComprehension(key, value, body):
                inside = list(self.body(body))
                key, value = self.term(key, inside), self.term(value, inside)
                return replace(term, key=key, value=value, body=tuple(inside))
        return term

    def chain(self, term: Call, out: list[Expr]) -> Term:
        """Return the last part of a chain of operators. After every `LINKS` operators, the value so
        far is assigned to a new variable by an expression in `out`.
        """
        calls = list(_links(term))
        operand = self.term(calls[-1].args[0], out)
        for number, call in enumerate(reversed(calls), start=1):
            operand = replace(call, args=(operand, *self.terms(call.args[1:], out)))
            if number % LINKS == 0 and number < len(calls):
                operand = self._assign_local(operand, out)
        return operand

    def _assign_local(self, term: Call, out: list[Expr]) -> Var:
        """Append `variable := term` to `out`, with a new variable whose name no policy can write,
        and return the variable.
        """
        # No policy can write such a name: its letters are ASCII.
        local = Var(f"λ{self.count}", term.span)
        self.count += 1
        operator = Ref(Var("assign", term.span), (), term.span)
        assign = Call(operator, (local, term), term.span, infix=True)
        out.append(Expr(assign, span=term.span))
        return local


def _links(term: Term) -> Iterator[Call]:
    """Yield `term`, then its left operand, then the left operand of that and so on, as long as each
    is an infix call: the calls of a chain, the last operator's first.
    """
    while isinstance(term, Call) and term.infix:
        yield term
        term = term.args[0]
