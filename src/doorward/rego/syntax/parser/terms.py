"""Terms: operands by the token that begins them, and the operators between them.

A term that was parsed is remembered by its offset until the next statement, so that backtracking
costs nothing. A table (`operands`) has the production that parses an operand for each kind of
token; `grammar` fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from doorward.base.records import replace
from doorward.rego.errors import Diagnostic
from doorward.rego.syntax.keywords import LOGICAL
from doorward.rego.syntax.lexer import IDENT
from doorward.rego.syntax.nodes import Call, Ref, Scalar, Term, Var
from doorward.rego.syntax.parser.cursor import ANY_KEYWORD, MAX_DEPTH, Cursor, State, TooDeep
from doorward.rego.syntax.parser.references import SUFFIXES, parse_ref

__all__ = ["AFTER_TERM", "Operand", "Terms", "parse_operator", "parse_var"]

Operand: TypeAlias = Callable[[], Term | None]
"""Parses the operand that the current token begins; returns None after recording an error."""

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
AFTER_TERM: Final = frozenset({*_OPERATORS, ":=", "=", "in", ".", "[", ","})
"""The kinds of tokens after which a term continues."""
_MEMBERSHIP: Final = ANY_KEYWORD | {","}
"""The kinds of tokens that can begin `in`, or the second item of `k, v in xs`; keywords directly
before `.` or `[` are names.
"""


def parse_var(cursor: Cursor) -> Var:
    """var = name | "_"

    Leaves the cursor at the name. Each `_` gets a name of its own.
    """
    name = cursor.token.text
    return Var(cursor.wildcard() if name == "_" else name, cursor.here())


def parse_operator(cursor: Cursor, name: str) -> Ref:
    """Skip an infix operator; return a reference to the built-in `name` at its position."""
    span = cursor.here()
    cursor.scan()
    return Ref(Var(name, span), (), span)


class Terms:
    """The grammar productions of terms. Each returns None after recording an error at the cursor.
    `operands` has the production for each kind of token that can begin an operand, except names and
    parentheses, which are parsed here.
    """

    def __init__(self, cursor: Cursor, operands: Mapping[str, Operand]) -> None:
        self.cursor = cursor
        self._operands: dict[str, Operand] = {
            **operands,
            IDENT: self._parse_name,
            "contains": self._parse_name,
            "(": self._parse_parentheses,
            **dict.fromkeys(LOGICAL, self._parse_logical_name),
        }
        self._known: dict[int, tuple[Term | None, State, tuple[Diagnostic, ...]]] = {}
        """The terms parsed in this statement, by offset, each with the state and the errors after
        it; None for one that is invalid.
        """
        self._starts: list[int] = []
        """The keys of `_known`, ascending."""
        self._known_infix: tuple[int, int, Term, State] | None = None
        """The last term of `remember_infix`: its offset, the number of wildcards before it, the
        term, and the state after it.
        """

    def add_operand(self, kind: str, parse: Operand) -> None:
        """Set `parse` as the parser of operands that begin with a token of `kind`; it replaces an
        earlier one.
        """
        self._operands[kind] = parse

    def forget(self) -> None:
        """Drop the results that are kept for backtracking."""
        self._known.clear()
        self._starts.clear()
        self._known_infix = None

    # Infix operators

    def parse_infix(self, *, key_value: bool = True) -> Term | None:
        """term-infix = relation { [ "," relation ] "in" relation }

        In lists (`key_value` False) a comma separates items and never belongs to `in`. An error in
        a right operand is recorded, and the term before it returned. None after recording another
        error.
        """
        cursor = self.cursor
        start = cursor.token.start
        known = self._known_infix
        if known is not None and known[:2] == (start, cursor.wildcards):
            depth = cursor.depth
            cursor.restore(known[3])
            cursor.depth = depth
            return known[2]
        left = self._parse_operators(_RELATION)
        if left is None or cursor.kind not in _MEMBERSHIP:
            return left
        return self._parse_memberships(left, start, key_value=key_value)

    def remember_infix(self, term: Term, before: State) -> None:
        """Keep a term-infix for `parse_infix`, which then need not parse it again: it was parsed
        from the state `before` to the present one without an error, and no comma follows.
        """
        self._known_infix = (before[0].start, before[4], term, self.cursor.save())

    def continue_infix(self, first: Term, start: int, *, key_value: bool = True) -> Term:
        """Continue a term-infix whose first term, at offset `start`, is already parsed; return the
        whole, or `first` if no operator follows. `key_value` False: a comma never belongs to `in`.
        An error in a right operand is recorded, and the term before it returned.
        """
        left = self._continue_operators(first, start, _RELATION)
        return self._parse_memberships(left, start, key_value=key_value)

    def _parse_memberships(self, left: Term, start: int, *, key_value: bool) -> Term:
        """{ [ "," relation ] "in" relation }

        Parses what follows the relation `left`, and returns the whole, or `left` if no `in`
        follows. `key_value` False: a comma never belongs to `in`.
        """
        cursor = self.cursor
        depth = cursor.depth
        while (call := self._parse_member(left, start, key_value=key_value)) is not None:
            left = call
            cursor.enter()
            if cursor.kind != "in":
                break
        cursor.depth = depth
        return left

    def _parse_member(self, left: Term, start: int, *, key_value: bool) -> Call | None:
        """[ "," relation ] "in" relation

        None, with the cursor where it was, if no `in` follows or an operand behind a comma has an
        error, which is dropped; None after recording an error in the right operand of `left in`.
        Without `key_value`, a comma is not read.
        """
        cursor = self.cursor
        if key_value and cursor.kind == ",":
            state = cursor.save()
            cursor.scan()
            middle = self._parse_operators(_RELATION)
            if middle is not None and cursor.kind == "in":
                operator = self._member("member_3")
                right = self._parse_operators(_RELATION)
                if right is not None:
                    args = (left, middle, right)
                    return Call(operator, args, cursor.call_span(left.span, start), infix=True)
            cursor.restore(state)
        cursor.take_ref_keyword()
        if cursor.kind != "in":
            return None
        operator = self._member("member_2")
        right = self._parse_operators(_RELATION)
        if right is None:
            return None
        return Call(operator, (left, right), cursor.call_span(left.span, start), infix=True)

    def _member(self, name: str) -> Ref:
        """Move past the keyword `in`, at which the cursor must be, and return a reference to the
        built-in `internal.<name>` with its span.
        """
        span = self.cursor.here()
        self.cursor.scan()
        return Ref(Var("internal", span), (Scalar(name, span),), span)

    def _parse_operators(self, loosest: int) -> Term | None:
        """relation = or { ( "==" | "!=" | "<" | ">" | "<=" | ">=" ) or }
          or = and { "|" and }; and = sum { "&" sum }; sum = product { ( "+" | "-" ) product }
          product = term { ( "*" | "/" | "%" ) term }

        `loosest` is the level of the loosest operators to parse, from 1 (comparisons) to 5 (`*`).
        None after recording an error.
        """
        start = self.cursor.token.start
        left = self.parse_term()
        if left is None or self.cursor.kind not in _OPERATORS:
            return left
        return self._continue_operators(left, start, loosest)

    def _continue_operators(self, left: Term, start: int, loosest: int) -> Term:
        """Parse the operators after `left`, a term that begins at `start`, from the tightest down
        to the level `loosest`; return the whole, or `left` if none follows. An error in a right
        operand is recorded, and the term before it returned. TooDeep above `cursor.max_links`
        operators.
        """
        cursor = self.cursor
        links = 0
        tightest = _TIGHTEST
        while (operator := _OPERATORS.get(cursor.kind)) is not None:
            name, level = operator
            if not loosest <= level <= tightest:
                break
            function = parse_operator(cursor, name)
            right = self.parse_term() if level == _TIGHTEST else self._parse_operators(level + 1)
            if right is None:
                # As OPA's `parseTermArith` and its siblings, which return the left operand: an
                # operator that binds less may still follow.
                tightest = level - 1
                continue
            left = Call(function, (left, right), cursor.call_span(left.span, start), infix=True)
            # What binds more was read with the right operand; behind it only this level or less may
            # follow.
            tightest = level
            links += 1
            if links > cursor.max_links:
                cursor.error(f"more than {cursor.max_links} operators follow each other")
                raise TooDeep(cursor.errors)
        return left

    # Terms

    def parse_term(self) -> Term | None:
        """term = minus | ( scalar | template | var | array | set | object | comprehension
          | "(" term-infix ")" ) { "." name | "[" term-infix "]" | "(" [ terms ] ")" }

        Leaves the cursor after the term. The result is kept by the term's offset, but for scalars
        and variables, so that backtracking does not parse it again. None after recording an error;
        TooDeep above the limit of nesting.
        """
        cursor = self.cursor
        start = cursor.token.start
        depth = cursor.depth
        known = self._known.get(start)
        if known is not None:
            term, after, errors = known
            cursor.restore(after)
            # `restore` only drops errors; those of this term are put back. The depth of the state
            # may be that of another nesting.
            cursor.errors[:] = errors
            cursor.depth = depth
            return term
        # `enter`, written out: every operand is parsed here.
        cursor.depth = depth + 1
        if depth >= MAX_DEPTH:
            cursor.refuse_depth()
        if cursor.kind == "-" and self._next_is_name():
            term = self._parse_minus()
        else:
            parse = self._operands.get(cursor.kind)
            if parse is None:
                cursor.illegal()
                term = None
            else:
                term = parse()
            if term is not None:
                cursor.scan()
                if cursor.kind in SUFFIXES and not cursor.token.space:
                    term = parse_ref(cursor, self, term, start)
        cursor.depth = depth
        kind = type(term)
        # Scalars and variables are read again faster than they are remembered.
        if kind is not Var and kind is not Scalar:
            self._remember(start, term)
        return term

    def _remember(self, start: int, term: Term | None) -> None:
        """Keep the result for the term at offset `start`, and the state after it, for backtracking;
        results for terms that begin inside it are dropped.
        """
        # What was read inside this term is of no more use, and would be wrong if the term is read
        # again as something else (`{` may begin a set or a body).
        known, starts = self._known, self._starts
        while starts and starts[-1] >= start:
            del known[starts.pop()]
        starts.append(start)
        known[start] = (term, self.cursor.save(), tuple(self.cursor.errors))

    def _next_is_name(self) -> bool:
        """Return True if the token after the present one is a name that is not a keyword."""
        following = self.cursor.peek()
        return following.kind == IDENT and following.text not in self.cursor.keywords

    def _parse_minus(self) -> Term | None:
        """minus = "-" term

        For a term that begins with a name; means `0 - term`. None after recording an error.
        """
        cursor = self.cursor
        start = cursor.token.start
        zero = Scalar(0, cursor.lexer.span(start, start))
        operator = parse_operator(cursor, "minus")
        term = self.parse_term()
        if term is None:
            return None
        return Call(operator, (zero, term), cursor.since(start), infix=True)

    def _parse_name(self) -> Var:
        return parse_var(self.cursor)

    def _parse_logical_name(self) -> Var | None:
        """Parse `and` or `or` as the name in a call, `and(…)`, where the words are keywords. None
        after recording an error if no call follows.
        """
        if self.cursor.peek_tight() == "(":
            return parse_var(self.cursor)
        self.cursor.illegal()
        return None

    def _parse_parentheses(self) -> Term | None:
        """ "(" term-infix ")"

        Leaves the cursor at the `)`; the text of the term's span includes the parentheses. None
        after recording an error.
        """
        cursor = self.cursor
        start = cursor.token.start
        cursor.scan()
        term = self.parse_infix()
        if term is None:
            return None
        if cursor.kind != ")":
            cursor.error("non-terminated expression")
            return None
        return replace(term, span=replace(term.span, start=start, end=cursor.token.end))

    # Lists of terms

    def parse_list(self, end: str, items: list[Term]) -> list[Term] | None:
        """terms = [ term-infix { "," term-infix } [ "," ] ]

        Parses up to the token `end`, where the cursor is then; appends to `items` and returns it.
        None after recording an error.
        """
        cursor = self.cursor
        while cursor.kind != end:
            term = self.parse_infix(key_value=False)
            if term is None:
                return None
            items.append(term)
            if cursor.kind == ",":
                cursor.scan()
            elif cursor.kind != end:
                cursor.illegal(f'expected "," or "{end}"')
                return None
        return items
