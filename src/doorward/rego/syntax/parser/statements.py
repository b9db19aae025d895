"""Whole texts: the statements of a module in their order, and the expressions of a query.

An alternative that fails is taken back together with its errors, and a statement that no production
accepts is parsed as a query, which may still be a short rule (`p := 1`).
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
    """Parses the statements of one module and collects them; `is_empty` is True until the first
    one.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.grammar = Grammar(cursor)
        self.packages: list[Package] = []
        self.imports: list[Import] = []
        self.drafts: list[Draft] = []
        self.is_empty = True
        self.start = 0
        """The offset of the statement that is being parsed."""
        self.unread: list[Span] = []
        """The spans of the first expressions of statements that mean no rule."""
        self.in_place_of_package: Draft | None = None
        """The rule that stands where the package is expected; OPA reads it no further."""
        self._misplaced: list[Diagnostic] = []

    def parse_statement(self) -> bool:
        """statement = package | import | rules | query

        Adds it to the lists of this object; a query that is the first statement is dropped. Returns
        True, also if `late_errors` says that it is in the wrong place or means no rule, or if an
        error is recorded for what an import names. Returns False after recording another error at
        the cursor.
        """
        span = self.cursor.here()
        self.start = span.start
        first, self.is_empty = self.is_empty, False
        complete = self._parse(span, first=first)
        self.grammar.bodies.forget()
        return complete

    def _parse(self, span: Span, *, first: bool) -> bool:
        """Parse one statement at `span`, a package, an import, rules or a query that stands for a
        rule, and add it to its list; an import is also put in force. `first`: only a package is
        allowed; another statement is parsed and, instead of a query being added, recorded as
        misplaced. Return False if nothing could be parsed; the error is then recorded in the
        cursor.
        """
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
            if first:
                self.in_place_of_package = drafts[0]
            return True
        if cursor.errors:
            return False
        cursor.restore(state)
        # The last alternative, since every head without a body is an expression, too.
        body = self.grammar.bodies.parse_query_part()
        if body is None:
            return False
        if not first:
            self._take_query(body)
        return True

    def _take_query(self, body: Body) -> None:
        """Add the rule that a query means as a statement; if it means none, record the reason for
        `late_errors`.
        """
        draft, fault = rule_of_body(body, self.cursor.builtins)
        if draft is None:
            self._misplace(fault, body[0].span)
            self.unread.append(body[0].span)
        else:
            self.drafts.append(draft)

    def _misplace(self, message: str, span: Span) -> None:
        self._misplaced.append(Diagnostic(PARSE_ERROR, message, span))

    def late_errors(self) -> list[Diagnostic]:
        """Return the errors of well-formed statements that are in the wrong place, mean no rule, or
        are forbidden by v1. OPA reports them only if there are no others.
        """
        errors = list(self._misplaced)
        if self.cursor.dialect.v1:
            for draft in self.drafts:
                if draft is not self.in_place_of_package:
                    for part in (draft, *draft.elses):
                        errors.extend(check_v1(part))
        return errors


class QueryText(NamedTuple):
    """The expressions of a query; `other` is OPA's name for a package or import found in it, or
    "".
    """

    exprs: tuple[Expr, ...]
    other: str


def parse_query_text(cursor: Cursor) -> QueryText:
    """query-text = { query } [ package | import ] { query }

    Parses to the end of the text and returns the expressions, with OPA's name for the package or
    import, if there is one; stops after recording an error at the cursor.
    """
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
    """Parse a package or import in place of a query, and return OPA's name for it; "" if there is
    none or it is invalid.
    """
    for parse, name in ((parse_package, "Package"), (parse_import, "Import")):
        state = cursor.save()
        if parse(cursor, grammar.terms) is not None:
            return name
        if cursor.errors:
            break
        cursor.restore(state)
    return ""
