"""Composite values: arrays, sets, objects, their comprehensions, template strings.

What stands inside (terms, bodies) is read by the classes on top of this one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from doorward.rego.syntax.lexer import END, ILLEGAL, RAW_END, RAW_PART, Token
from doorward.rego.syntax.literals import LiteralParser
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
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
)

__all__ = ["CompositeParser"]


class CompositeParser(LiteralParser, ABC):
    """The productions of composite values. Each returns None after noting an error."""

    @abstractmethod
    def parse_term(self) -> Term | None:
        """A term without infix operators around it."""

    @abstractmethod
    def parse_infix(self, *, key_value: bool = True) -> Term | None:
        """A term with its infix operators."""

    @abstractmethod
    def parse_body(self, end: str) -> Body | None:
        """body = literal { (";" | newline) literal } end"""

    @abstractmethod
    def parse_literal(self) -> Expr | None:
        """literal = ( some | disjunction ) { with }"""

    def parse_array(self) -> Term | None:
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
        items = self.parse_list("]", [])
        return None if items is None else Array(tuple(items), self.through(start))

    def _skip_comma(self) -> bool:
        """A leading comma is let pass, as in OPA; then this is no comprehension."""
        if self.kind != ",":
            return True
        self.scan()
        return False

    def parse_braces(self) -> Term | None:
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
        terms = self.parse_list("}", items)
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

    def parse_list(self, end: str, items: list[Term]) -> list[Term] | None:
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

    # Template strings

    def parse_template(self) -> TemplateString | None:
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
        literal = self.source.text[token.start : token.end].removeprefix("$")
        return self.plain_text(token.text, "template-string part", literal, raw=raw)

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
