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

from doorward.base.records import replace
from doorward.rego.analysis.bindings import names_function
from doorward.rego.analysis.body_order import order_steps
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.dependencies import branches
from doorward.rego.analysis.lifting import Lifting
from doorward.rego.analysis.negation import GENERATED, Negations, is_generated
from doorward.rego.analysis.operands import Operands, equation, is_print
from doorward.rego.analysis.tree import Definition
from doorward.rego.analysis.variables import term_vars
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    And,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Or,
    Ref,
    Rule,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.walk import Node, rewrite

__all__ = ["definition_in_steps", "is_step", "query_in_steps", "rule_in_steps"]


def rule_in_steps(rule: Rule, callees: Callees) -> Rule:
    """Return `rule`, without its `else`, with one step of evaluation per expression: calls and
    references inside a term become expressions before it, computed parts of the head become
    expressions of the body. If the steps have no safe order, the rule keeps its body.
    """
    steps = _Steps(callees, {"eq", "equal", "assign"})
    head, after, result = rule.head, list[Expr](), steps.lifting.result
    args = None if head.args is None else tuple([result(arg, after) for arg in head.args])
    places = tuple([result(arg, after) for arg in head.ref.args])
    key = None if head.key is None else result(head.key, after)
    value = None if head.value is None else result(head.value, after)
    new = replace(head, ref=replace(head.ref, args=places), args=args, key=key, value=value)
    bound = {var.name for arg in args or () for var in term_vars(arg)}
    # As it was written: OPA puts it in order when operands are expressions of their own.
    text = sorted(rule.body, key=lambda expr: expr.span.start)
    body = steps.ordered((*steps.body(text), *after), bound)
    if body is None:
        return replace(rule, else_rule=None)
    return replace(rule, head=new, body=body, else_rule=None)


def definition_in_steps(definition: Definition, callees: Callees) -> Definition:
    """Return `definition` with its rule and `else` branches in steps; its `tail` has the operands
    of the new head.
    """
    chain: Rule | None = None
    for branch in reversed(list(branches(definition.rule))):
        chain = replace(rule_in_steps(branch, callees), else_rule=chain)
    assert chain is not None
    operands = chain.head.ref.args
    return replace(definition, rule=chain, tail=operands[len(operands) - len(definition.tail) :])


def query_in_steps(body: Body, callees: Callees) -> Body:
    """Return a query's body with one step of evaluation per expression: calls and references inside
    a term become expressions before it, which `is_step` recognises. The body is returned unchanged
    if the steps have no safe order, or would change the order of its own expressions.
    """
    steps = _Steps(callees, {"eq", "assign"})
    result = steps.ordered(steps.body(body), set())
    if result is None:
        return body
    spans = [expr.span for expr in result if not is_step(expr)]
    # The rows of a query list its expressions in their order, which must not change.
    return result if spans == [expr.span for expr in body] else body


def is_step(expr: Expr) -> bool:
    """Return True if an expression was added to compute an operand of another one: an equation of a
    generated variable with a term that has the span of the whole expression.
    """
    term = expr.term
    if expr.negated or not (isinstance(term, Call) and term.name == "eq"):
        return False
    local, value = term.args[0], term.args[-1]
    # What was `f(x) = 3` compares such a variable, too, but has a span of its own.
    return isinstance(local, Var) and is_generated(local.name) and value.span == expr.span


