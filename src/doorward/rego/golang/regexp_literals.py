"""Patterns that stand for a few fixed texts, compared as texts: `^(GET|HEAD)$`, `^/people/?$`.

Most patterns of policies are of this kind, and comparing texts takes a tenth of what a call of
RE2 takes. Read here are literal characters, a backslash before punctuation, groups, `|`, `?` after
a group or a character, `^` at the start, `$` at the end, and `.*` where an open end says the same.
All else is RE2's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["MAX_TEXTS", "literal_matcher"]

MAX_TEXTS: Final = 64
"""A pattern that matches at most this many texts is replaced by them; for more, RE2 is faster."""

_META: Final = frozenset("\\.+*?()|[]{}^$")
_RUN: Final = re.compile(r"[^\\.+*?()|\[\]{}^$]+(?![*+?{])")
"""Matches plain characters, except the last one if it is repeated."""


class _NotLiteralError(Exception):
    """The pattern is not equivalent to a small set of texts."""


def literal_matcher(pattern: str) -> Callable[[str], bool] | None:
    """Return a predicate that says if a string contains a match, if the pattern stands for a few
    plain texts (`^` and `$` are respected); None for most patterns, which RE2 must match.
    """
    starts, ends = pattern.startswith("^"), pattern.endswith("$")
    inner = pattern[starts : len(pattern) - ends]
    # `a\$` does not end there: the dollar is a character.
    if ends and (len(inner) - len(inner.rstrip("\\"))) % 2:
        return None
    if not starts:
        inner = inner.removeprefix(".*")
    if not ends and not inner.endswith("\\.*"):
        inner = inner.removesuffix(".*")
    reader = _Reader(inner)
    try:
        texts = reader.alternatives()
        if reader.at != len(inner) or ((starts or ends) and reader.parted):
            return None
    except _NotLiteralError:
        return None
    return _comparison(sorted(set(texts)), starts=starts, ends=ends)


def _comparison(texts: Sequence[str], *, starts: bool, ends: bool) -> Callable[[str], bool]:
    """Return a predicate for strings that equal one of the texts (`starts` and `ends`), begin with
    one (`starts`), end with one (`ends`), or contain one.
    """
    several = tuple(texts)
    if starts and ends:
        return frozenset(several).__contains__
    if starts:
        return lambda value: value.startswith(several)
    if ends:
        return lambda value: value.endswith(several)
    if len(several) == 1:
        return lambda value, text=several[0]: text in value  # type: ignore[misc]
    return lambda value: any([text in value for text in several])


class _Reader:
    """Parses a pattern into the texts that it matches. Its methods raise _NotLiteralError for
    anything else, and for more than `MAX_TEXTS` texts.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.parted = False
        """True if there is a `|` outside of all groups, where `^` and `$` belong to one
        alternative.
        """

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def alternatives(self) -> list[str]:
        """alternatives = sequence { "|" sequence }

        Returns the texts that it matches; _NotLiteralError for anything else.
        """
        texts = self.sequence()
        while self.peek() == "|":
            self.at += 1
            self.parted = self.parted or not self.depth
            texts = _check_count(texts + self.sequence())
        return texts

    def sequence(self) -> list[str]:
        """sequence = { item [ "?" [ "?" ] ] }

        Returns the texts that it matches; _NotLiteralError for another repetition, or for more than
        `MAX_TEXTS` texts.
        """
        prefixes = [""]
        while self.peek() not in ("", "|", ")"):
            texts = self.item()
            if self.peek() == "?":
                self.at += 1
                texts = [*texts, ""]
                if self.peek() == "?":
                    self.at += 1
            if self.peek() and self.peek() in "*+?{":
                raise _NotLiteralError
            # Checked at each item: ten groups of four would be a million texts before the end.
            prefixes = _check_count([begin + text for begin in prefixes for text in texts])
        return prefixes

    def item(self) -> list[str]:
        r"""item = group | characters | "\" punctuation

        Move past one item and return the texts that it matches. _NotLiteralError for anything else,
        such as a class, a repetition or a backslash before a letter or digit.
        """
        run = _RUN.match(self.pattern, self.at)
        if run is not None:
            self.at = run.end()
            return [run[0]]
        character = self.peek()
        self.at += 1
        if character == "(":
            return self.group()
        if character == "\\":
            escaped = self.peek()
            self.at += 1
            if not escaped or not escaped.isascii() or escaped.isalnum() or escaped == "_":
                raise _NotLiteralError
            return [escaped]
        if character in _META:
            raise _NotLiteralError
        return [character]

    def group(self) -> list[str]:
        """group = "(" [ "?:" ] alternatives ")"

        Parses from after the parenthesis; returns the texts that it matches. _NotLiteralError for
        anything else.
        """
        if self.pattern.startswith("?:", self.at):
            self.at += 2
        if self.peek() == "?":
            raise _NotLiteralError
        self.depth += 1
        texts = self.alternatives()
        self.depth -= 1
        if self.peek() != ")":
            raise _NotLiteralError
        self.at += 1
        return texts


def _check_count(texts: list[str]) -> list[str]:
    """Return the texts; _NotLiteralError if there are more than `MAX_TEXTS`."""
    if len(texts) > MAX_TEXTS:
        raise _NotLiteralError
    return texts
