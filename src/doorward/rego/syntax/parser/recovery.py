"""Continuing after a statement that cannot be parsed, for tools that need the rest.

A statement is assumed to begin where a line begins like one; the text that is skipped may have
defined names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from doorward.rego.source import Source, Span
from doorward.rego.syntax.lexer import IDENT, loose_tokens
from doorward.rego.syntax.parser.cursor import Cursor

__all__ = ["names_at", "skip_statement"]

MAX_HEAD: Final = 500
"""The most characters of a line in which the names of skipped rules are searched."""

_CONDITION: Final = re.compile(r"(?:else|every|input|data|not|some|with)\b")

# What begins a statement where it is at the beginning of a line: elsewhere it may be part of
# one, as `else` and the conditions of a body that is not indented.
_STATEMENT: Final = re.compile(
    rf"(?:package|import|default)\b|(?!{_CONDITION.pattern})"
    r"\w++(?:\.\w++|\[[^\]\n]*\])*+(?:\([^)\n]*\))?+"
    # `iff` and the like are a misspelled `if`.
    r"(?:\s*(?::=|=(?!=)|if\b|contains\b|\{)|[ \t]+[if]{2,4}\b)"
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def skip_statement(cursor: Cursor, start: int) -> set[str]:
    """Move the cursor from the broken statement at offset `start` to the next line that looks like
    a statement, or to the end; its nesting depth and waiting hints are reset. Return the names that
    the skipped text may define.
    """
    lexer, text = cursor.lexer, cursor.source.text
    lost = names_at(cursor.source, [lexer.span(start, start)])
    # The broken statement may have left the cursor deep in brackets.
    cursor.depth, cursor.hints = 0, ()
    for token in loose_tokens(lexer, lexer.after(start)):
        if token.start <= start or text[token.start - 1] != "\n":
            continue
        if token.kind == IDENT and _STATEMENT.match(text, token.start):
            cursor.end = token.start
            cursor.move_to(token)
            return lost
        lost |= names_at(cursor.source, [lexer.span(token.start, token.end)])
    cursor.end = len(text)
    cursor.move_to(lexer.after(cursor.end))
    return lost


def names_at(source: Source, spans: Iterable[Span]) -> set[str]:
    """Return the names in the lines where these spans begin, up to a body or value, at most
    `MAX_HEAD` characters of each; lines that are conditions have none.
    """
    names: set[str] = set()
    for span in spans:
        start = source.text.rfind("\n", 0, span.start) + 1
        line = source.text[start : start + MAX_HEAD].partition("\n")[0]
        if not _CONDITION.match(line):
            names.update(_NAME.findall(re.split(r"\bif\b|[{=]", line, maxsplit=1)[0]))
    return names
