"""Terms: scalars, names, references, calls, operators, composite values, template strings.

Bodies inside terms (comprehensions, template strings) are read by the class on top of this one.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Final, TypeGuard

from doorward.rego.errors import Diagnostic
from doorward.rego.numbers import parse_number
from doorward.rego.source import Source, Span
from doorward.rego.syntax.cursor import Cursor, State
from doorward.rego.syntax.lexer import (
    END,
    IDENT,
    ILLEGAL,
    NUMBER,
    PART,
    RAW_END,
    RAW_PART,
    STRING,
    Token,
)
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Ref,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
)

__all__ = ["AFTER_TERM", "LOGICAL", "TermParser", "is_variable", "value_name"]

_OPERATORS: Final = {
    "==": ("equal", 1),
    "!=": ("neq", 1),
    "<": ("lt", 1),
    ">": ("gt", 1),
    "<=": ("lte", 1),
    ">=": ("gte", 1),
    "|": ("or", 2),
    "&": ("and", 3),
    "+": ("plus", 4),
    "-": ("minus", 4),
    "*": ("mul", 5),
    "/": ("div", 5),
    "%": ("rem", 5),
}
_RELATION: Final = 1
_TIGHTEST: Final = 5
LOGICAL: Final = frozenset({"and", "or"})
AFTER_TERM: Final = frozenset({*_OPERATORS, ":=", "=", "in", ".", "[", ","})
"""What shows that a term goes on."""
_FAR_TOO_BIG: Final = re.compile(r"[eE][+-]?\d{10}")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_REF_HEADS: Final = (Scalar, TemplateString)
_CHEAP: Final = (Scalar, Var)
"""Terms that are read again faster than they are remembered."""


def value_name(term: Term) -> str:
    """What OPA's texts call the kind of a term."""
    match term:
        case Scalar(value=None):
            return "null"
        case Scalar(value=bool()):
            return "boolean"
        case Scalar(value=str()):
            return "string"
        case Scalar():
            return "number"
        case Var(name="input" | "data"):
            return "ref"
        case _:
            return type(term).__name__.lower()


def is_variable(term: Term | None) -> TypeGuard[Var]:
    """Whether the term is a variable and not one of the documents `input` and `data`."""
    return isinstance(term, Var) and term.name not in ("data", "input")


