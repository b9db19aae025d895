"""Patterns that are searches for a text: what databases match otherwise, said in words they share.

    regex.match("^/api/", path)        startswith(path, "/api/")
    glob.match("**.pdf", null, name)   endswith(name, ".pdf")

A regular expression or glob that is more than a text with its ends open or closed stays as it is,
and is an error.
"""

from __future__ import annotations

from typing import Final

__all__ = ["search_of_glob", "search_of_regex"]

_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")
_GLOB: Final = frozenset("\\[]{}!?*,")
_NAMES: Final = {
    (True, True): "equal",
    (True, False): "startswith",
    (False, True): "endswith",
    (False, False): "contains",
}


def search_of_regex(pattern: str) -> tuple[str, str] | None:
    """Return the built-in and text that are equivalent to a regular expression; None if there are
    none.
    """
    begins = pattern.startswith("^")
    # In RE2 `$` is the end of the text only, not before a last newline as in Python. An escaped
    # backslash before it looks like `\$` here; `_plain` refuses that.
    ends = pattern.endswith("$") and not pattern.endswith("\\$")
    text = _plain(pattern[begins : len(pattern) - ends])
    return None if text is None else (_NAMES[begins, ends], text)


def _plain(pattern: str) -> str | None:
    """Return the only text that a pattern without anchors matches; None if it has special
    characters that are not escaped, or an escaped letter.
    """
    letters: list[str] = []
    rest = iter(pattern)
    for letter in rest:
        if letter == "\\":
            letter = next(rest, "")
            if letter not in _SPECIAL or not letter:
                return None  # a class such as \d
        elif letter in _SPECIAL:
            return None
        letters.append(letter)
    return "".join(letters)


def search_of_glob(pattern: str, *, has_delimiters: bool) -> tuple[str, str] | None:
    """Return the built-in and text that are equivalent to a glob; None if there are none.
    `has_delimiters`: `*` stops at a delimiter, `**` does not.
    """
    stars = ("**",) if has_delimiters else ("**", "*")
    begin = next((each for each in stars if pattern.startswith(each)), "")
    text = pattern[len(begin) :]
    end = next((each for each in stars if text.endswith(each)), "")
    text = text[: len(text) - len(end)]
    if any(letter in _GLOB for letter in text):
        return None
    return _NAMES[not begin, not end], text
