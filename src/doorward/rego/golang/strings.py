"""Strings as Go prints them: `strconv.Quote`, and case mapping of one character for one.

Only texts are made here; what they are for is the business of the built-ins.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from doorward.rego.golang.octets import from_bytes, scrub
from doorward.rego.values import CONTROL_ESCAPES

__all__ = ["MAX_TEXT", "is_graphic", "is_word_character", "lower", "quote", "upper"]

MAX_TEXT: Final = 1 << 24
"""The most characters of a text that formatting, joining and replacing may make; more is a
LimitError.
"""

_ESCAPES: Final = {**CONTROL_ESCAPES, "\\": "\\\\"}


def is_graphic(char: str) -> bool:
    """Return True if Go prints the character unescaped (`strconv.IsPrint`)."""
    return char.isprintable()


def is_word_character(char: str) -> bool:
    """Return True for a letter, a decimal digit or `_`, as Go means in names; Python's `isalnum`
    and `\\w` also mean `²` and `½`.
    """
    return char == "_" or char.isalpha() or char.isdecimal()


def quote(text: str | bytes, mark: str = '"', *, ascii_only: bool = False) -> str:
    r"""Quote a text between `mark`s with Go's escapes; a byte that is not UTF-8 becomes `\xff`.
    `ascii_only` escapes all characters outside ASCII.
    """
    if isinstance(text, bytes):
        text = from_bytes(text)
    is_plain = text.isprintable() and mark not in text and "\\" not in text
    if is_plain and (text.isascii() or not ascii_only):
        return f"{mark}{text}{mark}"
    return mark + "".join([_escape(char, mark, ascii_only=ascii_only) for char in text]) + mark


def _escape(char: str, mark: str, *, ascii_only: bool) -> str:
    r"""Return a character as Go's quoting in `mark`s shows it: itself if it is printable, or an
    escape such as `\n`, `\xff` (also for a byte that is not UTF-8) or `\u00e9`. `ascii_only`
    escapes all others than ASCII.
    """
    if char == mark:
        return "\\" + char
    if char in _ESCAPES:
        return _ESCAPES[char]
    if " " <= char < "\x7f" or (not ascii_only and char > "\x7f" and is_graphic(char)):
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # one byte of what is not UTF-8, see `octets`
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def upper(text: str) -> str:
    """Convert to upper case, character by character, so that the length stays: `ß` is unchanged. A
    byte that is not UTF-8 becomes U+FFFD.
    """
    text = scrub(text)
    # What becomes several characters makes the whole longer; nothing makes it shorter.
    upper_text = text.upper()
    return upper_text if len(upper_text) == len(text) else "".join([_upper(char) for char in text])


def lower(text: str) -> str:
    """Convert to lower case, character by character, so that the length stays: `Σ` becomes `σ` also
    at the end of a word. A byte that is not UTF-8 becomes U+FFFD.
    """
    text = scrub(text)
    lower_text = text.lower()
    plain = len(lower_text) == len(text) and "\N{GREEK CAPITAL LETTER SIGMA}" not in text
    return lower_text if plain else "".join([_lower(char) for char in text])


@lru_cache(maxsize=4096)
def _upper(char: str) -> str:
    """Return the upper case of a character as Go has it: always one character, which is itself if
    its upper case is only written with several.
    """
    mapped = char.upper()
    return mapped if len(mapped) == 1 else _ALONE_UPPER.get(char, char)


@lru_cache(maxsize=4096)
def _lower(char: str) -> str:
    """Return the lower case of a character as Go has it: always one character."""
    mapped = char.lower()
    # `İ`, the only such character, becomes `i` and a dot above; Go's ToLower makes the `i` alone.
    return mapped if len(mapped) == 1 else mapped[0]


# Characters whose full mapping is several characters, but that have a simple one too.
_ALONE_UPPER: Final = {
    chr(code): chr(code + 8)
    for start in (0x1F80, 0x1F90, 0x1FA0)
    for code in range(start, start + 8)
} | {"\u1fb3": "\u1fbc", "\u1fc3": "\u1fcc", "\u1ff3": "\u1ffc"}
