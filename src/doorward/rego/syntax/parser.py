"""Policies to modules: statements in their order, and the three ways to parse.

The grammar is OPA's, its errors too: an alternative that fails is taken back together with its
errors, and what no production wants is read as a query, which may still be a short rule (`p := 1`).
Nothing here knows what names mean; which names are built-ins' is told by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Final, NamedTuple, TypeVar

from doorward.rego.errors import PARSE_ERROR, Diagnostic, ParseError
from doorward.rego.source import Source, Span
from doorward.rego.syntax.annotations import Statement, annotate, read_annotations
from doorward.rego.syntax.cursor import MAX_QUERY_LINKS, TOO_DEEP, TooDeep
from doorward.rego.syntax.hints import add_hints
from doorward.rego.syntax.lexer import EOF, IDENT, loose_tokens
from doorward.rego.syntax.nodes import (
    And,
    Annotations,
    ArrayComprehension,
    Body,
    Comment,
    Every,
    Expr,
    Import,
    Module,
    Not,
    ObjectComprehension,
    Or,
    Package,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
)
from doorward.rego.syntax.rules import Draft, RuleParser, check_v1

__all__ = [
    "MAX_ERRORS",
    "Parsed",
    "parse_import",
    "parse_module",
    "parse_query",
    "parse_term",
    "parse_what_can_be",
]

MAX_ERRORS: Final = 10
"""How many errors one parse reports."""
MAX_HEAD: Final = 500
"""Characters of a line in which names are looked for."""

_ROOTS: Final = ("data", "future", "input", "rego")
_BINARY: Final = frozenset({"+", "-", "*", "/", "%", "&", "|", "==", "!=", ">", ">=", "<", "<="})
_CLOSURES: Final = (ArrayComprehension, SetComprehension, ObjectComprehension)
_T = TypeVar("_T")

_CONDITION: Final = re.compile(r"(?:else|every|input|data|not|some|with)\b")

# What begins a statement where it stands at the beginning of a line: elsewhere it may be part of
# one, as `else` and the conditions of a body that is not indented.
_STATEMENT: Final = re.compile(
    rf"(?:package|import|default)\b|(?!{_CONDITION.pattern})"
    r"\w+(?:\.\w+|\[[^\]\n]*\])*(?:\([^)\n]*\))?\s*(?::=|=(?!=)|if\b|contains\b|\{)"
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def parse_module(
    source: Source,
    *,
    v0: bool = False,
    annotations: bool = False,
    builtins: Container[str] = (),
) -> Module:
    """The module that a policy text is; ParseError if it is none.

    METADATA comments are read, and refused if wrong, only with `annotations`. `builtins` are the
    names that a rule without a body must not have.
    """
    parser = _ModuleParser(source, v0=v0, builtins=builtins)
    return _guard(lambda: parser.parse_module(annotations=annotations))


def parse_what_can_be(source: Source, *, v0: bool = False, builtins: Container[str] = ()) -> Parsed:
    """What can be read of a policy text. METADATA comments are not."""
    parser = _ModuleParser(source, v0=v0, builtins=builtins)
    try:
        return parser.parse_what_can_be()
    except RecursionError:
        return Parsed(None, (Diagnostic(PARSE_ERROR, TOO_DEEP),), frozenset())


def parse_query(source: Source, *, v0: bool = False) -> Body:
    """The expressions of a query, () for an empty text; ParseError if it is no query."""
    return _guard(lambda: _ModuleParser(source, v0=v0).parse_query())


def parse_import(source: Source, *, v0: bool = False) -> Import:
    """The import that a text is; ParseError if it is none."""
    return _guard(lambda: _ModuleParser(source, v0=v0).parse_lone_import())


def parse_term(source: Source | str) -> Term:
    """The single term that a text is; ParseError if it is none."""
    if isinstance(source, str):
        source = Source("", source)
    body = parse_query(source)
    if len(body) == 1 and not body[0].negated and not body[0].withs:
        term = body[0].term
        if not isinstance(term, SomeDecl | SomeIn | Every | Not | And | Or):
            return term
    span = body[0].span if body else Span(source, 0, 0, 0, 0)
    raise ParseError([Diagnostic(PARSE_ERROR, "expected exactly one term", span)])


class Parsed(NamedTuple):
    """What can be read of a text: the statements that are well-formed, and all errors.

    `module` is None without a package. `lost` are the names that the rest may have defined: what
    is said of them elsewhere may be wrong.
    """

    module: Module | None
    errors: tuple[Diagnostic, ...]
    lost: frozenset[str]


class _ModuleParser(RuleParser):
    """The productions of whole texts."""

    def __init__(self, source: Source, *, v0: bool, builtins: Container[str] = ()) -> None:
        super().__init__(source, v0=v0, builtins=builtins)
        self.packages: list[Package] = []
        self.imports: list[Import] = []
        self.drafts: list[Draft] = []
        self.late: list[Diagnostic] = []
        """Errors of statements that are well-formed but stand in the wrong place."""
        self.statement = 0
        """Where the statement begins that is being read."""
        self.unread: list[Span] = []
        """The first expressions of those that are not rules."""

    def parse_module(self, *, annotations: bool) -> Module:
        """module = package { import | rule }"""
        seen = False
        while self.kind != EOF:
            place = self.here()
            self.statement = place.start
            if not self._parse_statement(place, first=not seen):
                break
            seen = True
            self.forget()
        comments = self.lexer.comment_nodes()
        found: list[Annotations] = []
        if annotations:
            found, faults = read_annotations(comments, parse_term)
            self.errors.extend(faults)
        self._stop(self.errors)
        if not seen:
            self._stop([self._empty()])
        self._stop(self._late_errors())
        return self._module(comments, found)

    def parse_what_can_be(self) -> Parsed:
        """The same, but going on behind a statement that cannot be read."""
        errors: list[Diagnostic] = []
        lost: set[str] = set()
        seen = False
        while self.kind != EOF:
            place = self.here()
            complete = self._try_statement(place, first=not seen)
            seen = True
            self.forget()
            if complete and not self.errors:
                continue
            # Which bracket is open is looked for up to the end of the text.
            few = len(errors) < MAX_ERRORS
            errors += add_hints(self.source, self.errors, place.start if few else None)
            self.errors = []
            if not complete:
                lost |= self._skip(place)
        if not seen:
            errors += add_hints(self.source, [self._empty()])
        errors += add_hints(self.source, self._late_errors(), None)
        lost.update(*(_names(self.source, span) for span in self.unread))
        errors.sort(key=lambda error: error.span.start)
        module = self._module(self.lexer.comment_nodes(), []) if self.packages else None
        return Parsed(module, tuple(errors), frozenset(lost))

    def _try_statement(self, place: Span, *, first: bool) -> bool:
        keywords = self.keywords
        try:
            if self._parse_statement(place, first=first):
                return True
        except TooDeep:
            pass
        self.keywords = keywords
        return False

    def _skip(self, place: Span) -> set[str]:
        """Go to what looks like the next statement; the names that are lost on the way."""
        lost = _names(self.source, place)
        self.depth, self.hints = 0, ()
        first = self.lexer.after(place.start)
        for token in loose_tokens(self.lexer, first):
            if token.start <= place.start or self.source.text[token.start - 1] != "\n":
                continue
            if token.kind == IDENT and _STATEMENT.match(self.source.text, token.start):
                self.end = token.start
                self._to(token)
                return lost
            lost |= _names(self.source, self.lexer.span(token.start, token.end))
        self.end = len(self.source.text)
        self._to(self.lexer.after(self.end))
        return lost

    def _empty(self) -> Diagnostic:
        return Diagnostic(PARSE_ERROR, "empty module", Span(self.source, 0, 0, 0, 0))

    def _late_errors(self) -> list[Diagnostic]:
        if self.v1:
            for draft in self.drafts:
                for part in (draft, *draft.elses):
                    self.late.extend(check_v1(part))
        return self.late

    def _module(self, comments: tuple[Comment, ...], found: list[Annotations]) -> Module:
        rules = [draft.build() for draft in self.drafts]
        if found:
            statements: list[Statement] = [*self.packages, *self.imports, *rules]
            statements.sort(key=lambda s: s.span.start)
            found, rules, faults = annotate(found, statements, rules)
            self._stop(faults)
        return Module(
            self.packages[0],
            tuple(self.imports),
            tuple(rules),
            comments=comments,
            annotations=tuple(found),
            v1=self.v1,
            span=self.lexer.span(0, len(self.source.text)),
        )

    def _stop(self, errors: list[Diagnostic]) -> None:
        if errors:
            raise ParseError(add_hints(self.source, errors[:MAX_ERRORS], self.statement))

    def parse_query(self) -> Body:
        """query = { literal ( ";" | newline ) }"""
        self.max_links = MAX_QUERY_LINKS
        exprs: list[Expr] = []
        other = ""
        while self.kind != EOF:
            other = other or self._parse_other()
            if other and self.kind == EOF:
                break
            body = None if self.errors else self.parse_query_part()
            if body is None:
                break
            exprs.extend(body)
            self.forget()
        self._stop(self.errors)
        if other:
            self._stop([Diagnostic("", f"expected body but got *ast.{other}")])
        return tuple(exprs)

    def parse_lone_import(self) -> Import:
        """import"""
        imported = self.parse_import()
        if imported is None or self.kind != EOF:
            if not self.errors:
                self.illegal("expected import")
            self._stop(self.errors)
        self._stop(self.errors)
        assert imported is not None, "without an error there is one"
        return imported

    def _parse_other(self) -> str:
        """What stands where a query was expected, by the name that OPA has for it."""
        for parse, name in ((self.parse_package, "Package"), (self.parse_import, "Import")):
            state = self.save()
            if parse() is not None:
                return name
            if self.errors:
                break
            self.restore(state)
        return ""

    def _parse_statement(self, place: Span, *, first: bool) -> bool:
        state = self.save()
        package = self.parse_package()
        if package is not None:
            if not first:
                self._misplaced("unexpected package", place)
            self.packages.append(package)
            return True
        if self.errors:
            return False
        self.restore(state)
        imported = self.parse_import()
        if imported is not None:
            if first:
                self._misplaced("package expected", place)
            self.use_import(imported)
            self.imports.append(imported)
            return True
        if self.errors:
            return False
        self.restore(state)
        if first:
            self._misplaced("package expected", place)
        drafts = self.parse_rules()
        if drafts is not None:
            self.drafts.extend(drafts)
            return True
        if self.errors:
            return False
        self.restore(state)
        body = self.parse_query_part()
        if body is None:
            return False
        if not first:
            self._take_body(body)
        return True

    def _take_body(self, body: Body) -> None:
        draft, fault = self.rule_of_body(body)
        if draft is None:
            self._misplaced(fault, body[0].span)
            self.unread.append(body[0].span)
        else:
            self.drafts.append(draft)

    def _misplaced(self, message: str, span: Span) -> None:
        self.late.append(Diagnostic(PARSE_ERROR, message, span))


def _names(source: Source, span: Span) -> set[str]:
    """The names in the first line of a statement, up to its body."""
    start = source.text.rfind("\n", 0, span.start) + 1
    line = source.text[start : start + MAX_HEAD].partition("\n")[0]
    if _CONDITION.match(line):
        return set()
    return set(_NAME.findall(re.split(r"\bif\b|[{=]", line, maxsplit=1)[0]))


def _guard(parse: Callable[[], _T]) -> _T:
    """Run a parse; text that nests too deep for us is an error like any other."""
    try:
        return parse()
    except TooDeep as stop:
        raise ParseError(stop.errors) from None
    except RecursionError:
        # The caller's own stack left less room than the limit counts on.
        raise ParseError([Diagnostic(PARSE_ERROR, TOO_DEEP)]) from None
