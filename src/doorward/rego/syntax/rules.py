"""Rules: heads, bodies, `else`, and the queries that are short rules (`p := 1`).

A rule is read as a `Draft`, which remembers how it was written until the demands of v1 are
checked.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from doorward.rego.errors import PARSE_ERROR, Diagnostic
from doorward.rego.source import Source, Span
from doorward.rego.syntax.cursor import KEYWORDS, MAX_LINKS, V1_KEYWORDS, TooDeep
from doorward.rego.syntax.imports import ImportParser
from doorward.rego.syntax.lexer import EOF, IDENT, WHITESPACE
from doorward.rego.syntax.nodes import (
    And,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Not,
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
)
from doorward.rego.syntax.terms import value_name
from doorward.rego.syntax.walk import Node, children, walk
from doorward.rego.values import operand_text

__all__ = ["Draft", "RuleParser", "check_v1"]

_BINARY: Final = frozenset({"+", "-", "*", "/", "%", "&", "|", "==", "!=", ">", ">=", "<", "<="})
_CLOSURES: Final = (ArrayComprehension, SetComprehension, ObjectComprehension)


@dataclass(slots=True)
class Draft:
    """A rule being read, with what only the checks of v1 want to know."""

    head: Head
    span: Span
    body: Body = ()
    default: bool = False
    keyed: bool = False
    """The head's last operand is a key, so that no `else` may follow."""
    has_if: bool = False
    has_contains: bool = False
    wrote_body: bool = True
    wrote_value: bool = True
    elses: list[Draft] = field(default_factory=list)

    def build(self) -> Rule:
        following: Rule | None = None
        for draft in reversed([self, *self.elses]):
            following = Rule(draft.head, draft.body, draft.default, following, draft.span)
        assert following is not None
        return following


