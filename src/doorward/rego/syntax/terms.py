"""Terms, expressions and bodies: the part of the grammar that queries and rules share."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from doorward.rego.errors import Diagnostic
from doorward.rego.numbers import parse_number
from doorward.rego.source import Source, Span
from doorward.rego.syntax.cursor import FUTURE_KEYWORDS, Cursor, State
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
    With,
)

__all__ = ["TermParser", "value_name"]

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
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_REF_HEADS: Final = (Scalar, TemplateString)


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


class TermParser(Cursor):
    """The productions below rules. Each returns None after noting an error."""

    def __init__(self, source: Source, *, v0: bool = False) -> None:
        super().__init__(source, v0=v0)
        self._terms: dict[tuple[int, str], tuple[Term | None, State, list[Diagnostic]]] = {}
        """Terms read before, by where they start: going back costs nothing."""

    # Bodies

    def parse_body(self, end: str) -> Body | None:
        """body = literal { (";" | newline) literal } end"""
        depth = self.depth
        self.enter()
        body = self._parse_literals(end)
        self.depth = depth
        return body

    def _parse_literals(self, end: str) -> Body | None:
        if self.kind == end:
            self.error("found empty body")
            return None
        exprs = []
        while True:
            expr = self.parse_literal()
            if expr is None:
                return None
            exprs.append(expr)
            if self.kind == ";":
                self.scan()
                continue
            if self.kind == end:
                return tuple(exprs)
            if not self.token.newline:
                if not self.errors:
                    self.illegal(f"expected \\n or ; or {end}")
                return None

    def parse_query_part(self) -> Body | None:
        """query = literal { ";" literal }"""
        exprs = []
        while True:
            expr = self.parse_literal()
            if expr is None:
                return None
            exprs.append(expr)
            if self.kind != ";":
                return tuple(exprs)
            self.scan()

    def parse_literal(self) -> Expr | None:
        """literal = [ "not" ] ( some | every | expr ) { with }"""
        start = self.token.start
        if self.take_ref_keyword():
            return self._parse_expr_with(start, negated=False)
        negated = self.kind == "not"
        if negated:
            self.scan()
        if self.kind in ("some", "every"):
            if negated:
                self.illegal(f"illegal negation of '{self.kind}'")
                return None
            return self._parse_some(start) if self.kind == "some" else self._parse_every(start)
        return self._parse_expr_with(start, negated=negated)

    def _parse_expr_with(self, start: int, *, negated: bool) -> Expr | None:
        state = self.save()
        term = self._parse_expr()
        if term is None:
            return None
        withs = self._parse_withs()
        if withs is None:
            return None
        if self.v0 and isinstance(term, Var) and term.name == "every":
            self._hint_every(state)
        return Expr(term, negated, withs, self.since(start))

    def _parse_expr(self) -> Term | None:
        """expr = term-infix [ ( ":=" | "=" ) term-infix ]"""
        start = self.token.start
        left = self.parse_infix()
        if left is None or self.kind not in (":=", "="):
            return left
        name = "assign" if self.kind == ":=" else "eq"
        operator = self._operator(name)
        right = self.parse_infix()
        if right is None:
            return None
        return Call(operator, (left, right), self._place(left, start), infix=True)

    def _parse_withs(self) -> tuple[With, ...] | None:
        """with = "with" target "as" term-infix"""
        withs: list[With] = []
        while self.kind == "with":
            start = self.token.start
            self.scan()
            if self.kind != IDENT:
                self.illegal("expected ident")
                return None
            target = self.parse_term()
            if target is None:
                return None
            if not isinstance(target, Ref | Var):
                self.illegal("expected with target path")
            if self.kind != "as":
                self.illegal("expected as keyword")
                return None
            self.scan()
            value = self.parse_infix()
            if value is None:
                return None
            if isinstance(target, Ref | Var):
                withs.append(With(target, value, self.since(start)))
        return tuple(withs)

    def _parse_some(self, start: int) -> Expr | None:
        """some = "some" ( [ term "," ] term "in" term { with } | var { "," var } )"""
        state = self.save()
        self.scan()
        term = self.parse_infix()
        if isinstance(term, Call):
            if not term.infix or not term.name.startswith("internal.member_"):
                self.illegal("expected `x in xs` or `x, y in xs` expression")
                return None
            *key, value, domain = term.args
            span = self.since(start)
            withs = self._parse_withs()
            if withs is None:
                return None
            some = SomeIn(key[0] if key else None, value, domain, span)
            return Expr(some, False, withs, self.since(start))
        self.restore(state)
        if self.v0:
            self._hint_some_in()
        return self._parse_some_names(start)

    def _parse_some_names(self, start: int) -> Expr | None:
        names: list[Var] = []
        while True:
            self.scan()
            if self.kind != IDENT:
                self.illegal("expected var")
                return None
            names.append(self._parse_var())
            self.scan()
            if self.kind != ",":
                break
        span = self.since(start)
        return Expr(SomeDecl(tuple(names), span), span=span)

    def _parse_every(self, start: int) -> Expr | None:
        """every = "every" [ var "," ] var "in" term "{" body "}" { with }"""
        self.scan()
        term = self.parse_infix()
        if term is None:
            return None
        if not (isinstance(term, Call) and term.infix and term.name.startswith("internal.member_")):
            self.illegal("expected `x[, y] in xs { ... }` expression")
            return None
        *keys, value, domain = term.args
        key = keys[0] if keys else None
        if key is not None and not isinstance(key, Var):
            self.illegal("expected key to be a variable")
            return None
        if not isinstance(value, Var):
            self.illegal("expected value to be a variable")
            return None
        if self.kind != "{":
            self.illegal("missing body")
            return None
        self.scan()
        body = self.parse_body("}")
        if body is None:
            return None
        self.scan()
        every = Every(key, value, domain, body, self.since(start))
        withs = self._parse_withs()
        if withs is None:
            return None
        return Expr(every, False, withs, self.since(start))

    # Hints for v0 texts that lack an import

    def _hint_some_in(self) -> None:
        state, keywords, terms = self.save(), self.keywords, self._terms
        self.keywords, self._terms = keywords | FUTURE_KEYWORDS, {}
        self.scan()
        term = self.parse_infix()
        self.keywords, self._terms = keywords, terms
        self.restore(state)
        if isinstance(term, Call) and term.infix and term.name.startswith("internal.member_"):
            self.hint("`import future.keywords.in` for `some x in xs` expressions")

    def _hint_every(self, state: State) -> None:
        now, keywords, terms = self.save(), self.keywords, self._terms
        self.keywords, self._terms = keywords | FUTURE_KEYWORDS, {}
        self.restore(state)
        every = self._parse_every(self.token.start)
        self.keywords, self._terms = keywords, terms
        errors = self.errors[state.errors : now.errors]
        self.restore(now)
        self.errors[state.errors :] = errors
        if every is not None:
            self.hint("`import future.keywords.every` for `every x in xs { ... }` expressions")

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
                    return Call(operator, args, self._place(left, start), infix=True)
            self.restore(state)
        self.take_ref_keyword()
        if self.kind != "in":
            return None
        operator = self._member("member_2")
        right = self._parse_operators(_RELATION)
        if right is None:
            return None
        return Call(operator, (left, right), self._place(left, start), infix=True)

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
            operator = self._operator(name)
            right = self.parse_term() if level == _TIGHTEST else self._parse_operators(level + 1)
            if right is None:
                tightest = level - 1
                continue
            left = Call(operator, (left, right), self._place(left, start), infix=True)
            tightest = level
            self.enter()
        self.depth = depth
        return left

    def _operator(self, name: str) -> Ref:
        span = self.here()
        self.scan()
        return Ref(Var(name, span), (), span)

    def _member(self, name: str) -> Ref:
        span = self.here()
        self.scan()
        return Ref(Var("internal", span), (Scalar(name, span),), span)

    def _place(self, first: Term, start: int) -> Span:
        """A call's place: row and column of its first operand, text from `start` on."""
        return replace(first.span, start=start, end=max(start, self.end))

    # Terms

    def parse_term(self) -> Term | None:
        """term = ( scalar | template | var | array | set | object | comprehension
        | "(" term-infix ")" ) { "." name | "[" term-infix "]" | "(" [ terms ] ")" }
        """
        start = self.token.start
        kind = self.kind
        known = self._terms.get((start, kind))
        if known is not None:
            term, after, errors = known
            depth, count = self.depth, len(self.errors)
            self.restore(after)
            self.depth = depth
            self.errors[count:] = errors
            return term
        depth, count = self.depth, len(self.errors)
        self.enter()
        term = self._parse_operand()
        if term is not None:
            term = self._parse_suffix(term, start)
        self.depth = depth
        self._terms[start, kind] = (term, self.save(), self.errors[count:])
        return term

    def _parse_operand(self) -> Term | None:
        kind = self.kind
        if kind in (IDENT, "contains"):
            return self._parse_var()
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

    def _parse_var(self) -> Var:
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
            return self._parse_ref(head, start)
        return head

    def _parse_ref(self, head: Term, start: int) -> Term | None:
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
                operator = Ref(head, tuple(args), self._place(head, start))
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
        return Ref(head, tuple(args), self._place(head, start))

    def _parse_call(self, operator: Ref, start: int) -> Term | None:
        """call = "(" [ term-infix { "," term-infix } [ "," ] ] ")" """
        self.scan()
        args = self._parse_list(")", [])
        if args is None:
            return None
        self.scan()
        span = self._place(operator, start)
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
            if head is None:
                return None
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
        if value is None:
            return None
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
