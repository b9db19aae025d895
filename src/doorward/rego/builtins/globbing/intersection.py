"""Do two regex-like globs have a text in common?

The language has characters, `.`, sets `[a-z]`, and `*` and `+` after one of these. The answer is
that of OPA's library, which looks for a *non-empty* text and gobbles greedily: it knows that `a*`
and `a` meet, and says that `ab*` and `a` do not. Globs with more than `MAX_FLAGS` flags or
`MAX_TEXT` characters, or that could take more than `MAX_WORK` comparisons, are errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final

from doorward.base.records import record
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.regexp import matcher, quote_for_class

__all__ = ["MAX_FLAGS", "MAX_TEXT", "MAX_WORK", "intersect"]

MAX_FLAGS: Final = 128
"""The most `*` and `+` in both globs together; more is a LimitError."""
MAX_TEXT: Final = 1 << 14
MAX_WORK: Final = 1 << 21
"""The most comparisons, by an estimate before the first one; more is a LimitError."""


@record
class _Token:
    """Ranges of characters in order (None: any character), and how often one may occur: "" (once),
    "+" or "*".
    """

    ranges: tuple[tuple[str, str], ...] | None
    flag: str = ""

    def meets(self, other: _Token) -> bool:
        """Return True if some character matches both tokens; their flags are not considered. The
        ranges of each must be sorted and must not overlap.
        """
        if self.ranges is None or other.ranges is None:
            return True
        if len(self.ranges) == 1 == len(other.ranges):
            (low, high), (least, most) = self.ranges[0], other.ranges[0]
            return low <= most and least <= high
        mine, theirs = iter(self.ranges), iter(other.ranges)
        one, two = next(mine, None), next(theirs, None)
        while one and two:  # both in order: what ends first meets nothing that follows
            if one[0] <= two[1] and two[0] <= one[1]:
                return True
            if one[1] < two[1]:
                one = next(mine, None)
            else:
                two = next(theirs, None)
        return False


class _Tokenizer:
    """A reader of one glob for `regex.globs_match`; `at` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def refuse(self, problem: str) -> BuiltinError:
        """Build, but do not raise, OPA's BuiltinError for an invalid glob, with the present
        position.
        """
        context = f"input:{self.text}, pos:{self.at}, {problem}"
        return BuiltinError(f"{context}: the input provided is invalid")

    def take(self) -> tuple[str, bool]:
        """Read one character. Return it, and True if a backslash escaped it. BuiltinError if the
        glob ends with the backslash.
        """
        char = self.text[self.at]
        if char != "\\":
            self.at += 1
            return char, False
        if self.at + 1 == len(self.text):
            raise self.refuse("input ends with a \\ (escape) character")
        self.at += 2
        return self.text[self.at - 1], True

    def tokens(self) -> list[_Token]:
        """Parse the whole glob into tokens. Neighbours with the same characters and each with a
        flag become one token: `t*t+` is `t+`. BuiltinError for an invalid glob.
        """
        if self.text.isalnum():
            return list(map(_character, self.text))
        merged: list[_Token] = []
        while self.at < len(self.text):
            token = self.token()
            last = merged[-1] if merged else None
            if last and last.flag and token.flag and last.ranges == token.ranges:
                # t*t+ is t+, and t*t* is t*.
                merged[-1] = _Token(last.ranges, max(last.flag, token.flag, key="*+".index))
            else:
                merged.append(token)
        return merged

    def token(self) -> _Token:
        """Parse one token: a character (also behind a backslash), `.` or `[set]`, and the flag `+`
        or `*` behind it; return it. BuiltinError for a flag without a token before it, a `]`
        without `[`, or an invalid set. There must be a character left.
        """
        char, escaped = self.take()
        ranges: tuple[tuple[str, str], ...] | None = ((char, char),)
        if not escaped:
            if char in "+*":
                raise self.refuse(f"flag '{char}' must be preceded by a non-flag")
            if char == "]":
                raise self.refuse("set-close ']' with no preceding '['")
            if char == ".":
                ranges = None
            elif char == "[":
                ranges = self.set()
        flag = self.text[self.at : self.at + 1]
        if flag and flag in "+*":
            self.at += 1
            return _Token(ranges, flag)
        return _Token(ranges)

    def set(self) -> tuple[tuple[str, str], ...]:
        """Parse a set after its `[`, up to and including `]`, as sorted ranges that do not overlap.
        BuiltinError if it is not closed or a range in it is invalid.
        """
        ranges: list[tuple[str, str]] = []
        previous = ""
        while self.at < len(self.text):
            char, escaped = self.take()
            if not escaped and char == "]":
                return _in_order(ranges)
            if not escaped and char == "-":
                ranges[-1:] = [(previous, self.range_end(previous))]
                previous = ""
            else:
                ranges.append((char, char))
                previous = char
        raise self.refuse("found [ without matching ]")

    def range_end(self, previous: str) -> str:
        """Parse and return the character after a `-` in a set, the end of the range that begins
        with `previous`. BuiltinError if `previous` is "" (no character before the `-`), if the glob
        ends there, or if the character is an unescaped `]` or `-` or comes before `previous`.
        """
        if not previous:
            raise self.refuse("range character '-' must be preceded by a Unicode character")
        if self.at >= len(self.text) - 1:
            raise self.refuse("range character '-' must be followed by a Unicode character")
        char, escaped = self.take()
        if not escaped and char in "]-":
            raise self.refuse("range character '-' cannot be followed by a special symbol")
        if char < previous:
            order = f"'{char}' comes before '{previous}' in Unicode"
            raise self.refuse(f"range is out of order: {order}")
        return char