class RuleParser(ImportParser):
    """The productions of rules. Each returns None after noting an error."""

    def __init__(self, source: Source, *, v0: bool, builtins: Container[str] = ()) -> None:
        super().__init__(source, v0=v0)
        self.builtins = builtins

    def parse_rules(self) -> list[Draft] | None:
        """rules = [ "default" ] head [ [ "if" ] body { else } { "{" body "}" } ]"""
        start = self.token.start
        self.take_ref_keyword()
        default = self.kind == "default"
        if default:
            self.scan()
            self.take_ref_keyword()
        if self.kind != IDENT:
            return None
        draft = self._parse_head(default=default)
        if draft is None:
            return None
        if default:
            if not self._check_default(draft, self.since(start)):
                return None
            draft.span = self.since(start)
            return [draft]
        draft.has_if = self.kind == "if"
        self._sort_out_key(draft)
        if draft.has_if:
            self.scan()
            body = self._parse_if_body()
        elif self.kind == "{":
            self.scan()
            body = self._parse_braced_body()
        elif draft.has_contains:
            draft.wrote_body = False
            draft.span = draft.head.span
            return [draft]
        else:
            return None
        if body is None:
            return None
        draft.body = body
        has_else = self.kind == "else" and not self.take_ref_keyword()
        if has_else and not self._parse_elses(draft):
            return None
        draft.span = self.since(start)
        return self._parse_more_bodies(draft)

    def _sort_out_key(self, draft: Draft) -> None:
        """`p[x]` is a partial set without `if`, a single value with it."""
        head = draft.head
        if draft.has_contains:
            draft.keyed = True
        elif head.args is None and len(head.ref.args) == 1:
            key = head.ref.args[0]
            if draft.has_if:
                draft.keyed = not _is_ground(key)
                return
            draft.keyed = True
            if head.value is None:
                draft.head = replace(head, ref=replace(head.ref, args=()), key=key)

    def _parse_if_body(self) -> Body | None:
        state = self.save()
        expr = self.parse_literal()
        # A set is always true, so `if { x }` can only mean a body.
        if expr is not None and not isinstance(expr.term, Set):
            return (expr,)
        self.restore(state)
        self.scan()
        return self._parse_braced_body()

    def _parse_braced_body(self) -> Body | None:
        body = self.parse_body("}")
        if body is not None:
            self.scan()
        return body

    def _parse_more_bodies(self, draft: Draft) -> list[Draft] | None:
        drafts = [draft]
        while self.kind == "{":
            if draft.elses:
                self.error("expected else keyword")
                return None
            start = self.token.start
            self.scan()
            body = self._parse_braced_body()
            if body is None:
                return None
            head = replace(self._with_own_wildcards(draft.head), span=self.since(start))
            drafts.append(replace(draft, head=head, body=body, span=self.since(start)))
        return drafts

    def _with_own_wildcards(self, head: Head) -> Head:
        if not head.args:
            return head
        args = tuple(
            Var(self.wildcard(), a.span) if isinstance(a, Var) and a.is_wildcard else a
            for a in head.args
        )
        return replace(head, args=args)

    def _parse_elses(self, draft: Draft) -> bool:
        """else = "else" [ ( ":=" | "=" ) term-infix ] [ "if" ] [ body ]"""
        if not all(_is_ground(a) for a in draft.head.ref.args):
            self.error("else keyword cannot be used on rules with variables in head")
            return False
        if draft.keyed:
            self.error("else keyword cannot be used on multi-value rules")
            return False
        starts = []
        while self.kind == "else":
            starts.append(self.token.start)
            following = self._parse_else(draft.head)
            if following is None:
                return False
            draft.elses.append(following)
            if len(draft.elses) > MAX_LINKS:
                self.error(f"more than {MAX_LINKS} else branches follow each other")
                raise TooDeep(self.errors)
        for start, following in zip(starts, draft.elses, strict=True):
            following.span = self.since(start)
        return True

    def _parse_else(self, first: Head) -> Draft | None:
        start = self.token.start
        head = replace(self._with_own_wildcards(first), value=None)
        draft = Draft(head, self.here())
        self.scan()
        if self.kind in (":=", "="):
            assign = self.kind == ":="
            self.scan()
            value = self.parse_infix()
            if value is None:
                return None
            head = replace(head, value=value, assign=assign)
        elif self.kind in ("{", "if"):
            draft.wrote_value = False
        else:
            self.illegal("expected else value term or rule body")
            return None
        draft.head = replace(head, span=self.since(start))
        if self.kind in ("{", "if"):
            if not self._parse_else_body(draft):
                return None
        else:
            draft.wrote_body = False
        return draft

    def _parse_else_body(self, draft: Draft) -> bool:
        if self.kind == "if":
            draft.has_if = True
            self.scan()
        if self.kind == "{":
            self.scan()
            body = self._parse_braced_body()
            if body is None:
                return False
            draft.body = body
            return True
        if self.kind == EOF:
            self.illegal("rule body expected")
            return False
        expr = self.parse_literal()
        if expr is None:
            return False
        draft.body = (expr,)
        return True

    def _parse_head(self, *, default: bool) -> Draft | None:
        """head = ref [ "(" [ terms ] ")" ] [ "contains" term-infix | ( ":=" | "=" ) term-infix ]"""
        start = self.token.start
        term = self._parse_head_name()
        if term is None:
            self.illegal("expected rule head name")
            return None
        head = self._head_of(term)
        if head is None:
            # `f().a` is read once more, as an expression.
            if not isinstance(term, Set) and (default or not isinstance(term, Ref)):
                self.error(f"rule head ref {term.span.text} invalid", term.span)
            return None
        draft = Draft(head, self.here(), default=default)
        name = head.ref.span.text
        if self.kind == "contains":
            draft.has_contains = True
            if head.args is not None:
                self.illegal(
                    "the contains keyword can only be used with multi-value rule definitions "
                    f"(e.g., {name} contains <VALUE> {{ ... }})"
                )
            self.scan()
            key = self.parse_infix()
            if key is None:
                self.illegal(f"expected rule key term (e.g., {name} contains <VALUE> {{ ... }})")
            head = replace(head, key=key)
        elif self.kind in (":=", "="):
            assign = self.kind == ":="
            self.scan()
            value = self.parse_infix()
            if value is None:
                self.illegal(_expected_value(name, head, assign=assign, default=default))
            head = replace(head, value=value, assign=assign)
        if head.value is None and head.key is None:
            draft.wrote_value = len(head.ref.args) == 1 and not head.args
        draft.head = replace(head, span=self.since(start))
        return draft

    def _parse_head_name(self) -> Term | None:
        start = self.token.start
        name = self.parse_var()
        self.scan_blank()
        if self.kind in _BINARY:
            self.illegal()
        elif self.kind == WHITESPACE:
            self.scan()
        if self.kind in ("(", ".", "["):
            return self.parse_ref(name, start)
        return name

    def _head_of(self, term: Term) -> Head | None:
        match term:
            case Var():
                return Head(Ref(term, (), term.span), span=term.span)
            case Ref(head=Var()):
                return Head(term, span=term.span)
            case Call(operator=Ref(head=Var())):
                return Head(term.operator, term.args, span=term.span)
            case _:
                return None

    def _check_default(self, draft: Draft, span: Span) -> bool:
        head = draft.head
        if head.value is None and draft.wrote_value:
            self.error("illegal default rule (must have a value)", span)
            return False
        names = () if head.value is None else _names_in(head.value)
        faults = [f"value cannot contain {value_name(t)}" for t in names]
        seen: set[str] = set()
        for arg in head.args or ():
            if not isinstance(arg, Var):
                faults.append(f"arguments cannot contain {value_name(arg)}")
            elif arg.name in seen:
                faults.append(f"arguments cannot be repeated {arg.name}")
            else:
                seen.add(arg.name)
        for fault in faults:
            self.error(f"illegal default rule ({fault})", span)
        return not faults

    # Queries that are rules: `p := 1`, `p.a.b`, `f(x) = y`

    def rule_of_body(self, body: Body) -> tuple[Draft | None, str]:
        """The rule that a query stands for, or why it stands for none."""
        if len(body) != 1:
            return None, "multiple expressions cannot be used for rule head"
        draft, fault = self._rule_of(body[0])
        if draft is not None:
            draft.wrote_body = False
        return draft, fault

    def _rule_of(self, expr: Expr) -> tuple[Draft | None, str]:
        """The rule that an expression stands for, or why it stands for none."""
        if expr.withs:
            return None, "expressions using with keyword cannot be used for rule head"
        if expr.negated:
            return None, "negated expressions cannot be used for rule head"
        match expr.term:
            case SomeDecl() | SomeIn():
                return None, "'some' declarations cannot be used for rule head"
            case Call(args=(_, _)) as call if call.name in ("eq", "assign"):
                return self._rule_of_equation(expr, call)
            case Call() as call:
                return self._rule_of_call(expr, call)
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

    def _rule_of_equation(self, expr: Expr, call: Call) -> tuple[Draft | None, str]:
        left, right = call.args
        head = self._head_of(left) if not (isinstance(left, Call) and left.infix) else None
        if head is None:
            if isinstance(left, Ref):
                return None, f"invalid rule head: {_text(left)}"
            return None, f"{value_name(left)} cannot be used for rule name"
        head = replace(head, value=right, assign=call.name == "assign", span=expr.span)
        return Draft(head, expr.span), ""

    def _rule_of_call(self, expr: Expr, call: Call) -> tuple[Draft | None, str]:
        if call.infix or call.name in self.builtins:
            return None, "rule name conflicts with built-in function"
        if not call.args:
            return None, "rule argument list must take at least one argument"
        if not isinstance(call.operator.head, Var):
            return None, f"invalid rule head: {call.operator.span.text}"
        return Draft(Head(call.operator, call.args, span=expr.span), expr.span), ""


