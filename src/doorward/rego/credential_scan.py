"""A look at encoded JSON that tells whether a credential may be in it, at the cost of one RE2 pass.

    documents -> JSON -> `may_hold_credentials`: False is a proof, True a reason to walk them

The patterns are those of `rego/credentials.py`, widened until they hold for a name or a text in
whatever way JSON writes it: quotes and backslashes escaped, JSON within JSON, `+` for a space.
What is found too often costs time; what is not found would be logged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from doorward.rego.credentials import (
    MASKED,
    NAMES_AT_THE_END,
    NAMES_OF_ALL_BELOW,
    NAMES_OF_WORDS,
    NAMES_WITHIN,
)
from doorward.rego.golang.regexp import byte_matcher

__all__ = ["may_hold_credentials"]


def _translate_for_re2(pattern: str) -> str:
    """Return a pattern of `rego/credentials.py` for RE2: its groups do not capture. It matches all
    that Python matches, and names with the escapes of a query string too.
    """
    return (
        pattern.replace("(", "(?:")
        .replace("[-_. ]", "(?:[-_. +]|%20)")
        .replace(r"\d", r"[0-9\x{80}-\x{10FFFF}]")
        # Python takes two more letters for an `i`; both know that of `s` and `k`.
        .replace("i", r"[i\x{130}\x{131}]")
    )


_BEFORE_A_WORD: Final = r"(?:[^0-9A-Za-z]|\\[a-z]|\\u[0-9A-Fa-f]{4})"
# `$` holds in front of a line break as well.
_WORDS: Final = rf"{_BEFORE_A_WORD}(?:{_translate_for_re2(NAMES_OF_WORDS)})"
_AT_THE_END: Final = rf"(?:{_translate_for_re2(NAMES_AT_THE_END)}|{_WORDS})(?:\\n)?"
_WITHIN: Final = _translate_for_re2(NAMES_WITHIN)
_SPACE: Final = r"(?:[^!-~]|\\u[0-9A-Fa-f]{4}|\\[a-z])*"
_INNER: Final = r"(?:[^\"\\]|\\.)*"
"""Matches the rest of a name in JSON, up to its closing quote."""
_DOTTED_TWICE: Final = r"[0-9A-Za-z_-]{8}\.[0-9A-Za-z_-]{8,}\."
_DOTTED: Final = rf"{_DOTTED_TWICE}[0-9A-Za-z_-]{{8}}"
_SCHEME: Final = "(?:earer|asic) "


def _name_pattern(rest: str, end: str) -> str:
    """Return a pattern for a credential's name followed by `end`. Where the credential's word is
    not the last one of the name, `rest` matches what is between the two.
    """
    return rf"(?i:(?:{_AT_THE_END}|(?:{_WITHIN}){rest}){end})"


def _not_masked() -> str:
    """Return a pattern for the beginning of a value, up to the first character that differs from
    `[masked]`. It does not match the value `[masked]` itself.
    """
    pattern = '[^&; "]'
    for char in reversed(MASKED):
        code = rf"\x{ord(char):02x}"
        pattern = f"(?:[^{code}]|{code}{pattern})"
    return pattern


_GAP: Final = r"(?:[ '`]|\\.)*"
"""Matches quotes, backslashes and blanks, as JSON writes them."""
_SUSPECTS: Final = (
    # A member with a text, a number or an array, and with an object where all below is secret.
    _name_pattern(_INNER, r'":["\[0-9-]'),
    rf'(?i:(?:{_translate_for_re2(NAMES_OF_ALL_BELOW)})(?:\\n)?":["\[{{0-9-])',
    # A member of JSON within a text.
    _name_pattern(r"(?:[^\"\\]|\\[^\"\\])*", rf'\\+"{_SPACE}:'),
    # A line of YAML, with or without quotes, and a name that JSON within a text writes in escapes.
    _name_pattern(r"[^:]*", r"(?:'|\\\\*\")?(?: |\\t)*:(?: |\\t)"),
    _name_pattern(r"[^:]*", rf"{_GAP}:(?: |\\.)"),
    # An element, a line of its own, a setting with blanks, an option, and a body of another kind.
    _name_pattern(r"(?:[^=:>\"\\]|\\.)*", rf"(?:{_GAP}(?:>|\\n)|{_GAP}\\+n|{_GAP}(?:[ '`]|\\.)=)"),
    rf"-[0-9A-Za-z_-]*{_name_pattern('(?:[0-9A-Za-z_. -])*', '(?: |.t)')}",
    rf'(?i:"body":"{_INNER}(?:{_AT_THE_END}|{_WITHIN}))',
    # Characters that are written in another way.
    r"\\\\[uUx]|&#",
    "%(?:0[aAdD]|2[257dDeE]|3[aAdDeE]|[4-7][0-9A-Fa-f])",
    # What a query or the environment sets, and a name that is written with percent signs.
    _name_pattern(r"(?:[^=&?; \"\\]|\\.)*", "=") + _not_masked(),
    r"%[0-9A-Fa-f]{2}(?:[^=&?; \"\\]|\\.)*=",
    # The value beside a name, and what a key consists of.
    rf'(?i:"(?:name|key)":"?{_INNER}(?:{_AT_THE_END}|(?:{_WITHIN}){_INNER})")',
    '"kty":',
    '"raw(?:_b|B)ody":"',
    # What texts look like.
    "eyJ",
    "-----BEGIN",
    r"[Bb](?:earer|asic) [a-z]*[A-Z0-9+/=]",
    rf"{_SCHEME}{_INNER}{_DOTTED}",
    # The last name may end with the scheme.
    rf"{_DOTTED_TWICE}{_INNER}{_SCHEME}",
    rf"://{_INNER}@",
    rf"@{_INNER}://",
)


may_hold_credentials: Final[Callable[[bytes], bool]] = byte_matcher(f"(?s){'|'.join(_SUSPECTS)}")
"""Tells whether names or texts in a JSON text, as orjson writes it, may be those of credentials. A
member `raw_body` also counts, since it is base64.
"""
