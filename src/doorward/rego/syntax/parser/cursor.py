"""The state of a parse: the current token, moves forward and back, and the errors so far.

Each part of the grammar is given the cursor and moves it. `save` returns what `restore` needs to go
back. `dialect` holds what imports turn on; only `imports` changes it. No production is known here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, TypeAlias

from doorward.rego.errors import PARSE_ERROR, Diagnostic
from doorward.rego.source import Source, Span
from doorward.rego.syntax.keywords import FUTURE_KEYWORDS, KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.lexer import IDENT, ILLEGAL, WHITESPACE, Lexer, Token

__all__ = [
    "ANY_KEYWORD",
    "MAX_DEPTH",
    "MAX_LINKS",
    "MAX_QUERY_LINKS",
    "TOO_DEEP",
    "Cursor",
    "Dialect",
    "State",
    "TooDeep",
]

# OPA allows 100,000. Here the parser and most passes recurse, on Python's stack of 1,000 calls.
MAX_DEPTH: Final = 100
"""The most levels of nested terms and bodies; more is a parse error (TooDeep)."""
TOO_DEEP: Final = "max parsing recursion depth exceeded"
MAX_LINKS: Final = 500
"""The most operators that may follow each other, and the most `else` branches of one head; more is
a parse error (TooDeep).
"""
MAX_QUERY_LINKS: Final = 100
"""The most operators that may follow each other in a query, which clients send; more is a parse
error.
"""

ANY_KEYWORD: Final = KEYWORDS | FUTURE_KEYWORDS
"""Every kind of token that is a keyword in some version of the language."""

_NAMES: Final = {
    "+": "plus",
    "-": "minus",
    "*": "mul",
    "/": "div",
    "%": "rem",
    "&": "and",
    "|": "or",
    "=": "eq",
    "==": "equal",
    ":=": "assign",
    "!=": "neq",
    ">": "gt",
    "<": "lt",
    ">=": "gte",
    "<=": "lte",
}

State: TypeAlias = tuple[Token, str, int, int, int, int, tuple[str, ...]]
"""A parser state to come back to: token, kind, end, errors, wildcards, depth, hints."""


class TooDeep(Exception):
    """The text nests deeper, or has longer chains, than allowed; `errors` are those recorded so
    far, this one included.
    """

    def __init__(self, errors: Iterable[Diagnostic]) -> None:
        super().__init__()
        self.errors = tuple(errors)


class Dialect:
    """The version of Rego that is read: as the caller says, and with what imports turned on since.
    `v1`: rules must have the syntax of v1, by default or by `import rego.v1`. `composite_not`:
    `future.keywords.not` is imported, or in v1 `future.keywords`.
    """

    __slots__ = ("composite_not", "v0", "v1")

    def __init__(self, *, v0: bool) -> None:
        self.v0 = v0
        self.v1 = not v0
        self.composite_not = False


class Cursor:
    """The current token (`token`, and its `kind`, which is the word itself for a keyword) and the
    moves through a source. `end` is the end of the previous token. `builtins` are the names that a
    statement `f(x)` alone must not have; `max_links` is how many operators may follow each other.
    `errors` are those recorded so far.
    """

    __slots__ = (
        "builtins",
        "depth",
        "dialect",
        "end",
        "errors",
        "hints",
        "keywords",
        "kind",
        "lexer",
        "max_links",
        "ref_keywords",
        "source",
        "token",
        "wildcards",
    )

    token: Token
    kind: str

    def __init__(
        self,
        source: Source,
        *,
        v0: bool = False,
        builtins: Container[str] = (),
        max_links: int = MAX_LINKS,
    ) -> None:
        self.source = source
        self.lexer = Lexer(source)
        self.dialect = Dialect(v0=v0)
        self.builtins = builtins
        self.max_links = max_links
        self.keywords = KEYWORDS if v0 else KEYWORDS | V1_KEYWORDS
        self.ref_keywords = self.keywords
        self.errors: list[Diagnostic] = []
        self.hints: tuple[str, ...] = ()
        self.wildcards = 0
        self.depth = 0
        self.end = 0
        self.move_to(self.lexer.first())

    # Moves

    def move_to(self, token: Token) -> None:
        """Make `token` the current one and append its lexical errors to `errors`; `kind` becomes
        the token's, or the word itself if it is a keyword of the dialect. `end` is not changed.
        """
        self.token = token
        kind = token.kind
        if kind == IDENT and token.text in self.keywords:
            kind = token.text
        self.kind = kind
        if token.faults:
            for fault in token.faults:
                self.error(fault)

    def scan(self) -> None:
        """Move to the next token, and append its lexical errors to `errors`: `token` and `kind`
        become that one's, the word itself being the kind of a keyword. `end` becomes the end of the
        token that was left, unless that was white space.
        """
        # Behind a blank of `scan_blank`, `end` is the end of the token before it already.
        if self.kind != WHITESPACE:
            self.end = self.token.end
        # `after` and `move_to`, written out: this is what a parse does most.
        end = self.end
        token = self.lexer.tokens.get(end)
        if token is None:
            token = self.lexer.read(end)
        self.token = token
        kind = token.kind
        if kind == IDENT and token.text in self.keywords:
            kind = token.text
        self.kind = kind
        if token.faults:
            for fault in token.faults:
                self.error(fault)

    def scan_tight(self) -> bool:
        """Move to the next token; return True if no blank separates it from the previous one."""
        self.scan()
        return not self.token.space

    def scan_blank(self) -> None:
        """Move to the next token or, if a blank precedes it, to that blank as a token."""
        token = self.token
        self.end = token.end
        following = self.lexer.after(token.end)
        self.move_to(self.lexer.blank(token.end) if following.space else following)

    def peek(self) -> Token:
        """Return the token after the current one, without a move."""
        return self.lexer.after(self.token.end)

    def peek_tight(self) -> str:
        """Return the kind of the next token, `whitespace` if a blank precedes it, without a
        move.
        """
        following = self.peek()
        return WHITESPACE if following.space else following.kind

    def save(self) -> State:
        """Return the present state for `restore`: the token, the nesting depth, the hints that
        wait, and the numbers of errors and wildcards so far.
        """
        return (
            self.token,
            self.kind,
            self.end,
            len(self.errors),
            self.wildcards,
            self.depth,
            self.hints,
        )

    def restore(self, state: State) -> None:
        """Go back to a saved position; errors and hints recorded since are dropped. Keywords and
        the dialect stay as they are now.
        """
        self.token, self.kind, self.end, errors, self.wildcards, self.depth, self.hints = state
        # By length: errors are only appended, so those before the state are still the same.
        del self.errors[errors:]

    # Spans

    def here(self) -> Span:
        """Return the span of the current token."""
        token = self.token
        return self.lexer.span(token.start, token.end)

    def since(self, start: int) -> Span:
        """Return the span from offset `start` to the end of the previous token."""
        return self.lexer.span(start, max(start, self.end))

    def through(self, start: int) -> Span:
        """Return the span from offset `start` to the end of the current token."""
        return self.lexer.span(start, self.token.end)

    def call_span(self, first: Span, start: int) -> Span:
        """Return a call's span: row and column of its first operand, text from `start` to the end
        of the previous token.
        """
        return Span(first.source, start, max(start, self.end), first.row, first.col)

    # Errors

    def error(self, message: str, span: Span | None = None) -> None:
        """Append an error to `errors`, at the current token or at `span`. The hints in `hints` are
        added to its message and dropped.
        """
        if self.hints:
            word = "hint" if len(self.hints) == 1 else "hints"
            message += f" ({word}: {', '.join(self.hints)})"
            self.hints = ()
        self.errors.append(Diagnostic(PARSE_ERROR, message, self.here() if span is None else span))

    def illegal(self, note: str = "") -> None:
        """Record OPA's error that the current token is unexpected: `unexpected } token: NOTE`, or
        `unexpected if keyword: NOTE`. For an invalid token it is `illegal token`, without the note.
        """
        if self.kind == ILLEGAL:
            self.error("illegal token")
            return
        name = _NAMES.get(self.kind, self.kind)
        message = f"unexpected {name} {'keyword' if self.kind in ANY_KEYWORD else 'token'}"
        self.error(f"{message}: {note}" if note else message)

    def hint(self, text: str) -> None:
        """Add `text` to the hints that the next error shows."""
        self.hints = (*self.hints, text)

    def enter(self) -> None:
        """Increase the nesting depth; the caller restores it. TooDeep, with the error recorded,
        above `MAX_DEPTH`.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse_depth()

    def refuse_depth(self) -> NoReturn:
        """Record the error that the text nests too deeply, and raise TooDeep."""
        self.error(TOO_DEEP)
        raise TooDeep(self.errors)

    # Names

    def wildcard(self) -> str:
        """Return a new name for `_`: `$0`, `$1`, …."""
        name = f"${self.wildcards}"
        self.wildcards += 1
        return name

    def is_ref_keyword(self, kind: str) -> bool:
        """Return True if the token is a keyword that may serve as a name inside a reference."""
        return kind in self.ref_keywords or kind in self.keywords

    def take_ref_keyword(self) -> bool:
        """If the current token is a keyword directly followed by `.` or `[`, as in `if.x`, make it
        a name and return True; False otherwise.
        """
        kind = self.kind
        if kind in ANY_KEYWORD and self.is_ref_keyword(kind) and self.peek_tight() in (".", "["):
            self.kind = IDENT
            return True
        return False

    @contextmanager
    def with_keywords(self, keywords: frozenset[str]) -> Iterator[None]:
        """Return a context manager in whose body these keywords apply."""
        before = self.keywords
        self.keywords = keywords
        try:
            yield
        finally:
            self.keywords = before