class _Steps:
    """Splits expressions into steps of evaluation. `equalities`: the names of the calls whose
    operands may be references, such as `eq`.
    """

    def __init__(self, callees: Callees, equalities: set[str]) -> None:
        self.callees = callees
        self.equalities = equalities
        self.count = 0
        self.lifting = Lifting(self)
        self.operands = Operands(equalities, self.local, self._expr)

    def ordered(self, body: Body, bound: set[str]) -> Body | None:
        """Return `body`, whose calls are separate expressions, in safe order, with each reference
        in an operand as an expression before; `bound` are the variables bound before the body. None
        if there is no safe order.
        """
        negations = Negations(in_query="equal" not in self.equalities, prefix="__negated")
        result = order_steps(body, bound, self.callees, negations)
        return None if result is None else self.operands.body(result)

    def local(self, span: Span) -> Var:
        """Return a new variable for the term at `span`."""
        self.count += 1
        return Var(f"__step{self.count - 1}{GENERATED}", span)

    def call(self, call: Call, out: list[Expr]) -> Var:
        """Append an equation of a new variable with the call to `out`; return the variable."""
        return self._bind(call, out)

    def template(self, term: TemplateString, out: list[Expr]) -> Var:
        """Append an equation of a new variable with the template string to `out`, its parts
        unchanged; return the variable.
        """
        return self._bind(term, out)

    def _bind(self, term: Term, out: list[Expr]) -> Var:
        """Append an equation of a new variable with `term` to `out`; return the variable."""
        local = self.local(term.span)
        out.append(equation(local, term, term.span))
        return local

    def body(self, body: Sequence[Expr]) -> Body:
        """Return a body whose calls are separate expressions."""
        out: list[Expr] = []
        self.exprs(body, out)
        return tuple(out)

    def exprs(self, body: Sequence[Expr], out: list[Expr]) -> None:
        """Append the expressions of a body, their calls taken apart, to `out`."""
        for expr in body:
            out += self._expr(expr)

    def _expr(self, expr: Expr) -> list[Expr]:
        """Return the steps of evaluation that `expr` stands for, in OPA's order: calls in the
        values of its `with`, those in its operands, each with a generated variable and under its
        `with`, and last the expression itself, its inner bodies split likewise. References that
        were moved out of a negated expression are put back. [] for `some x`.
        """
        first: list[Expr] = []
        withs = tuple([self._with(item, first) for item in expr.withs])
        before, references = list[Expr](), dict[str, Term]()
        for each in expr.before:
            assert isinstance(each.term, Call)
            local, value = each.term.args
            # A reference that `negation` moved out is put back; calls stay in front.
            if isinstance(local, Var) and isinstance(value, (Ref, Var)):
                references[local.name] = value
            else:
                before += self._expr(each)
        # OPA reads the references of what is negated when the body is in order: they bind nothing.
        term = rewrite(expr.term, partial(_value, references)) if references else expr.term
        match term:
            case SomeDecl():
                return []
            case SomeIn(key, value, domain):
                # The order of OPA's `value = domain[key]`.
                value, domain = self.lifting.terms((value, domain), before)
                key = None if key is None else self.lifting.term(key, before)
                term = replace(term, key=key, value=value, domain=domain)
            case Every(_, _, domain, body):
                over = self.lifting.result(domain, before)
                term = replace(term, domain=over, body=self.body(body))
            case Not(body):
                term = replace(term, body=self.body(body))
            case And(left, right) | Or(left, right):
                term = replace(term, left=self.body(left), right=self.body(right))
            case Call() if is_print(term):
                pass
            case Call(_, args):
                term = replace(term, args=self.lifting.terms(args, before))
            case _:
                term = self.lifting.term(term, before)
        steps = [replace(step, withs=withs) for step in before]
        return [*first, *steps, replace(expr, term=term, withs=withs, before=())]

    def _with(self, item: With, out: list[Expr]) -> With:
        """Append the steps that compute the value of a `with` to `out`, and return the `with` with
        their result, a variable or constant; unchanged, with nothing appended, if its value is the
        name of a function.
        """
        if names_function(item, self.callees.arity):
            return item
        return replace(item, value=self.lifting.result(item.value, out))


def _value(references: Mapping[str, Term], node: Node) -> Node:
    """Return the reference that `node` stands for, if it is a variable for one of `references`;
    otherwise `node`.
    """
    return references.get(node.name, node) if isinstance(node, Var) else node