def check_v1(draft: Draft) -> Iterator[Diagnostic]:
    """What v1 demands of a rule that the grammar alone would let pass."""
    head = draft.head
    kind = "rule" if not head.args else "function"
    name = head.ref.span.text
    faults = []
    if not head.ref.args and name in KEYWORDS | V1_KEYWORDS:
        faults.append(f"{name} keyword cannot be used for rule name")
    if not draft.wrote_body and not draft.wrote_value and head.key is None:
        faults.append(f"{kind} must have value assignment and/or body declaration")
    if draft.wrote_body and not draft.has_if and not draft.default:
        faults.append(f"`if` keyword is required before {kind} body")
    if head.key is not None and not draft.has_contains:
        faults.append("`contains` keyword is required for partial set rules")
    return (Diagnostic(PARSE_ERROR, fault, draft.span) for fault in faults)


def _expected_value(name: str, head: Head, *, assign: bool, default: bool) -> str:
    if not assign:
        return f"expected rule value term (e.g., {name}[<nil>] = <VALUE> {{ ... }})"
    if head.args:
        return f"expected function value term (e.g., {name}(...) := <VALUE> {{ ... }})"
    if default:
        return f"expected default rule value term (e.g., default {name} := <VALUE>)"
    return f"expected rule value term (e.g., {name} := <VALUE> {{ ... }})"


def _text(ref: Ref) -> str:
    """A reference as OPA prints it, its operands at least."""
    operands = [
        operand_text(a.value) if isinstance(a, Scalar) else f"[{a.span.text}]" for a in ref.args
    ]
    return ref.head.span.text + "".join(operands)


def _is_ground(term: Term) -> bool:
    return not any(isinstance(node, Var) for node in walk(term))


def _names_in(node: Node) -> Iterator[Term]:
    """The variables, references and calls in a term, not looking into them or comprehensions."""
    if isinstance(node, Var | Ref | Call):
        yield node
    elif not isinstance(node, _CLOSURES):
        for child in children(node):
            yield from _names_in(child)
