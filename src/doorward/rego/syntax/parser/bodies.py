"""Expressions and bodies: what is between the braces of a rule or a comprehension."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from doorward.base.records import replace
from doorward.rego.syntax.keywords import LOGICAL
from doorward.rego.syntax.lexer import IDENT
from doorward.rego.syntax.nodes import (
    And,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Or,
    Ref,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.quantifiers import hint_every, parse_every, parse_some
from doorward.rego.syntax.parser.terms import AFTER_TERM, Terms, parse_operator

__all__ = ["Bodies"]

_Operand: TypeAlias = tuple[Body, bool]
"""An operand of `and` or `or`, and True if it is in braces."""

_ONLY_PRINTS: Final = (
    "hint: `print` produces no value and always succeeds, so the operand can never fail;"
    " move it out of the operand, or add an expression that can fail"
)

_NO_WITH: Final = (
    "`with` modifier is not allowed on operand of `{0}` (hint: Wrap the operand in `(...)` or"
    " `{{...}}` to scope, or move `with` after the `{0}` expression to apply it to the whole"
    " expression)"
)


class Bodies:
    """The grammar productions of bodies and of the expressions in them. Each moves the cursor
    behind what it parsed, and returns None after recording an error at the cursor.
    """

    def __init__(self, cursor: Cursor, terms: Terms) -> None:
        self.cursor = cursor
        self.terms = terms
        self._no_bodies: set[int] = set()
        """Positions of a `{` or `(` that were found not to begin an operand of `and` or `or`."""

    def forget(self) -> None:
        """Drop the results that are kept for backtracking, of bodies and of terms; called after
        each statement, and before a text is parsed with other keywords.
        """
        self.terms.forget()
        self._no_bodies.clear()

    def parse_body(self, end: str) -> Body | None:
        """body = literal { (";" | newline) literal }

        Parses up to the token `end`, where the cursor is then. None after recording an error;
        TooDeep above the limit of nesting.
        """
        cursor = self.cursor
        depth = cursor.depth
        cursor.enter()
        body = self._parse_literals(end)
        cursor.depth = depth
        return body

    def _parse_literals(self, end: str) -> Body | None:
        """literal { (";" | newline) literal }

        Parses up to the token `end`, where the cursor is then. None after recording an error, also
        for an empty body.
        """
        cursor = self.cursor
        if cursor.kind == end:
            cursor.error("found empty body")
            return None
        exprs = []
        while True:
            expr = self.parse_literal()
            if expr is None:
                return None
            exprs.append(expr)
            if cursor.kind == ";":
                cursor.scan()
                continue
            if cursor.kind == end:
                return tuple(exprs)
            if not cursor.token.newline:
                # An error in a right operand is recorded although a term comes back: it is the
                # cause.
                if not cursor.errors:
                    cursor.illegal(f"expected \\n or ; or {end}")
                return None

    def parse_query_part(self) -> Body | None:
        """query = literal { ";" literal }

        The expressions of one line of a query. None after recording an error.
        """
        exprs = []
        while True:
            expr = self.parse_literal()
            if expr is None:
                return None
            exprs.append(expr)
            if self.cursor.kind != ";":
                return tuple(exprs)
            self.cursor.scan()

    def parse_literal(self) -> Expr | None:
        """literal = ( plain | disjunction ) { with }

        One expression of a body; a disjunction where `and` or `or` is a keyword. No `with` is
        parsed after a `some` that only declares names. None after recording an error.
        """
        cursor = self.cursor
        start = cursor.token.start
        if cursor.keywords.isdisjoint(LOGICAL):
            expr = self._parse_plain(start)
        else:
            operand = self._parse_logical(start, ("or", "and"), left=True)
            expr = operand[0][0] if operand is not None else None
        if expr is None or cursor.kind != "with" or isinstance(expr.term, SomeDecl):
            return expr
        withs = self._parse_withs()
        if withs is None:
            return None
        if cursor.kind in LOGICAL and not isinstance(expr.term, And | Or | Every | SomeIn):
            cursor.error(_NO_WITH.format(cursor.kind), withs[0].span)
            return None
        # Those of a group come first: the ones that follow it replace what they put in force.
        return replace(expr, withs=(*expr.withs, *withs), span=cursor.since(start))

    # Logical words, where they are imported

    def _parse_logical(
        self, start: int, operators: tuple[str, ...], *, left: bool
    ) -> _Operand | None:
        """disjunction = conjunction { "or" conjunction }
          conjunction = operand { "and" operand }

        `operators` are the words to read here, the loosest first; `left` is False in a right
        operand. None after recording an error.
        """
        if not operators:
            return self._parse_logical_operand(start, left=left)
        cursor = self.cursor
        first = self._parse_logical(start, operators[1:], left=left)
        name = operators[0]
        node = And if name == "and" else Or
        depth = cursor.depth
        while first is not None and cursor.kind == name:
            cursor.scan()
            second = self._parse_logical(cursor.token.start, operators[1:], left=False)
            if second is None:
                return None
            cursor.enter()
            for body, _ in (first, second):
                self._check_operand(body, name)
            span = cursor.since(start)
            term = node(first[0], second[0], (first[1], second[1]), span)
            first = (Expr(term, span=span),), False
        cursor.depth = depth
        return first

    def _check_operand(self, body: Body, name: str) -> None:
        """Record an error for an operand of `and` or `or` (`name`) that only prints."""
        if all(_prints(expr) for expr in body):
            message = (
                f"operand of `{name}` cannot consist only of calls to `print` ({_ONLY_PRINTS})"
            )
            self.cursor.error(message, body[0].span)

    def _parse_logical_operand(self, start: int, *, left: bool) -> _Operand | None:
        """operand = group | plain | "{" body "}"

        As a `left` operand, a `{` begins a body only if `and` or `or` follows its `}`; otherwise,
        and as a right one if the `}` is followed by an operator or suffix, it is parsed again as a
        set or object. None after recording an error, also for an assignment without braces beside
        `and` or `or`.
        """
        cursor = self.cursor
        # What is not a body is remembered: nested braces would be read twice at each level, in
        # exponential time.
        if cursor.kind == "{" and start not in self._no_bodies:
            state = cursor.save()
            cursor.scan()
            body = self.parse_body("}")
            if body is not None:
                cursor.scan()
                follows = cursor.kind in LOGICAL
                if follows or (not left and cursor.kind not in AFTER_TERM):
                    return body, True
            cursor.restore(state)
            self._no_bodies.add(start)
        expr = self._parse_group_or(self._parse_plain, start, is_operand=not left)
        if expr is None:
            return None
        in_logical = not left or cursor.kind in LOGICAL
        if in_logical and isinstance(expr.term, Call) and expr.term.name == "assign":
            cursor.error("unexpected assignment (':=') outside `{ ... }` in `and` or `or`")
            return None
        return (expr,), False

    def _parse_group_or(
        self, other: Callable[[int], Expr | None], start: int, *, is_operand: bool
    ) -> Expr | None:
        """Parse an expression at offset `start`: a group (see `_parse_group`), or what `other`
        parses if no group begins here. `is_operand`: it is certainly the operand of `not`, `and` or
        `or`. None after recording an error.
        """
        before = len(self.cursor.errors)
        expr = self._parse_group(start, is_operand=is_operand)
        return other(start) if expr is None and len(self.cursor.errors) == before else expr

    def _parse_group(self, start: int, *, is_operand: bool) -> Expr | None:
        """group = "(" disjunction { with } ")"

        Returns the expression, which begins at offset `start`. None, with the cursor back at the
        parenthesis and no error, if it does not enclose `and`, `or`, `not` or, as the operand of
        one of them, `with`; if that is `and` or `or`, also where an operator or suffix follows. It
        begins a term then. None after recording an error if it encloses them and is not closed.
        """
        cursor = self.cursor
        begin = cursor.token.start
        if cursor.kind != "(" or begin in self._no_bodies:
            return None
        if cursor.keywords.isdisjoint(LOGICAL) and not is_operand:
            return None
        state = cursor.save()
        cursor.scan()
        in_braces = cursor.kind == "{"
        expr = self.parse_literal()
        if expr is not None and not isinstance(expr.term, SomeDecl | SomeIn | Every):
            is_logical = isinstance(expr.term, And | Or)
            is_negated = expr.negated or isinstance(expr.term, Not)
            if cursor.kind != ")":
                if is_logical and not expr.withs:
                    cursor.error("expected ) to close parenthesized group")
                    return None
            elif is_logical or is_negated or expr.withs:
                cursor.scan()
                is_operand = (is_operand or cursor.kind in LOGICAL) and not in_braces
                is_whole = is_operand if expr.withs and not is_logical else True
                is_term = is_logical and not cursor.token.newline and cursor.kind in AFTER_TERM
                if is_whole and not is_term:
                    return replace(expr, span=cursor.since(start))
        cursor.restore(state)
        self._no_bodies.add(begin)
        return None

    # Plain expressions

    def _parse_plain(self, start: int) -> Expr | None:
        """plain = some | every | [ "not" ] expr | not

        One expression without `with`. After `not` comes the production `not` where
        `future.keywords.not` is imported, else `expr`. None after recording an error.
        """
        cursor = self.cursor
        if cursor.take_ref_keyword():
            return self._parse_expr_literal(start, negated=False)
        negated = cursor.kind == "not"
        if negated:
            cursor.scan()
            if cursor.dialect.composite_not:
                return self._parse_not(start)
        if cursor.kind in ("some", "every"):
            if negated:
                cursor.illegal(f"illegal negation of '{cursor.kind}'")
                return None
            if cursor.kind == "some":
                return parse_some(cursor, self.terms, self, start)
            return parse_every(cursor, self.terms, self, start)
        return self._parse_expr_literal(start, negated=negated)

    def _parse_not(self, start: int) -> Expr | None:
        """not = "not" ( "{" body "}" | group | expr )

        Parses the operand, after the word `not`, and returns the negation, which begins at offset
        `start`. None after recording an error.
        """
        cursor = self.cursor
        braces = cursor.kind == "{"
        body: Body | None
        if braces:
            cursor.scan()
            body = self.parse_body("}")
            if body is not None:
                cursor.scan()
        else:
            if cursor.kind in ("some", "every") and not cursor.take_ref_keyword():
                cursor.illegal(f"illegal negation of '{cursor.kind}'")
                return None
            begin = cursor.token.start
            other = partial(self._parse_expr_literal, negated=False)
            expr = self._parse_group_or(other, begin, is_operand=True)
            body = None if expr is None else (expr,)
        if body is None:
            return None
        span = cursor.since(start)
        return Expr(Not(body, braces, span), span=span)

    def _parse_expr_literal(self, start: int, *, negated: bool) -> Expr | None:
        """plain = [ "not" ] expr

        The expression after `not` (`negated`) or alone; in v0 an `every` without its import adds a
        hint to the next error. None after recording an error.
        """
        cursor = self.cursor
        state = cursor.save() if cursor.dialect.v0 else None
        term = self._parse_expr()
        if term is None:
            return None
        if state is not None and isinstance(term, Var) and term.name == "every":
            hint_every(cursor, self.terms, self, state)
        return Expr(term, negated, (), cursor.since(start))

    def _parse_expr(self) -> Term | None:
        """expr = term-infix [ ( ":=" | "=" ) term-infix ]

        Returns the term, a call of `assign` or `eq` if there is an operator. None after recording
        an error.
        """
        cursor = self.cursor
        start = cursor.token.start
        left = self.terms.parse_infix()
        if left is None or cursor.kind not in (":=", "="):
            return left
        operator = parse_operator(cursor, "assign" if cursor.kind == ":=" else "eq")
        right = self.terms.parse_infix()
        if right is None:
            return None
        return Call(operator, (left, right), cursor.call_span(left.span, start), infix=True)

    def _parse_withs(self) -> tuple[With, ...] | None:
        """with = "with" target "as" term-infix

        All `with` modifiers that follow each other. None after recording an error; but if only the
        target is not a reference, the error is recorded and that `with` left out.
        """
        cursor, terms = self.cursor, self.terms
        withs: list[With] = []
        while cursor.kind == "with":
            start = cursor.token.start
            cursor.scan()
            if cursor.kind != IDENT:
                cursor.illegal("expected ident")
                return None
            target = terms.parse_term()
            if target is None:
                return None
            if not isinstance(target, Ref | Var):
                cursor.illegal("expected with target path")
            if cursor.kind != "as":
                cursor.illegal("expected as keyword")
                return None
            cursor.scan()
            value = terms.parse_infix()
            if value is None:
                return None
            if isinstance(target, Ref | Var):
                withs.append(With(target, value, cursor.since(start)))
        return tuple(withs)


def _prints(expr: Expr) -> bool:
    """Return True if an expression is a call of `print`, with or without `with`."""
    term = expr.term
    return isinstance(term, Call) and term.name == "print" and not expr.negated
