"""What a credential is called, and what it looks like: one definition for logs and explanations.

A name says it by its words (`password`, `api_key`, `X-Auth-Token`). Under some names a document of
any shape is secret (`secrets`); under others only texts, numbers and lists are: `token` may hold
claims that everybody may see. A text says it by its form: a signed token, a private key, what
follows `Bearer` or `Basic`, a URL with a user and a password. This is a net, not a proof.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "MASKED",
    "NAMES_AT_THE_END",
    "NAMES_OF_ALL_BELOW",
    "NAMES_OF_WORDS",
    "NAMES_WITHIN",
    "has_credential_names",
    "hide_looks",
    "may_look",
    "names_all_below",
    "names_credential",
]

MASKED: Final = "[masked]"

NAMES_WITHIN: Final = r"cookie|passw(or)?d|passphrase|secret|credential"
NAMES_AT_THE_END: Final = (
    r"auth(orization|entication|token)?|(token|jwt)s?|(api|access)[-_. ]?key"
    r"|(private|signing|encryption|session)[-_. ]?keys?|session[-_. ]?id"
    r"|signature([-_]?\d{1,3})?|registry-config|assertion|saml[-_]?response"
)
NAMES_OF_WORDS: Final = "pwd|sig|otp|pass|passcode"
"""Whole words at the end of a name: `bypass` and `design` are none."""
NAMES_OF_ALL_BELOW: Final = (
    r"passw(or)?ds?|passphrases?|secrets?|credentials?|cookies?"
    r"|(api|access|private)[-_. ]?keys?|tokens"
)

_NAMES: Final = re.compile(
    rf"{NAMES_WITHIN}|({NAMES_AT_THE_END})$|(^|[-_. ])({NAMES_OF_WORDS})$", re.IGNORECASE
)
_ALL_BELOW: Final = re.compile(rf"({NAMES_OF_ALL_BELOW})$", re.IGNORECASE)
_LOOKS: Final = re.compile(
    r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*"
    # A word of small letters alone is prose: `basic authentication`.
    r"|(?:(?<=[Bb]earer )|(?<=[Bb]asic ))(?=[a-z]*+[A-Z0-9+/=])[A-Za-z0-9+/._~-]{8,}+={0,2}"
    r"|(?<=://)[^\s/?#@:\"']*+:[^\s/?#@\"']++(?=@)"
)
_MEMBER: Final = re.compile(r'"([^"\\]{1,64})\\?"\s*:')


def names_credential(name: str) -> bool:
    """Whether a text, number or list under `name` is a credential."""
    return _NAMES.search(name) is not None


def names_all_below(name: str) -> bool:
    """Whether everything below `name` is one, whatever its own names are."""
    return _ALL_BELOW.search(name) is not None


def hide_looks(text: str) -> str:
    """`text` with the parts masked that look like credentials; `text` itself if none does."""
    return _LOOKS.sub(MASKED, text) if _LOOKS.search(text) else text


def may_look(text: str) -> bool:
    """Whether `hide_looks` may find something: a look at `text` that costs next to nothing."""
    return (
        "eyJ" in text
        or "-----BEGIN" in text
        or "earer " in text
        or "asic " in text
        or ("@" in text and "://" in text)
    )


def has_credential_names(text: str) -> bool:
    """Whether `text` is JSON, or holds some, of which a member has the name of a credential."""
    if "\\u00" in text:
        text = _ESCAPE.sub(_unescape, text)
    return any(names_credential(name) for name in _MEMBER.findall(text))


_ESCAPE: Final = re.compile(r"\\u00([2-7][0-9A-Fa-f])")


def _unescape(match: re.Match[str]) -> str:
    char = chr(int(match[1], 16))
    return match[0] if char in '"\\' else char
