"""The entry points of the parser: a module, the valid parts of one, a query, an import, a term.

The grammar and its errors are OPA's. Nothing here knows what names mean; the caller passes the
names of built-ins.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from doorward.rego.errors import PARSE_ERROR, Diagnostic, ParseError
from doorward.rego.source import Source, Span
from doorward.rego.syntax.lexer import EOF, IDENT
from doorward.rego.syntax.nodes import (
    And,
    Annotations,
    Body,
    Comment,
    Every,
    Import,
    Module,
    Not,
    Or,
    Package,
    Rule,
    SomeDecl,
    SomeIn,
    Term,
)
from doorward.rego.syntax.parser.cursor import MAX_QUERY_LINKS, TOO_DEEP, Cursor, TooDeep
from doorward.rego.syntax.parser.grammar import Grammar
from doorward.rego.syntax.parser.imports import parse_import as parse_import_statement
from doorward.rego.syntax.parser.imports import use_import
from doorward.rego.syntax.parser.recovery import names_at, skip_statement
from doorward.rego.syntax.parser.statements import Statements, parse_query_text

__all__ = [
    "MAX_ERRORS",
    "Parsed",
    "parse_import",
    "parse_module",
    "parse_query",
    "parse_term",
    "parse_with_recovery",
]

MAX_ERRORS: Final = 1_000
"""The most errors that one parse reports; further ones are dropped. OPA reports all."""
MAX_BRACKETS: Final = 10
"""An unbalanced bracket is searched for this many errors at most, since each search reads up to the
end of the text.
"""


class Parsed(NamedTuple):
    """The result of parsing with recovery: the well-formed statements, and the errors. `module` is
    None without a package. `lost` are names that the unreadable rest may define, so errors about
    these names elsewhere may be wrong.
    """

    module: Module | None
    errors: tuple[Diagnostic, ...]
    lost: frozenset[str]


def parse_module(
    source: Source,
    *,
    v0: bool = False,
    annotations: bool = False,
    builtins: Container[str] = (),
) -> Module:
    """Parse a policy text. ParseError, with at most `MAX_ERRORS` errors and with hints, if it is
    invalid. METADATA comments are parsed, and refused if invalid, only with `annotations`.
    `builtins` are names that a function without value and body, `f(x)`, must not have.
    """
    with _report_depth():
        cursor = Cursor(source, v0=v0, builtins=builtins)
        statements = Statements(cursor)
        while cursor.kind != EOF and statements.parse_statement():
            pass
        comments = cursor.lexer.comment_nodes()
        notes: list[Annotations] = []
        if annotations and any("METADATA" in comment.text for comment in comments):
            from doorward.rego.syntax.annotations import read_annotations  # and a YAML parser

            notes, faults = read_annotations(comments, parse_term)
            cursor.errors.extend(faults)
        _raise_errors(cursor.errors, source, statements.start)
        if statements.is_empty:
            _raise_errors([_no_statement(source)], source)
        _raise_errors(statements.late_errors(), source, statements.start)
        # The parsers of terms know each other, so that only the collector would free the tokens.
        cursor.lexer.forget_tokens()
        return _module(statements, comments, notes)


def parse_with_recovery(
    source: Source, *, v0: bool = False, builtins: Container[str] = ()
) -> Parsed:
    """Parse a policy, keeping all well-formed statements; never raises for an invalid text.
    METADATA comments are not parsed. At most `MAX_ERRORS` errors are returned. `builtins` are names
    that a function without value and body, `f(x)`, must not have.
    """
    try:
        return _parse_with_recovery(source, v0=v0, builtins=builtins)
    except RecursionError:
        return Parsed(None, (Diagnostic(PARSE_ERROR, TOO_DEEP),), frozenset())


def _parse_with_recovery(source: Source, *, v0: bool, builtins: Container[str]) -> Parsed:
    """Parse every well-formed statement and skip the others; return the statements and the errors
    found first, at most about `MAX_ERRORS`. RecursionError if the text nests deeper than Python's
    stack.
    """
    cursor = Cursor(source, v0=v0, builtins=builtins)
    statements = Statements(cursor)
    errors: list[Diagnostic] = []
    lost: set[str] = set()
    while cursor.kind != EOF:
        start = cursor.token.start
        complete = _try_statement(statements)
        if complete and not cursor.errors:
            continue
        # Each search for a bracket reads up to the end of the text.
        few = len(errors) < MAX_BRACKETS
        first = cursor.errors[: max(MAX_ERRORS - len(errors), 0)]
        errors += _explain(source, first, start if few else None)
        cursor.errors = []
        if not complete:
            lost |= skip_statement(cursor, start)
    if statements.is_empty:
        errors += _explain(source, [_no_statement(source)])
    late = statements.late_errors()[: max(MAX_ERRORS - len(errors), 0)]
    errors += _explain(source, late, None) if late else []
    lost |= names_at(source, statements.unread)
    errors.sort(key=lambda error: error.span.start)
    comments = cursor.lexer.comment_nodes()
    module = _module(statements, comments, []) if statements.packages else None
    return Parsed(module, tuple(errors), frozenset(lost))


def _try_statement(statements: Statements) -> bool:
    """Parse one statement and return True. If it is broken, return False with the keywords as they
    were before it; its errors are recorded at the cursor.
    """
    cursor = statements.cursor
    keywords = cursor.keywords
    try:
        if statements.parse_statement():
            return True
    except TooDeep:
        pass
    # The dialect is as it was: it is changed by an import that was parsed, at its end.
    cursor.keywords = keywords
    statements.grammar.bodies.forget()
    return False


def parse_query(source: Source, *, v0: bool = False, imports: Iterable[Import] = ()) -> Body:
    """Parse a query text to its expressions, () for an empty text. The keywords that `imports`
    name (`future.keywords.and`) are keywords in it. ParseError if it is invalid or has more than
    `MAX_QUERY_LINKS` operators in a row.
    """
    with _report_depth():
        cursor = Cursor(source, v0=v0, max_links=MAX_QUERY_LINKS)
        _use_imports(cursor, imports)
        exprs, other = parse_query_text(cursor)
        _raise_errors(cursor.errors, source)
        if other:
            _raise_errors([Diagnostic("", f"expected body but got *ast.{other}")], source)
        return exprs


def _use_imports(cursor: Cursor, imports: Iterable[Import]) -> None:
    """Put imports of keywords, which are valid, into effect at the beginning of a text."""
    for imported in imports:
        use_import(cursor, imported)
    if cursor.kind == IDENT and cursor.token.text in cursor.keywords:
        cursor.kind = cursor.token.text  # the first token was read before


def parse_import(source: Source, *, v0: bool = False) -> Import:
    """Parse the text of an import, `import data.a as b`; ParseError for other texts, and for an
    unknown keyword or version of Rego.
    """
    with _report_depth():
        cursor = Cursor(source, v0=v0)
        imported = parse_import_statement(cursor, Grammar(cursor).terms)
        # None without an error means only that no import begins here.
        if (imported is None or cursor.kind != EOF) and not cursor.errors:
            cursor.illegal("expected import")
        _raise_errors(cursor.errors, source)
        assert imported is not None, "without an error there is one"
        use_import(cursor, imported)
        _raise_errors(cursor.errors, source)
        return imported


def parse_term(source: Source | str) -> Term:
    """Parse the text of a single term; ParseError for other texts, also for a term with `not` or
    `with`.
    """
    if isinstance(source, str):
        source = Source("", source)
    body = parse_query(source)
    if len(body) == 1 and not body[0].negated and not body[0].withs:
        term = body[0].term
        if not isinstance(term, SomeDecl | SomeIn | Every | Not | And | Or):
            return term
    span = body[0].span if body else Span(source, 0, 0, 0, 0)
    raise ParseError([Diagnostic(PARSE_ERROR, "expected exactly one term", span)])


@contextmanager
def _report_depth() -> Iterator[None]:
    """Return a context manager that turns TooDeep and RecursionError in its body into ParseError;
    other errors pass through.
    """
    try:
        yield
    except TooDeep as stop:
        # The brackets before a text that nests too deeply are many: none is searched.
        raise ParseError(_explain(stop.errors[-1].span.source, [*stop.errors], None)) from None
    except RecursionError:
        # The caller's own stack left less room than the limit counts on.
        raise ParseError([Diagnostic(PARSE_ERROR, TOO_DEEP)]) from None


def _module(
    statements: Statements, comments: tuple[Comment, ...], notes: list[Annotations]
) -> Module:
    """Build the module from its statements. With `notes`, the rules get their annotations;
    ParseError if one does not suit its statement.
    """
    rules = [draft.build() for draft in statements.drafts]
    packages, imports, cursor = statements.packages, statements.imports, statements.cursor
    if notes:
        from doorward.rego.syntax.annotations import annotate

        positions: list[Package | Import | Rule] = [*packages, *imports, *rules]
        positions.sort(key=lambda s: s.span.start)
        notes, rules, faults = annotate(notes, positions, rules)
        _raise_errors(faults, cursor.source, statements.start)
    return Module(
        packages[0],
        tuple(imports),
        tuple(rules),
        comments=comments,
        annotations=tuple(notes),
        v1=cursor.dialect.v1,
        span=cursor.lexer.span(0, len(cursor.source.text)),
    )


def _no_statement(source: Source) -> Diagnostic:
    return Diagnostic(PARSE_ERROR, "empty module", Span(source, 0, 0, 0, 0))


def _explain(
    source: Source, errors: list[Diagnostic], statement: int | None = 0
) -> list[Diagnostic]:
    """Return the errors with hints. `statement`: the offset from which an unbalanced bracket is
    searched, None if it is not. The module of hints is imported only by texts with errors.
    """
    from doorward.rego.syntax.hints import add_hints  # 30 patterns, for texts with errors

    return add_hints(source, errors, statement)


def _raise_errors(errors: list[Diagnostic], source: Source, statement: int = 0) -> None:
    """Raise ParseError with hints if there are `errors`, at most `MAX_ERRORS`; otherwise do
    nothing. Brackets before the offset `statement` count as balanced.
    """
    if errors:
        first, rest = errors[:MAX_BRACKETS], errors[MAX_BRACKETS:MAX_ERRORS]
        raise ParseError(_explain(source, first, statement) + _explain(source, rest, None))
