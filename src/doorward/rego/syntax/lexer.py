"""Text to tokens, one at a time and only when asked, by offset.

A token is what starts after the gap (blanks, comments) behind an offset; asking again for the same
offset gives the same token, so that a parser can go back for free. What follows a `}` is either
ordinary text or the rest of a template string: only the parser knows, so it says which one it
wants. Keywords are the parser's business too (imports change them): here they are identifiers.
Lexical faults ride on the token as texts and count only if the token is really reached.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from doorward.base.records import record
from doorward.rego.source import Source, Span
from doorward.rego.syntax.nodes import Comment

__all__ = [
    "BRACKETS",
    "EOF",
    "IDENT",
    "ILLEGAL",
    "NUMBER",
    "STRING",
    "WHITESPACE",
    "Lexer",
    "Token",
    "loose_tokens",
]

EOF: Final = "eof"
IDENT: Final = "identifier"
ILLEGAL: Final = "illegal"
NUMBER: Final = "number"
STRING: Final = "string"
WHITESPACE: Final = "whitespace"
PART: Final = "template-string-part"
END: Final = "template-string-end"
RAW_PART: Final = "raw-template-string-part"
RAW_END: Final = "raw-template-string-end"

BRACKETS: Final = {"{": "}", "[": "]", "(": ")"}

_GAP: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_COMMENT: Final = re.compile(r"#[^\n]*")
# The digit in the number's look-ahead stops backtracking: `12x` must not be read as `1`. `*+` and
# `++` keep a text of blanks, comments or quotes linear.
_TOKEN: Final = re.compile(
    r"""
    (?:[ \t\r\n]++|\#[^\n]*+)*+
    (?:
      (?P<identifier>[A-Za-z_][A-Za-z_\d]*+)
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z_.]|[0-9]))
    | (?P<string>"(?:[^"\\\n]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"|`[^`]*`)
    | (?P<mark>:=|==|>=|<=|!=|[\[\]{}(),:+\-*/%&|=><;.])
    )
    """,
    re.VERBOSE,
)
_KINDS: Final = ("", IDENT, NUMBER, STRING, "")
"""The kind of token for each group of `_TOKEN`, by the number of the group; an operator or bracket
is its own kind.
"""
_NUMBER: Final = re.compile(
    r"[0-9]+(?P<point>\.(?P<fraction>[0-9]*))?"
    r"(?P<e>[eE][+-]?(?P<exponent>[0-9]*))?(?P<rest>[A-Za-z_][A-Za-z_\d]*+)?"
)
_ESCAPES: Final = '\\"/bfnrt'
_FORBIDDEN: Final = {
    "\0": "illegal null character",
    "\ufeff": "illegal byte-order mark",
}


@record(guarded=False)
class Token:
    """One token: its kind, its text without the gap before it, and what the gap contains. `kind` of
    an operator or bracket is its own text. `space`: there are blanks before it; `newline`: there is
    a line break before it. `faults` are lexical errors; the kind is then `illegal`.
    """

    kind: str
    text: str
    start: int
    end: int
    space: bool
    newline: bool
    faults: tuple[str, ...] = ()


class Lexer:
    """The tokens of one source, each read once. `tokens` are those read so far, by the offset where
    the gap before them begins; `comments` are those met so far, by their own offset.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.comments: dict[int, str] = {}
        self.tokens: dict[int, Token] = {}
        self._rest: dict[int, Token] = {}
        self._lines = [0, *(m.end() for m in re.finditer("\n", source.text)), sys.maxsize]
        """The offsets at which rows begin, and one that no row reaches."""
        self._row = 1
        """The row of the last span, in which the next one mostly begins too."""
        # Almost no text has such a character: one search here saves one for each token. A
        # byte-order mark may be the first character.
        self._odd = any(c in source.text[1:] for c in _FORBIDDEN) or source.text[:1] == "\0"

    def first(self) -> Token:
        """Return the first token, after a byte-order mark if there is one."""
        return self.after(1 if self.text.startswith("\ufeff") else 0)

    def forget_tokens(self) -> None:
        """Free the tokens that `after` has read so far; they are read again if they are requested
        again.
        """
        self.tokens.clear()

    def after(self, offset: int) -> Token:
        """Return the token after the blank space and comments that begin at `offset`; at the end
        one of kind `EOF`. An invalid token has errors in `faults` and is never raised.
        """
        token = self.tokens.get(offset)
        return self.read(offset) if token is None else token

    def template_rest(self, offset: int, *, raw: bool) -> Token:
        """Return the part of a template string from `offset`, directly after a `}`, up to its next
        `{` or its end; an illegal token if the string is not closed. `raw`: the string is in
        backquotes.
        """
        token = self._rest.get(offset)
        if token is None:
            token = self._rest[offset] = self._template(offset, offset, False, False, raw)
        return token

    def blank(self, offset: int) -> Token:
        """Return the blank at `offset`, or the line break after a comment there, as a token of kind
        `WHITESPACE`, for errors that point at it. ValueError for a comment that ends the text,
        IndexError at the end of the text.
        """
        start = offset
        if self.text[start] == "#":
            start = self.text.index("\n", start)
        return Token(WHITESPACE, self.text[start], start, start + 1, True, False)

    def span(self, start: int, end: int) -> Span:
        """Return the span between two offsets in OPA's rows and columns: the end of the text has
        the column of its last character, a line break is column 0 of the next row.
        """
        row = self._row
        lines = self._lines
        if not lines[row - 1] <= start < lines[row]:
            row = self._row = bisect_right(lines, start, 0, len(lines) - 1)
        col = start - lines[row - 1] + 1
        if start >= len(self.text):
            col -= 1
        elif self.text[start] == "\n":
            row, col = row + 1, 0
        return Span(self.source, start, end, row, col)

    def comment_nodes(self) -> tuple[Comment, ...]:
        """Return the comments that were met so far, with their spans, in the order of the text."""
        return tuple(
            Comment(text, self.span(offset, offset + 1 + len(text)))
            for offset, text in sorted(self.comments.items())
        )

    def read(self, offset: int) -> Token:
        """Return the token behind the blanks and comments at `offset`, and record it in `tokens`
        and the comments in `comments`. At the end of the text it is one of the kind for the end.
        Invalid text is not an error: the token carries its faults. Call it only for an offset that
        `tokens` does not have.
        """
        text = self.text
        match = _TOKEN.match(text, offset)
        if match is None:
            gap = _GAP.match(text, offset)
            start = offset if gap is None else gap.end()
            number = end = 0
        else:
            number = match.lastindex or 0
            start, end = match.span(number)
        newline = space = False
        if start > offset:
            blank = text[offset:start]
            newline = "\n" in blank
            space = newline or blank[0] != "#"
            if "#" in blank:
                self._keep_comments(offset, start)
            if self._odd and (odd := self._odd_gap(offset, start, space, newline)):
                self.tokens[offset] = odd
                return odd
        if number:
            written = text[start:end]
            token = Token(_KINDS[number] or written, written, start, end, space, newline)
        else:
            token = self._read_slowly(start, space, newline)
        if self._odd:
            token = self._check(token)
        self.tokens[offset] = token
        return token

    def _keep_comments(self, start: int, end: int) -> None:
        r"""Record the comments between two offsets in `comments`, without `#` and a `\r` at the
        end.
        """
        for match in _COMMENT.finditer(self.text, start, end):
            text = match.group()[1:]
            self.comments[match.start()] = text[:-1] if text.endswith("\r") else text

    def _read_slowly(self, start: int, space: bool, newline: bool) -> Token:
        """Return the token at `start` that is none of the common ones: the end of the text, a
        template string, or an invalid token, which carries its faults. `space` and `newline` tell
        if blank space, or a line break, is before it. Nothing is recorded.
        """
        text = self.text
        if start >= len(text):
            return Token(EOF, "", start, start, space, newline)
        char = text[start]
        if char == '"':
            return self._broken_string(start, space, newline)
        if char == "`":
            return self._illegal(start, len(text), space, newline, "non-terminated string")
        if char.isdecimal() and char.isascii():
            return self._broken_number(start, space, newline)
        if text.startswith(('$"', "$`"), start):
            return self._template(start, start + 2, space, newline, text[start + 1] == "`")
        faults = (f"illegal {char} character",) if char in "!$" else ()
        return self._illegal(start, start + 1, space, newline, *faults)

    def _illegal(self, start: int, end: int, space: bool, newline: bool, *faults: str) -> Token:
        return Token(ILLEGAL, self.text[start:end], start, end, space, newline, faults)

    def _broken_number(self, start: int, space: bool, newline: bool) -> Token:
        """Read a number that the pattern of tokens refused; return it as a number if nothing is
        wrong with it, otherwise an illegal token with its errors. `space` and `newline`: there is
        blank space, or a line break, before it.
        """
        match = _NUMBER.match(self.text, start)
        assert match is not None
        faults = []
        if match["point"] and not match["fraction"]:
            faults.append("expected fraction")
        if match["e"] and not match["exponent"]:
            faults.append("expected exponent")
        if match["rest"]:
            faults.append("illegal number format")
        if not faults:
            return Token(NUMBER, match.group(), start, match.end(), space, newline)
        return self._illegal(start, match.end(), space, newline, *faults)

    def _broken_string(self, start: int, space: bool, newline: bool) -> Token:
        """Read a string that the pattern of tokens refused; return it as a string if nothing is
        wrong with it, otherwise an illegal token with its errors. `space` and `newline`: there is
        blank space, or a line break, before it.
        """
        faults: list[str] = []
        at = start + 1
        while True:
            if at >= len(self.text) or self.text[at] == "\n":
                faults.append("non-terminated string")
                break
            char = self.text[at]
            at += 1
            if char == '"':
                break
            if char == "\\":
                at = self._escape(at, _ESCAPES, faults)
        at = min(at, len(self.text))
        if faults:
            return self._illegal(start, at, space, newline, *faults)
        return Token(STRING, self.text[start:at], start, at, space, newline)

    def _escape(self, at: int, known: str, faults: list[str]) -> int:
        """Return the offset after the escape sequence whose backslash is before `at`; append an
        error to `faults` if the character is not in `known`. The digits after `u` are not checked.
        """
        char = self.text[at : at + 1]
        # As OPA's `scanString`, which skips four characters. The parser refuses wrong digits where
        # it decodes the string (`literals.plain_text`).
        if char == "u":
            return at + 4
        if char and char in known:
            return at + 1
        faults.append("illegal escape sequence")
        return at

    def _template(self, start: int, at: int, space: bool, newline: bool, raw: bool) -> Token:
        r"""Read the text of a template string from `at` up to and including its next `{` or its
        end. The token's text is without `\` before `{`; an illegal token if the string is not
        closed. `space`: blanks precede it. `newline`: a line break does. `raw`: the string is in
        backticks.
        """
        faults: list[str] = []
        pieces: list[str] = []
        literal_start = at
        kind = RAW_PART if raw else PART
        text = self.text
        while True:
            if at >= len(text) or (not raw and text[at] == "\n"):
                faults.append("non-terminated string")
                end = at
                break
            char = text[at]
            at += 1
            if char == ("`" if raw else '"'):
                kind = RAW_END if raw else END
                end = at - 1
                break
            if char == "{":
                end = at - 1
                break
            if char == "\\":
                # `\{` is a brace of the text, also in a raw string.
                if text.startswith("{", at):
                    pieces.append(text[literal_start : at - 1])
                    literal_start = at
                    at += 1
                elif not raw:
                    at = self._escape(at, _ESCAPES, faults)
        at = min(at, len(text))
        if faults:
            return self._illegal(start, at, space, newline, *faults)
        pieces.append(text[literal_start:end])
        return Token(kind, "".join(pieces), start, at, space, newline)

    def _check(self, token: Token) -> Token:
        """Return the token, or an illegal one if a forbidden character (NUL, byte-order mark) is in
        it or directly after it. The token's first character is not checked: it was reported with
        what precedes it.
        """
        faults = [
            fault
            # One further: OPA's scanner reports a character when it reads ahead (`Scanner.next`).
            for c in self.text[token.start + 1 : token.end + 1]
            if (fault := _FORBIDDEN.get(c))
        ]
        if not faults:
            return token
        faults = [*token.faults, *faults]
        return self._illegal(token.start, token.end, token.space, token.newline, *faults)

    def _odd_gap(self, start: int, end: int, space: bool, newline: bool) -> Token | None:
        """Return an illegal token for the first forbidden character in blank space or a comment, or
        directly after it; its text is the comment or one blank. The first character is not checked:
        it was reported with the token before. None if there is no such character.
        """
        # The first character of the gap was reported with the token before it, which read ahead.
        comments = [m.span() for m in _COMMENT.finditer(self.text, start, end)]
        for at in range(start + 1, min(end + 1, len(self.text))):
            fault = _FORBIDDEN.get(self.text[at])
            if fault:
                inside = [c for c in comments if c[0] <= at - 1 < c[1]]
                first, last = inside[0] if inside else (at - 1, at)
                return self._illegal(first, last, space, newline, fault)
        return None


def loose_tokens(lexer: Lexer, token: Token) -> Iterator[Token]:
    """Yield the tokens from `token` on without a parser, for texts that it cannot parse: a string
    that is not closed ends with its line, and the text parts of template strings are left out.
    """
    templates: list[tuple[int, bool]] = []
    depth = 0
    while token.kind != EOF:
        if token.kind in (PART, RAW_PART):
            templates.append((depth, token.kind == RAW_PART))
        elif token.kind == "}" and templates and templates[-1][0] == depth:
            token = lexer.template_rest(token.end, raw=templates.pop()[1])
            continue
        else:
            if token.text:  # nothing stands between a `}` and the end of a line
                yield token
            depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
        end = token.end
        line_end = token.text.find("\n", 1) if token.kind == ILLEGAL else -1
        if line_end > 0:
            end = token.start + line_end
        token = lexer.after(end)
