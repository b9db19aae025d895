"""The order in which OPA says what is wrong with calls.

OPA takes a call inside a term out and puts it in front of the expression, before it looks at calls:
inner ones come first, those of a head behind the body. What is in a comprehension stays there, and
is not looked at where the call that it is an operand of is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from doorward.rego.errors import Diagnostic
from doorward.rego.syntax.nodes import (
    And,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Module,
    Not,
    ObjectComprehension,
    Or,
    Rule,
    SetComprehension,
)
from doorward.rego.syntax.walk import Node, children

__all__ = ["in_reported_order"]


def in_reported_order(
    tops: Iterable[Module | Body], wrong: Mapping[int, Sequence[Diagnostic]]
) -> list[Diagnostic]:
    """Return the errors of calls in the order in which OPA reports them; `wrong` has the errors of
    each call by its `id`. Errors inside the comprehensions among the operands of a wrong call are
    left out.
    """
    reporter = _Reporter(wrong)
    for top in tops:
        if isinstance(top, Module):
            for rule in top.rules:
                reporter.rule(rule)
        else:
            reporter.body(top)
    return reporter.errors


class _Reporter:
    """Collects the errors of calls in `errors`, in OPA's order. The comprehensions among the
    operands of a wrong call are not visited.
    """

    def __init__(self, wrong: Mapping[int, Sequence[Diagnostic]]) -> None:
        self.wrong = wrong
        self.errors: list[Diagnostic] = []

    def rule(self, rule: Rule) -> None:
        """Append to `errors` those of the wrong calls of a rule: of its body, then of its head
        (parameters excepted), then of its `else` branches in order.
        """
        self.body(rule.body)
        head = rule.head
        self.terms(*head.ref.args, head.key, head.value)
        if rule.else_rule is not None:
            self.rule(rule.else_rule)

    def body(self, body: Body) -> None:
        for expr in body:
            self.terms(*(modifier.value for modifier in expr.withs), expr.term)

    def terms(self, *nodes: Node | None) -> None:
        """Append to `errors` those of the wrong calls in `nodes` (None is passed over), then those
        in the comprehensions and inner bodies of all of them.
        """
        closures: list[Node] = []
        for node in nodes:
            if node is not None:
                self.operand(node, closures)
        self.inside(closures)

    def operand(self, node: Node, closures: list[Node]) -> None:
        """Append to `errors` those of the wrong calls in `node`, inner ones first. The
        comprehensions and inner bodies in it are appended to `closures`, except those in the
        operands of a call: these are reported after the call, unless the call is wrong.
        """
        match node:
            case Call():
                own: list[Node] = []
                for arg in node.args:
                    self.operand(arg, own)
                errors = self.wrong.get(id(node))
                if errors:
                    self.errors += errors
                else:
                    self.inside(own)
            case Every():
                self.operand(node.domain, closures)
                closures.append(node)
            case Expr():
                self.body((node,))
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                closures.append(node)
            case Not() | And() | Or():
                closures.append(node)
            case _:
                for child in children(node):
                    self.operand(child, closures)

    def inside(self, closures: Iterable[Node]) -> None:
        """Append to `errors` those of the wrong calls in `closures` (comprehensions, `every`,
        `not`, `and` and `or`), the bodies of each before its heads. The domain of an `every` is
        left to the caller.
        """
        for node in closures:
            match node:
                case ArrayComprehension() | SetComprehension():
                    self.body(node.body)
                    self.terms(node.term)
                case ObjectComprehension():
                    self.body(node.body)
                    self.terms(node.key, node.value)
                case Every() | Not():
                    self.body(node.body)
                case _:
                    assert isinstance(node, And | Or)
                    self.body(node.left)
                    self.body(node.right)
