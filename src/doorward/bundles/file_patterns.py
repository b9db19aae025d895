"""Patterns of file names, as Go's `filepath.Match` reads them.

They are not those of `fnmatch`: `[^a]` is the negated class and `[!a]` is not, a backslash escapes,
a star does not match a slash, and a pattern that is not valid matches nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["matches"]

_NOTHING: Final = "(?!)"


def matches(pattern: str, name: str) -> bool:
    """Return True if all of `name` matches the pattern."""
    return re.fullmatch(_translate(pattern), name) is not None


@lru_cache(maxsize=256)
def _translate(pattern: str) -> str:
    """Return a regular expression that must match all of a name for the pattern to match it; one
    that matches nothing if the pattern is not valid.
    """
    chunks = [""]
    at = 0
    try:
        while at < len(pattern):
            if pattern[at] == "[":
                part, at = _read_class(pattern, at + 1)
            elif pattern[at] == "?":
                part, at = "[^/]", at + 1
            elif pattern[at] == "*":
                if chunks[-1] or len(chunks) == 1:  # several stars are one
                    chunks.append("")
                part, at = "", at + 1
            else:
                char, at = _read_char(pattern, at)
                part = re.escape(char)
            chunks[-1] += part
    except IndexError:  # the pattern ends within a class or an escape
        return _NOTHING
    first, *others = chunks
    if not others:
        return first
    # What follows a star is found where it stands first, as Go finds it, and not looked for again:
    # else many stars would take time by a power of the length. The last one reaches to the end.
    *middle, last = others
    return first + "".join([f"(?>[^/]*?{chunk})" for chunk in middle]) + f"[^/]*{last}"


def _read_char(pattern: str, at: int) -> tuple[str, int]:
    """Return the character at an index, which may be escaped, and the index behind it."""
    if pattern[at] == "\\":
        at += 1
    return pattern[at], at + 1


def _read_class(pattern: str, at: int) -> tuple[str, int]:
    """Return a regular expression for the class (`[…]`) whose content begins at the index `at` of
    the pattern, and the index behind its `]`. Raise IndexError if it is malformed or not closed.
    """
    is_negated = pattern[at] == "^"
    at += is_negated
    ranges: list[str] = []
    is_first = True
    while is_first or pattern[at] != "]":
        is_first = False
        if pattern[at] in "-]":
            raise IndexError
        low, at = _read_char(pattern, at)
        high = low
        if pattern[at] == "-":
            if pattern[at + 1] in "-]":
                raise IndexError
            high, at = _read_char(pattern, at + 1)
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
    if not ranges:
        return (r"[\s\S]" if is_negated else _NOTHING), at + 1
    return f"[{'^' if is_negated else ''}{''.join(ranges)}]", at + 1
