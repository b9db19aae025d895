"""A GraphQL text becomes tokens, as the Go library of OPA reads it.

Lines and columns are the library's, which count a carriage return before a line feed as a column,
and place a string behind its quotes. What cannot be read is a token of the kind `<Invalid>`: the
parser refuses it by its place.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["BLOCK", "COMMENT", "END", "FLOAT", "INT", "INVALID", "NAME", "STRING", "Lexer", "Token"]

END: Final = "<EOF>"
INVALID: Final = "<Invalid>"
NAME: Final = "Name"
INT: Final = "Int"
FLOAT: Final = "Float"
STRING: Final = "String"
BLOCK: Final = "BlockString"
COMMENT: Final = "Comment"

_BLANKS: Final = re.compile("[\t ,\n\r\ufeff]*")
_BREAK: Final = re.compile(r"\r\n?|\n")
_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")
_COMMENT: Final = re.compile(r"[\t\x20-\U0010ffff]*")
_INT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DIGITS: Final = re.compile(r"[0-9]*")
_CHARACTERS: Final = re.compile(r'[^"\\\x00-\x08\x0a-\x1f]*')
_QUOTES: Final = re.compile(r'"*')
_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["/\\bfnrt]))')
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PUNCTUATION: Final = frozenset("!$&():=@[]{}|")


class Token(NamedTuple):
    """One token: its kind as errors name it, its value ("" for punctuation), and its place."""

    kind: str
    value: str
    line: int
    column: int


class Lexer:
    """Reads the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.start_of_line = 0

    def read(self) -> Token:
        """Skip blanks, and read and return the next token: a punctuator, NAME, COMMENT, number,
        string, block string or `...`; one of the kind `END` at the end of the text, and one of the
        kind `<Invalid>`, not an error, for what cannot be read.
        """
        self._skip_blanks()
        start = self.at
        if start >= len(self.text):
            return self._token(END, "", start)
        first = self.text[start]
        if first in _PUNCTUATION:
            self.at += 1
            return self._token(first, "", start)
        name = _NAME.match(self.text, start)
        if name:
            self.at = name.end()
            return self._token(NAME, name[0], start)
        if first == "#":
            match = _COMMENT.match(self.text, start)
            self.at = match.end() if match else start
            return self._token(COMMENT, self.text[start : self.at], start)
        if first == "-" or "0" <= first <= "9":
            return self._number()
        if self.text.startswith('"""', start):
            return self._block()
        if first == '"':
            return self._string()
        if self.text.startswith("...", start):
            self.at += 3
            return self._token("...", "", start)
        return self._invalid(start)

    def _token(self, kind: str, value: str, start: int) -> Token:
        return Token(kind, value, self.line, start - self.start_of_line + 1)

    def _invalid(self, at: int) -> Token:
        return self._token(INVALID, "", at)

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self.text, self.at)
        end = blanks.end() if blanks else self.at
        self._count_lines(end)

    def _count_lines(self, end: int) -> None:
        """Go on to `end`, over line breaks. The column behind a break of two characters starts at
        the second one.
        """
        for match in _BREAK.finditer(self.text, self.at, end):
            self.line += 1
            self.start_of_line = match.start() + 1
        self.at = end

    def _number(self) -> Token:
        """Read a number, which must begin here, and return its token, of the kind INT or FLOAT
        (with a fraction or exponent). If a part is missing or a digit follows a leading zero, the
        token is INVALID, and the position unchanged.
        """
        start = self.at
        whole = _INT.match(self.text, start)
        if not whole:
            return self._invalid(start + 1)
        end = whole.end()
        if self.text[end - 1] == "0" and whole[0] in ("0", "-0") and self._digits(end) > end:
            return self._invalid(end)
        kind = INT
        if self.text.startswith(".", end):
            kind, end = FLOAT, self._digits(end + 1)
            if self.text[end - 1] == ".":
                return self._invalid(end)
        if self.text.startswith(("e", "E"), end):
            first = end + 2 if self.text.startswith(("+", "-"), end + 1) else end + 1
            kind, end = FLOAT, self._digits(first)
            if end == first:
                return self._invalid(end)
        self.at = end
        return self._token(kind, self.text[start:end], start)

    def _digits(self, at: int) -> int:
        """The end of the digits at a place; the place itself if there are none."""
        match = _DIGITS.match(self.text, at)
        return match.end() if match else at

    def _string(self) -> Token:
        """Read and return a string in one line, its value without quotes and with escapes decoded;
        a surrogate becomes U+FFFD. The token is INVALID, and the position unchanged, if it is not
        closed or has an invalid escape.
        """
        start = end = self.at + 1
        parts: list[str] = []
        while True:
            match = _CHARACTERS.match(self.text, end)
            end = match.end() if match else end
            parts.append(match[0] if match else "")
            following = self.text[end : end + 1]
            if following == '"':
                self.at = end + 1
                return self._token(STRING, "".join(parts), start)
            escape = _ESCAPE.match(self.text, end)
            # The library wants a character behind the four digits, whatever it is.
            if not escape or (escape[1] and escape.end() == len(self.text)):
                return self._invalid(end + (following == "\\"))
            if escape[1]:
                character = chr(int(escape[1], 16))
                parts.append("\ufffd" if "\ud800" <= character <= "\udfff" else character)
            else:
                parts.append(_ESCAPED.get(escape[2], escape[2]))
            end = escape.end()

    def _block(self) -> Token:
        """Read a block string from its three opening quotes, and return its token: the value
        without quotes and common indentation, an escaped triple quote unescaped, and a line feed
        for each line break. Of more than three quotes at the end, all but three belong to the
        value. The kind is INVALID for a text that is not closed or has a control character.
        """
        start = self.at + 3
        self.at = start
        parts: list[str] = []
        while True:
            match = _CHARACTERS.match(self.text, self.at)
            end = match.end() if match else self.at
            parts.append(self.text[self.at : end])
            self.at = end
            following = self.text[end : end + 1]
            if following == '"':
                quotes = _QUOTES.match(self.text, end)
                count = len(quotes[0]) if quotes else 0
                if count >= 3:
                    value = _without_indent("".join(parts) + '"' * (count - 3))
                    token = self._token(BLOCK, value, start)
                    self.at = end + count
                    return token
                parts.append('"' * count)
                self.at = end + count
            elif following == "\\":
                escaped = self.text.startswith('\\"""', end)
                parts.append('"""' if escaped else "\\")
                self.at = end + (4 if escaped else 1)
            elif following in ("\n", "\r"):
                parts.append("\n")
                self._count_block_line(end)
            else:
                return self._invalid(end)

    def _count_block_line(self, at: int) -> None:
        r"""Move past the line break at `at` in a block string (`\r\n` is one), and begin the next
        line there.
        """
        self.at = at + (2 if self.text.startswith("\r\n", at) else 1)
        self.line += 1
        self.start_of_line = self.at


def _without_indent(raw: str) -> str:
    """The text of a block string without the common indentation of its lines and without blank
    lines at both ends; "" if all lines are blank. The first line keeps its indentation, which, as
    in OPA and other than in the specification, counts for the common one.
    """
    lines = raw.split("\n")
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip(" \t")]
    common = min(indents, default=0)
    lines = [lines[0], *(line[common:] for line in lines[1:])]
    texts = [number for number, line in enumerate(lines) if line.strip(" \t")]
    return "\n".join(lines[texts[0] : texts[-1] + 1]) if texts else ""
