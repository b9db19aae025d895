"""Where the parser stands: the current token, going on, going back, and what went wrong so far.

Everything that going back must restore is in `State`. Productions live elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from doorward.rego.errors import PARSE_ERROR, Diagnostic
from doorward.rego.source import Source, Span
from doorward.rego.syntax.lexer import IDENT, ILLEGAL, WHITESPACE, Lexer, Token

__all__ = [
    "FUTURE_KEYWORDS",
    "KEYWORDS",
    "MAX_DEPTH",
    "MAX_LINKS",
    "MAX_QUERY_LINKS",
    "TOO_DEEP",
    "V1_KEYWORDS",
    "Cursor",
    "State",
    "TooDeep",
]

MAX_DEPTH: Final = 100
"""How deep terms and bodies may nest; deeper is a parse error."""
TOO_DEEP: Final = "max parsing recursion depth exceeded"
MAX_LINKS: Final = 500
"""How many operators may follow each other, and how many `else` one head."""
MAX_QUERY_LINKS: Final = 100
"""How many operators may follow each other in a query."""

KEYWORDS: Final = frozenset(
    {"as", "default", "else", "false", "import", "not", "null", "package", "some", "true", "with"}
)
V1_KEYWORDS: Final = frozenset({"contains", "every", "if", "in"})
FUTURE_KEYWORDS: Final = V1_KEYWORDS | {"and", "not", "or"}

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


class TooDeep(Exception):
    """The text nests deeper than allowed."""

    def __init__(self, errors: Iterable[Diagnostic]) -> None:
        super().__init__()
        self.errors = tuple(errors)


class State(NamedTuple):
    """A place to come back to."""

    token: Token
    kind: str
    end: int
    errors: int
    wildcards: int
    depth: int
    hints: tuple[str, ...]


class Cursor:
    """The current token (`token`, `kind`) and the moves over a source."""

    def __init__(self, source: Source, *, v0: bool = False) -> None:
        self.source = source
        self.lexer = Lexer(source)
        self.v0 = v0
        self.keywords = KEYWORDS if v0 else KEYWORDS | V1_KEYWORDS
        self.ref_keywords = self.keywords
        self.errors: list[Diagnostic] = []
        self.hints: tuple[str, ...] = ()
        self.wildcards = 0
        self.depth = 0
        self.max_links = MAX_LINKS
        self.end = 0
        """Where the token before the current one ended."""
        self._to(self.lexer.first())

    # Moves

    def _to(self, token: Token) -> None:
        self.token = token
        kind = token.kind
        if kind == IDENT and token.text in self.keywords:
            kind = token.text
        self.kind = kind
        if token.faults:
            for fault in token.faults:
                self.error(fault)

    def scan(self) -> None:
        """Go to the next token."""
        token = self.token
        if self.kind != WHITESPACE:
            self.end = token.end
            self._to(self.lexer.after(token.end))
        else:
            self._to(self.lexer.after(self.end))

    def scan_tight(self) -> bool:
        """Go to the next token; whether no blank stood before it."""
        self.scan()
        return not self.token.space

    def scan_blank(self) -> None:
        """Go to the next token, or to the blank if one stands before it."""
        token = self.token
        self.end = token.end
        following = self.lexer.after(token.end)
        self._to(self.lexer.blank(token.end) if following.space else following)

    def peek_tight(self) -> str:
        """The kind of the token that follows without a blank, else `whitespace`."""
        following = self.lexer.after(self.token.end)
        return WHITESPACE if following.space else following.kind

    def save(self) -> State:
        return State(
            self.token,
            self.kind,
            self.end,
            len(self.errors),
            self.wildcards,
            self.depth,
            self.hints,
        )

    def restore(self, state: State) -> None:
        self.token = state.token
        self.kind = state.kind
        self.end = state.end
        self.wildcards = state.wildcards
        self.depth = state.depth
        self.hints = state.hints
        del self.errors[state.errors :]

    # Places

    def here(self) -> Span:
        """The current token's span."""
        return self.lexer.span(self.token.start, self.token.end)

    def since(self, start: int) -> Span:
        """From offset `start` to the end of the last token passed."""
        return self.lexer.span(start, max(start, self.end))

    def through(self, start: int) -> Span:
        """From offset `start` to the end of the current token."""
        return self.lexer.span(start, self.token.end)

    # Errors

    def error(self, message: str, span: Span | None = None) -> None:
        """Note an error, at the current token if no other place is given."""
        if self.hints:
            word = "hint" if len(self.hints) == 1 else "hints"
            message += f" ({word}: {', '.join(self.hints)})"
            self.hints = ()
        self.errors.append(Diagnostic(PARSE_ERROR, message, self.here() if span is None else span))

    def illegal(self, note: str = "") -> None:
        """The current token cannot stand here."""
        if self.kind == ILLEGAL:
            self.error("illegal token")
            return
        name = _NAMES.get(self.kind, self.kind)
        is_keyword = self.kind in KEYWORDS or self.kind in FUTURE_KEYWORDS
        message = f"unexpected {name} {'keyword' if is_keyword else 'token'}"
        self.error(f"{message}: {note}" if note else message)

    def hint(self, text: str) -> None:
        """Say `text` along with the next error."""
        self.hints = (*self.hints, text)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.error(TOO_DEEP)
            raise TooDeep(self.errors)

    # Keywords as names

    def is_ref_keyword(self, kind: str) -> bool:
        """Whether the token is a keyword that may stand as a name inside a reference."""
        return kind in self.ref_keywords or kind in self.keywords

    def take_ref_keyword(self) -> bool:
        """Read a keyword with `.` or `[` right behind it as a name: `if.x`, `contains[0]`."""
        if self.is_ref_keyword(self.kind) and self.peek_tight() in (".", "["):
            self.kind = IDENT
            return True
        return False