@lru_cache(maxsize=256)
def _character(char: str) -> _Token:
    """The token of one character without a flag; cached."""
    return _Token(((char, char),))


def _in_order(ranges: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the ranges of characters sorted, with those that overlap or adjoin merged."""
    united: list[tuple[str, str]] = []
    for low, high in sorted(ranges):
        if united and ord(low) <= ord(united[-1][1]) + 1:
            united[-1] = united[-1][0], max(high, united[-1][1])
        else:
            united.append((low, high))
    return tuple(united)


def intersect(one: str, other: str, check_deadline: Callable[[], None]) -> bool:
    """Return True if some non-empty string matches both globs, and for two empty globs. Like OPA's
    library, it does not find every such string: `ab*` and `a` give False.

    BuiltinError for an invalid glob, LimitError for globs above the limits of this module.
    `check_deadline` is called now and then, and may raise.
    """
    if max(len(one), len(other)) > MAX_TEXT:
        raise LimitError(f"glob is longer than {MAX_TEXT} characters")
    for text, glob in ((one, other), (other, one)):
        if len(glob) <= _CACHED_TEXT and text.isascii() and _SPECIAL.isdisjoint(text):
            matches = _text_matcher(glob)
            if matches is not None:
                return matches(text)
    trimmed = _trim(_tokens(one), _tokens(other))
    if trimmed is None:
        return False
    first, second = trimmed
    # An upper bound of the comparisons, before any is made: each flag may try each pair of tokens,
    # and a set costs as many steps as it has ranges.
    if len(one) + len(other) > _SHORT_TEXTS:
        flags = sum(token.flag != "" for token in (*first, *second))
        work = len(second) * _size(first) + len(first) * _size(second)
        if flags > MAX_FLAGS or flags * work > MAX_WORK:
            raise LimitError("globs with so many `*`, `+` and characters take too long to compare")
    return _Meeting(first, second, check_deadline).plain(0, 0)


_SPECIAL: Final = frozenset("\\[]*+.")
"""The characters with a meaning in a glob; a text without them stands for itself alone."""


@lru_cache(maxsize=256)
def _text_matcher(glob: str) -> Callable[[str], bool] | None:
    """Return a function that returns True if an ASCII text without special characters and `glob`
    have a text in common, by one regular expression. None if a `t*` follows another flag in `glob`:
    no regular expression agrees with OPA's library then. BuiltinError for an invalid glob.

    Mostly one of the two globs is such a text. As in OPA's library, `t*` at the end of the glob
    needs at least one character.
    """
    tokens = _cached_tokens(glob)
    if any(before.flag and token.flag == "*" for before, token in pairwise(tokens)):
        return None
    parts = [_class(token) + token.flag for token in tokens]
    if tokens and tokens[-1].flag:
        parts[-1] = _class(tokens[-1]) + "+"
    matches: Callable[[str], bool] = matcher(f"(?s)\\A{''.join(parts)}\\z")
    return matches


def _class(token: _Token) -> str:
    """Return the characters of a token as part of an RE2 expression: a class in brackets, or `.`
    for any.
    """
    if token.ranges is None:
        return "."
    if not token.ranges:
        return r"[^\x00-\x{10ffff}]"
    ranges = [f"{quote_for_class(low)}-{quote_for_class(high)}" for low, high in token.ranges]
    return f"[{''.join(ranges)}]"


_SHORT_TEXTS: Final = 64
"""Two globs with fewer characters than this together cannot exceed a limit on flags, ranges or
tokens.
"""


def _tokens(text: str) -> list[_Token]:
    """The tokens of a glob, from a cache if it is short; the caller must not modify the list."""
    return _cached_tokens(text) if len(text) <= _CACHED_TEXT else _Tokenizer(text).tokens()


_CACHED_TEXT: Final = 256
"""A glob with more characters than this is not kept in the cache."""


@lru_cache(maxsize=256)
def _cached_tokens(text: str) -> list[_Token]:
    return _Tokenizer(text).tokens()


def _size(tokens: list[_Token]) -> int:
    """The number of ranges in all tokens; `.` counts as one."""
    return sum(len(token.ranges or "-") for token in tokens)


def _trim(first: list[_Token], second: list[_Token]) -> tuple[list[_Token], list[_Token]] | None:
    """Cut the tokens without flags that match one to one off both ends of the two globs; the
    innermost of them stays. None if two such tokens have no character in common, so that the globs
    do not meet.
    """
    start = 0
    for a, b in zip(first, second, strict=False):
        if a.flag or b.flag:
            break
        if not a.meets(b):
            return None
        start += 1
    start = max(start - 1, 0)
    end = 0
    while min(len(first), len(second)) - end > start:
        a, b = first[-1 - end], second[-1 - end]
        if a.flag or b.flag:
            break
        if not a.meets(b):
            return None
        end += 1
    end = max(end - 1, 0)
    return first[start : len(first) - end], second[start : len(second) - end]


class _Meeting:
    """A search for a text that two globs have in common. `known` holds the result for each pair of
    positions, so that each is computed once.
    """

    def __init__(
        self, first: list[_Token], second: list[_Token], check_deadline: Callable[[], None]
    ) -> None:
        self.sides = (first, second)
        self.check_deadline = check_deadline
        self.known: dict[tuple[int, int], bool] = {}

    def plain(self, i: int, j: int) -> bool:
        """Return True if the rest of the first glob from `i` and of the second from `j` have a
        common match as OPA's library looks for it, the ends of both included. Checks the deadline,
        whose error passes through, and keeps the result in `known`.
        """
        first, second = self.sides
        begun = (i, j)
        if begun in self.known:
            return self.known[begun]
        self.check_deadline()
        answer: bool | None = None
        while answer is None and i < len(first) and j < len(second):
            if first[i].flag:
                answer = self.may_extend(0, i, j)
            elif second[j].flag:
                answer = self.may_extend(1, j, i)
            elif not first[i].meets(second[j]):
                answer = False
            else:
                i, j = i + 1, j + 1
        if answer is None:
            answer = i == len(first) and j == len(second)
        self.known[begun] = answer
        return answer

    def rests(self, side: int, mine: int, theirs: int) -> bool:
        """Return True if the rest of glob number `side` from position `mine` and the rest of the
        other glob from `theirs` have a common match.
        """
        return self.plain(mine, theirs) if side == 0 else self.plain(theirs, mine)

    def may_extend(self, side: int, mine: int, theirs: int) -> bool:
        """Return True if the rest of glob number `side` from position `mine`, whose token there has
        `+` or `*`, and the rest of the other glob from `theirs` have a common match. The token can
        match several tokens of the other glob.
        """
        token = self.sides[side][mine]
        if token.flag == "*":
            return self.star(side, mine, theirs)
        other = self.sides[1 - side]
        if not token.meets(other[theirs]):
            return False
        if self.star(side, mine, theirs + 1):
            return True
        return bool(other[theirs].flag) and self.rests(side, mine + 1, theirs)

    def star(self, side: int, mine: int, theirs: int) -> bool:
        """Return True if the rest of glob number `side` from position `mine` and that of the other
        glob from `theirs` have a common match, where the token at `mine` matches zero or more
        tokens of the other glob.
        """
        mine_of_side, other = self.sides[side], self.sides[1 - side]
        token = mine_of_side[mine]
        if mine + 1 == len(mine_of_side):
            return all(met.meets(token) for met in other[theirs:])
        following = mine_of_side[mine + 1]
        for at in range(theirs, len(other)):
            met = other[at]
            if met.meets(following) and self.rests(side, mine + 1, at):
                return True
            if not met.meets(token):
                return False
        return False