class TermParser(Cursor, ABC):
    """The productions of terms. Each returns None after noting an error."""

    def __init__(self, source: Source, *, v0: bool = False) -> None:
        super().__init__(source, v0=v0)
        self._terms: dict[int, tuple[Term | None, State, tuple[Diagnostic, ...]]] = {}
        """Terms read before, by where they start: going back costs nothing."""
        self._starts: list[int] = []
        """The keys of `_terms`, ascending."""

    def forget(self) -> None:
        """Drop what was kept for going back."""
        self._terms.clear()
        self._starts.clear()

    @abstractmethod
    def parse_body(self, end: str) -> Body | None:
        """body = literal { (";" | newline) literal } end"""

    @abstractmethod
    def parse_literal(self) -> Expr | None:
        """literal = ( some | disjunction ) { with }"""

    # Infix operators

    def parse_infix(self, *, key_value: bool = True) -> Term | None:
        """term-infix = relation { [ "," relation ] "in" relation }

        In lists (`key_value` false) a comma separates items and never belongs to `in`.
        """
        depth = self.depth
        start = self.token.start
        left = self._parse_operators(_RELATION)
        while left is not None:
            call = self._parse_member(left, start, key_value=key_value)
            if call is None:
                break
            left = call
            self.enter()
            if self.kind != "in":
                break
        self.depth = depth
        return left

    def _parse_member(self, left: Term, start: int, *, key_value: bool) -> Call | None:
        if key_value and self.kind == ",":
            state = self.save()
            self.scan()
            middle = self._parse_operators(_RELATION)
            if middle is not None and self.kind == "in":
                operator = self._member("member_3")
                right = self._parse_operators(_RELATION)
                if right is not None:
                    args = (left, middle, right)
                    return Call(operator, args, self.place(left, start), infix=True)
            self.restore(state)
        self.take_ref_keyword()
        if self.kind != "in":
            return None
        operator = self._member("member_2")
        right = self._parse_operators(_RELATION)
        if right is None:
            return None
        return Call(operator, (left, right), self.place(left, start), infix=True)

    def _parse_operators(self, loosest: int) -> Term | None:
        """relation = or { ( "==" | "!=" | "<" | ">" | "<=" | ">=" ) or }
        or = and { "|" and }; and = sum { "&" sum }; sum = product { ( "+" | "-" ) product }
        product = term { ( "*" | "/" | "%" ) term }
        """
        start = self.token.start
        left = self.parse_term()
        if left is None:
            return None
        depth = self.depth
        tightest = _TIGHTEST
        while (found := _OPERATORS.get(self.kind)) is not None:
            name, level = found
            if not loosest <= level <= tightest:
                break
            operator = self.operator(name)
            right = self.parse_term() if level == _TIGHTEST else self._parse_operators(level + 1)
            if right is None:
                tightest = level - 1
                continue
            left = Call(operator, (left, right), self.place(left, start), infix=True)
            tightest = level
            self.enter()
        self.depth = depth
        return left

    def operator(self, name: str) -> Ref:
        span = self.here()
        self.scan()
        return Ref(Var(name, span), (), span)

    def _member(self, name: str) -> Ref:
        span = self.here()
        self.scan()
        return Ref(Var("internal", span), (Scalar(name, span),), span)

    def place(self, first: Term, start: int) -> Span:
        """A call's place: row and column of its first operand, text from `start` on."""
        span = first.span
        return Span(span.source, start, max(start, self.end), span.row, span.col)

    # Terms

    def parse_term(self) -> Term | None:
        """term = ( scalar | template | var | array | set | object | comprehension
        | "(" term-infix ")" ) { "." name | "[" term-infix "]" | "(" [ terms ] ")" }
        """
        start = self.token.start
        known = self._terms.get(start)
        depth = self.depth
        if known is not None:
            term, after, self.errors = known[0], known[1], list(known[2])
            self.restore(after)
            self.depth = depth
            return term
        self.enter()
        if self.kind == "-" and self._next_is_name():
            term = self._parse_minus()
        else:
            term = self._parse_operand()
            if term is not None:
                term = self._parse_suffix(term, start)
        self.depth = depth
        if not isinstance(term, _CHEAP):
            self._remember(start, term)
        return term

    def _remember(self, start: int, term: Term | None) -> None:
        # What was read inside this term is of no more use, and would be wrong if the term is read
        # again as something else (`{` may begin a set or a body).
        known, starts = self._terms, self._starts
        while starts and starts[-1] >= start:
            del known[starts.pop()]
        starts.append(start)
        known[start] = (term, self.save(), tuple(self.errors))

    def _next_is_name(self) -> bool:
        following = self.lexer.after(self.token.end)
        return following.kind == IDENT and following.text not in self.keywords

    def _parse_minus(self) -> Term | None:
        """minus = "-" term, where the term starts with a name; it means `0 - term`."""
        start = self.token.start
        zero = Scalar(0, self.lexer.span(start, start))
        operator = self.operator("minus")
        term = self.parse_term()
        if term is None:
            return None
        return Call(operator, (zero, term), self.since(start), infix=True)

    def _parse_operand(self) -> Term | None:
        kind = self.kind
        if kind in (IDENT, "contains") or (kind in LOGICAL and self.peek_tight() == "("):
            return self.parse_var()
        if kind == STRING:
            return self._parse_string()
        if kind in (NUMBER, "-", "."):
            return self._parse_number()
        if kind == "[":
            return self._parse_array()
        if kind == "{":
            return self._parse_braces()
        if kind == "(":
            return self._parse_parentheses()
        if kind in ("true", "false", "null"):
            return Scalar({"true": True, "false": False, "null": None}[kind], self.here())
        if kind in (PART, END, RAW_PART, RAW_END):
            return self._parse_template()
        self.illegal()
        return None

    def parse_var(self) -> Var:
        name = self.token.text
        if name == "_":
            return Var(self.wildcard(), self.here())
        return Var(name, self.here())

    def wildcard(self) -> str:
        """A name for the next `_`."""
        name = f"${self.wildcards}"
        self.wildcards += 1
        return name

    def _parse_parentheses(self) -> Term | None:
        start = self.token.start
        self.scan()
        term = self.parse_infix()
        if term is None:
            return None
        if self.kind != ")":
            self.error("non-terminated expression")
            return None
        return replace(term, span=replace(term.span, start=start, end=self.token.end))

    def _parse_number(self) -> Scalar | None:
        start = self.token.start
        prefix = ""
        for mark, wanted in (("-", (NUMBER, ".")), (".", (NUMBER,))):
            if self.kind == mark:
                prefix += mark
                self.scan()
                if self.kind not in wanted:
                    self.illegal("expected number")
                    return None
        text = self.token.text
        if not prefix.endswith(".") and text[0] == "0" and text[1:2] not in ("", ".", "e", "E"):
            self.illegal("expected number without leading zero")
            return None
        try:
            value = parse_number(prefix + text)
        except ValueError:
            if _FAR_TOO_BIG.search(text):
                self.illegal("invalid float")
            else:
                self.error("number too big")
            return None
        return Scalar(value, self.lexer.span(start, self.token.end))

    def _parse_string(self) -> Scalar | None:
        text = self.token.text
        if text[0] == "`":
            return Scalar(text[1:-1], self.here(), raw=True)
        if "\\" not in text:
            return Scalar(text[1:-1], self.here())
        value = _unescape(text)
        if value is None:
            self.error(f"illegal string literal: {text}")
            return None
        return Scalar(value, self.here())

    def _parse_template(self) -> TemplateString | None:
        """template = "$" ( '"' | "`" ) { text | "{" literal "}" } ( '"' | "`" )"""
        start = self.token.start
        raw = self.kind in (RAW_PART, RAW_END)
        if self.v0:
            self.error("template strings are not supported by current capabilities")
            return None
        parts: list[str | Expr] = []
        self.enter()
        while True:
            text = self._template_text(self.token, raw=raw)
            if text is None:
                return None
            if text:
                parts.append(text)
            if self.kind in (END, RAW_END):
                break
            self.scan()
            expr = self._parse_template_expr()
            if expr is None:
                return None
            parts.append(expr)
            self.end = self.token.end
            self._to(self.lexer.template_rest(self.token.end, raw=raw))
            if self.kind == ILLEGAL:
                self.error("expected template-string part")
                return None
        return TemplateString(tuple(parts), self.through(start), multi_line=raw)

    def _template_text(self, token: Token, *, raw: bool) -> str | None:
        text = token.text
        if raw or "\\" not in text:
            return text
        value = _unescape(f'"{text}"')
        if value is None:
            literal = self.source.text[token.start : token.end].removeprefix("$")
            self.error(f"illegal template-string part: {literal}")
        return value

    def _parse_template_expr(self) -> Expr | None:
        expr = self.parse_literal()
        if expr is None:
            self.error("invalid template-string expression")
            return None
        fault = _template_fault(expr)
        if fault:
            self.error(f"unexpected {fault} in template-string expression", expr.span)
            return None
        if self.kind != "}":
            self.error("expected } to end template string expression")
            return None
        return expr

    # References and calls

    def _parse_suffix(self, head: Term, start: int) -> Term | None:
        if self.scan_tight() and self.kind in ("(", ".", "["):
            return self.parse_ref(head, start)
        return head

    def parse_ref(self, head: Term, start: int) -> Term | None:
        """ref = head { "." name | "[" term-infix "]" } [ call ]"""
        if isinstance(head, _NOT_REF_HEADS):
            self.error(f"illegal ref (head cannot be {value_name(head)})", head.span)
        args: list[Term] = []
        depth = self.depth
        tight = True
        while tight:
            if self.kind == ".":
                self.scan_blank()
                if self.kind != IDENT and not self.is_ref_keyword(self.kind):
                    self.illegal("expected identifier")
                    return None
                args.append(Scalar(self.token.text, self.here()))
            elif self.kind == "[":
                self.scan()
                term = self.parse_infix()
                if term is None:
                    return None
                if self.kind != "]":
                    self.illegal("expected [")
                    return None
                args.append(term)
            elif self.kind == "(":
                operator = Ref(head, tuple(args), self.place(head, start))
                call = self._parse_call(operator, start)
                if call is None:
                    return None
                if not self.token.space and self.kind in (".", "["):
                    self.enter()
                    head, args = call, []
                    continue
                self.depth = depth
                return call
            else:
                break
            tight = self.scan_tight()
        self.depth = depth
        return Ref(head, tuple(args), self.place(head, start))

    def _parse_call(self, operator: Ref, start: int) -> Term | None:
        """call = "(" [ term-infix { "," term-infix } [ "," ] ] ")" """
        self.scan()
        args = self._parse_list(")", [])
        if args is None:
            return None
        self.scan()
        span = self.place(operator, start)
        if not args and operator.args == () and operator.head == Var("set"):
            return Set((), span)
        return Call(operator, tuple(args), span)

    def _parse_list(self, end: str, items: list[Term]) -> list[Term] | None:
        """terms = [ term-infix { "," term-infix } [ "," ] ] end"""
        while self.kind != end:
            term = self.parse_infix(key_value=False)
            if term is None:
                return None
            items.append(term)
            if not self._next_item(end):
                return None
        return items

    def _next_item(self, end: str) -> bool:
        if self.kind == ",":
            self.scan()
        elif self.kind != end:
            self.illegal(f'expected "," or "{end}"')
            return False
        return True

    # Composite values

    def _parse_array(self) -> Term | None:
        """array = "[" [ "," ] terms "]"; array-comprehension = "[" term "|" body "]" """
        start = self.token.start
        self.scan()
        if self.kind == "]":
            return Array((), self.through(start))
        comprehension = self._skip_comma()
        state = self.save()
        # One term only: `[1 | 1]` is a comprehension, not a union.
        head = self.parse_term()
        if head is None:
            return None
        if self.kind == "|" and comprehension:
            self.scan()
            body = self.parse_body("]")
            if body is not None:
                return ArrayComprehension(head, body, self.through(start))
            if self.kind != ",":
                return None
        self.restore(state)
        items = self._parse_list("]", [])
        return None if items is None else Array(tuple(items), self.through(start))

    def _skip_comma(self) -> bool:
        """A leading comma is let pass, as in OPA; then this is no comprehension."""
        if self.kind != ",":
            return True
        self.scan()
        return False

    def _parse_braces(self) -> Term | None:
        """set = "{" [ "," ] terms "}"; object = "{" [ "," ] pairs "}"
        set-comprehension = "{" term "|" body "}"
        object-comprehension = "{" term-infix ":" term "|" body "}"
        """
        start = self.token.start
        self.scan()
        if self.kind == "}":
            return Object((), self.through(start))
        comprehension = self._skip_comma()
        state = self.save()
        # As for arrays, one term only first: `{a | b}` is a comprehension.
        head = self.parse_term()
        if head is None:
            return None
        if self.kind == "|" and comprehension:
            self.scan()
            body = self.parse_body("}")
            if body is not None:
                return SetComprehension(head, body, self.through(start))
            if self.kind != ",":
                return None
            self.restore(state)
            return self._parse_set(start, [])
        if self.kind not in ("}", ",", ":"):
            self.restore(state)
            head = self.parse_infix(key_value=False)
            assert head is not None, "its first term was read before"
        if self.kind == ":":
            return self._parse_object(start, head, comprehension=comprehension)
        if self.kind in ("}", ","):
            if self.kind == ",":
                self.scan()
            return self._parse_set(start, [head])
        self.illegal("non-terminated set")
        return None

    def _parse_set(self, start: int, items: list[Term]) -> Term | None:
        terms = self._parse_list("}", items)
        return None if terms is None else Set(tuple(terms), self.through(start))

    def _parse_object(self, start: int, key: Term, *, comprehension: bool) -> Term | None:
        self.scan()
        state = self.save()
        value = self.parse_term()
        if value is None:
            return None
        if comprehension and self.kind == "|":
            self.scan()
            body = self.parse_body("}")
            if body is not None:
                return ObjectComprehension(key, value, body, self.through(start))
        elif comprehension and self.kind in ("}", ","):
            pairs = self._parse_pairs(start, (key, value))
            if pairs is None:
                self.restore(state)
                self.illegal("non-terminated object")
            return pairs
        self.restore(state)
        value = self.parse_infix(key_value=False)
        assert value is not None, "its first term was read before"
        if self.kind not in ("}", ","):
            self.illegal("non-terminated object")
            return None
        return self._parse_pairs(start, (key, value))

    def _parse_pairs(self, start: int, first: tuple[Term, Term]) -> Object | None:
        """pairs = [ term-infix ":" term-infix { "," term-infix ":" term-infix } [ "," ] ]"""
        pairs = [first]
        while True:
            if not self._next_item("}"):
                return None
            if self.kind == "}":
                return Object(tuple(pairs), self.through(start))
            key = self.parse_infix(key_value=False)
            if key is None:
                return None
            if self.kind != ":":
                self.illegal('expected ":"')
                return None
            self.scan()
            value = self.parse_infix(key_value=False)
            if value is None:
                return None
            pairs.append((key, value))


def _unescape(literal: str) -> str | None:
    try:
        value = json.loads(literal)
    except ValueError:
        return None
    return _LONE_SURROGATE.sub("\ufffd", value) if "\\u" in literal else value


def _template_fault(expr: Expr) -> str | None:
    match expr.term:
        case Not():
            return "negation ('not')"
        case _ if expr.negated:
            return "negation ('not')"
        case Call(infix=True) if expr.term.name == "eq":
            return "unification ('=')"
        case Call(infix=True) if expr.term.name == "assign":
            return "assignment (':=')"
        case Every():
            return "'every'"
        case SomeDecl() | SomeIn():
            return "'some'"
        case _:
            return None
