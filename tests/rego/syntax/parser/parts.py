"""Stand-ins for the parts of the grammar that a test does not need: terms and bodies of names."""

from __future__ import annotations

from doorward.rego.source import Source
from doorward.rego.syntax.lexer import IDENT, NUMBER
from doorward.rego.syntax.nodes import Body, Expr, Scalar, Term, Var
from doorward.rego.syntax.parser.cursor import Cursor, State

__all__ = ["NameBodies", "NameTerms", "cursor_of", "messages"]


def cursor_of(text: str, *, v0: bool = False) -> Cursor:
    return Cursor(Source("p.rego", text), v0=v0)


def messages(cursor: Cursor) -> list[str]:
    return [error.message for error in cursor.errors]


class NameTerms:
    """Terms that are single names or digits: no operators, no references."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def parse_term(self) -> Term | None:
        token = self.cursor.token
        if token.kind not in (IDENT, NUMBER):
            self.cursor.illegal()
            return None
        self.cursor.scan()
        return Var(token.text) if token.kind == IDENT else Scalar(int(token.text))

    def parse_infix(self, *, key_value: bool = True) -> Term | None:
        return self.parse_term()

    def remember_infix(self, term: Term, before: State) -> None:
        """Nothing is kept."""

    def continue_infix(self, first: Term, start: int, *, key_value: bool = True) -> Term:
        return first

    def parse_list(self, end: str, items: list[Term]) -> list[Term] | None:
        while self.cursor.kind != end:
            term = self.parse_term()
            if term is None:
                return None
            items.append(term)
            if self.cursor.kind == ",":
                self.cursor.scan()
        return items


class NameBodies:
    """Bodies of names that follow each other."""

    def __init__(self, cursor: Cursor) -> None:
        self.terms = NameTerms(cursor)

    def parse_body(self, end: str) -> Body | None:
        exprs = []
        while self.terms.cursor.kind != end:
            expr = self.parse_literal()
            if expr is None:
                return None
            exprs.append(expr)
        return tuple(exprs)

    def parse_literal(self) -> Expr | None:
        term = self.terms.parse_term()
        return None if term is None else Expr(term)

    def forget(self) -> None:
        """Nothing is kept."""
