"""Queries that are rules: `p := 1`, `p.a.b`, `f(x) = y`."""

from __future__ import annotations

from collections.abc import Container

from doorward.base.records import replace
from doorward.rego.syntax.nodes import (
    And,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Not,
    Or,
    Ref,
    Scalar,
    SomeDecl,
    SomeIn,
    Var,
)
from doorward.rego.syntax.parser.drafts import Draft
from doorward.rego.syntax.parser.heads import head_of
from doorward.rego.syntax.parser.names import value_name
from doorward.rego.values import operand_text

__all__ = ["rule_of_body"]


def rule_of_body(body: Body, builtins: Container[str]) -> tuple[Draft | None, str]:
    """Convert a statement without a body, such as `p := 1`, to the rule it means. Return the rule
    and "", or None and the reason in OPA's words.
    """
    if len(body) != 1:
        return None, "multiple expressions cannot be used for rule head"
    draft, fault = _rule_of(body[0], builtins)
    if draft is not None:
        draft.wrote_body = False
    return draft, fault


def _rule_of(expr: Expr, builtins: Container[str]) -> tuple[Draft | None, str]:
    """Convert an expression that is a whole statement to the rule it means. Return the rule and "",
    or None and the reason in OPA's words.
    """
    if expr.withs:
        return None, "expressions using with keyword cannot be used for rule head"
    if expr.negated:
        return None, "negated expressions cannot be used for rule head"
    match expr.term:
        case SomeDecl() | SomeIn():
            return None, "'some' declarations cannot be used for rule head"
        case Call(args=(_, _)) as call if call.name in ("eq", "assign"):
            return _rule_of_equation(expr, call)
        case Call() as call:
            return _rule_of_call(expr, call, builtins)
        case Var(name="data" | "input"):
            return None, "refs cannot be used for rule head"
        case Ref(head=Var()) as ref:
            head = Head(ref, span=expr.span)
            if len(ref.args) == 1:
                head = replace(head, ref=replace(ref, args=()), key=ref.args[0])
            return Draft(head, expr.span, wrote_value=False), ""
        case Ref() as ref:
            return None, f"invalid rule head: {_text(ref)}"
        case Every() | Not() | And() | Or():
            return None, "expression cannot be used for rule head"
        case term:
            return None, f"{value_name(term)} cannot be used for rule name"


def _rule_of_equation(expr: Expr, call: Call) -> tuple[Draft | None, str]:
    """Convert the statement `name = value` or `name := value` to a rule. Return it and "", or None
    and the reason in OPA's words.
    """
    left, right = call.args
    head = head_of(left) if not (isinstance(left, Call) and left.infix) else None
    if head is None:
        if isinstance(left, Ref):
            return None, f"invalid rule head: {_text(left)}"
        return None, f"{value_name(left)} cannot be used for rule name"
    head = replace(head, value=right, assign=call.name == "assign", span=expr.span)
    return Draft(head, expr.span), ""


def _rule_of_call(expr: Expr, call: Call, builtins: Container[str]) -> tuple[Draft | None, str]:
    """Convert the statement `f(x)` to a function whose value is true. Return it and "", or None and
    the reason in OPA's words.
    """
    if call.infix or call.name in builtins:
        return None, "rule name conflicts with built-in function"
    if not call.args:
        return None, "rule argument list must take at least one argument"
    if not isinstance(call.operator.head, Var):
        return None, f"invalid rule head: {call.operator.span.text}"
    return Draft(Head(call.operator, call.args, span=expr.span), expr.span), ""


def _text(ref: Ref) -> str:
    """Return a reference as OPA prints it in errors: constants as `.name` or in brackets, other
    operands as written.
    """
    operands = [
        operand_text(a.value) if isinstance(a, Scalar) else f"[{a.span.text}]" for a in ref.args
    ]
    return ref.head.span.text + "".join(operands)
