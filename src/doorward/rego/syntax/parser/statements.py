"""Whole texts: the statements of a module in their order, and the expressions of a query.

An alternative that fails is taken back together with its errors, and what no production wants is
read as a query, which may still be a short rule (`p := 1`).
"""

from __future__ import annotations

from typing import NamedTuple

from doorward.rego.errors import PARSE_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.lexer import EOF
from doorward.rego.syntax.nodes import Body, Expr, Import, Package
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.drafts import Draft, check_v1
from doorward.rego.syntax.parser.grammar import Grammar
from doorward.rego.syntax.parser.imports import parse_import, parse_package, use_import
from doorward.rego.syntax.parser.short_rules import rule_of_body

__all__ = ["QueryText", "Statements", "parse_query_text"]


class Statements:
    """Reads the statements of one module and collects them."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.grammar = Grammar(cursor)
        self.packages: list[Package] = []
        self.imports: list[Import] = []
        self.drafts: list[Draft] = []
        self.is_empty = True
        self.start = 0
        """The start of the statement that is being read."""
        self.unread: list[Span] = []
        """The first expressions of statements that are not rules."""
        self._misplaced: list[Diagnostic] = []

    def parse_statement(self) -> bool:
        """statement = package | import | rules | query; False after noting an error"""
        span = self.cursor.here()
        self.start = span.start
        first, self.is_empty = self.is_empty, False
        complete = self._parse(span, first=first)
        self.grammar.bodies.forget()
        return complete

    def _parse(self, span: Span, *, first: bool) -> bool:
        """Parse a statement at `span`; `first` expects the package. False after noting an error."""
        cursor, terms = self.cursor, self.grammar.terms
        state = cursor.save()
        package = parse_package(cursor, terms)
        if package is not None:
            if not first:
                self._misplace("unexpected package", span)
            self.packages.append(package)
            return True
        if cursor.errors:
            return False
        cursor.restore(state)
        imported = parse_import(cursor, terms)
        if imported is not None:
            if first:
                self._misplace("package expected", span)
            use_import(cursor, imported)
            self.imports.append(imported)
            return True
        if cursor.errors:
            return False
        cursor.restore(state)
        if first:
            self._misplace("package expected", span)
        drafts = self.grammar.rules.parse_rules()
        if drafts is not None:
            self.drafts.extend(drafts)
            return True
        if cursor.errors:
            return False
        cursor.restore(state)
        body = self.grammar.bodies.parse_query_part()
        if body is None:
            return False
        if not first:
            self._take_query(body)
        return True

    def _take_query(self, body: Body) -> None:
        """Add the rule that a query means as a statement, or record why it means none."""
        draft, fault = rule_of_body(body, self.cursor.builtins)
        if draft is None:
            self._misplace(fault, body[0].span)
            self.unread.append(body[0].span)
        else:
            self.drafts.append(draft)

    def _misplace(self, message: str, span: Span) -> None:
        self._misplaced.append(Diagnostic(PARSE_ERROR, message, span))

    def late_errors(self) -> list[Diagnostic]:
        """Return the errors of well-formed statements that are in the wrong place or that v1
        forbids.
        """
        errors = list(self._misplaced)
        if self.cursor.dialect.v1:
            for draft in self.drafts:
                for part in (draft, *draft.elses):
                    errors.extend(check_v1(part))
        return errors


class QueryText(NamedTuple):
    """Reads the statements of a query; `other` is OPA's name for a rule or package found there."""

    exprs: tuple[Expr, ...]
    other: str


def parse_query_text(cursor: Cursor) -> QueryText:
    """query-text = { literal ( ";" | newline ) }"""
    grammar = Grammar(cursor)
    exprs: list[Expr] = []
    other = ""
    while cursor.kind != EOF:
        other = other or _parse_other(cursor, grammar)
        if other and cursor.kind == EOF:
            break
        body = None if cursor.errors else grammar.bodies.parse_query_part()
        if body is None:
            break
        exprs.extend(body)
        grammar.bodies.forget()
    return QueryText(tuple(exprs), other)


def _parse_other(cursor: Cursor, grammar: Grammar) -> str:
    """Parse a statement in place of a query, and return OPA's name for it."""
    for parse, name in ((parse_package, "Package"), (parse_import, "Import")):
        state = cursor.save()
        if parse(cursor, grammar.terms) is not None:
            return name
        if cursor.errors:
            break
        cursor.restore(state)
    return ""
