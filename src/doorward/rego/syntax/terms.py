"""Terms: names, references, calls, operators; what was read once is not read again.

Bodies inside terms (comprehensions, template strings) are read by the class on top of this one.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import Final, TypeGuard

from doorward.rego.errors import Diagnostic
from doorward.rego.source import Source, Span
from doorward.rego.syntax.composites import CompositeParser
from doorward.rego.syntax.cursor import State, TooDeep
from doorward.rego.syntax.lexer import (
    END,
    IDENT,
    NUMBER,
    PART,
    RAW_END,
    RAW_PART,
    STRING,
)
from doorward.rego.syntax.nodes import (
    Call,
    Ref,
    Scalar,
    Set,
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


class TermParser(CompositeParser, ABC):
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
        links = 0
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
            links += 1
            if links > self.max_links:
                self.error(f"more than {self.max_links} operators follow each other")
                raise TooDeep(self.errors)
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
            return self.parse_string()
        if kind in (NUMBER, "-", "."):
            return self.parse_number()
        if kind == "[":
            return self.parse_array()
        if kind == "{":
            return self.parse_braces()
        if kind == "(":
            return self._parse_parentheses()
        if kind in ("true", "false", "null"):
            return Scalar({"true": True, "false": False, "null": None}[kind], self.here())
        if kind in (PART, END, RAW_PART, RAW_END):
            return self.parse_template()
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
        args = self.parse_list(")", [])
        if args is None:
            return None
        self.scan()
        span = self.place(operator, start)
        if not args and operator.args == () and operator.head == Var("set"):
            return Set((), span)
        return Call(operator, tuple(args), span)
