"""Names and forms of credentials: one definition for logs and explanations.

A name says it by its words (`password`, `api_key`, `X-Auth-Token`). Under some names a document of
any shape is secret (`secrets`); under others only texts, numbers and lists are: `token` may hold
claims that everybody may see. A text says it by its form: a signed token, a private key, what
follows `Bearer` or `Basic`, a URL with a user and a password. This is a net, not a proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

__all__ = [
    "MASKED",
    "NAMES_AT_THE_END",
    "NAMES_OF_ALL_BELOW",
    "NAMES_OF_WORDS",
    "NAMES_WITHIN",
    "assigns_credential",
    "credential_members",
    "has_credential_names",
    "mask_credentials",
    "may_contain_credentials",
    "mentions_credential",
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
"""Words that are credentials only as a whole word at the end of a name: not in `bypass` and
`design`.
"""
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
_PAIRS: Final = (("name", "value"), ("key", "value"), ("key", "rawValue"), ("key", "raw_value"))
_KEYS_OF_JWK: Final = frozenset({"d", "dp", "dq", "k", "p", "q", "qi"})
_OF_PAIRS: Final = frozenset({"kty", "rawValue", "raw_value", "value", "Value"})
_NO_MEMBERS: Final[frozenset[Any]] = frozenset()
_MEMBER: Final = re.compile(r'"([^"\\]{1,64})\\?"\s*:')


def names_credential(name: str) -> bool:
    """Return True if a string, number or list under `name` is a credential, as under `password` or
    `X-Auth-Token`. An object under such a name may be public.
    """
    return _NAMES.search(name) is not None


def names_all_below(name: str) -> bool:
    """Return True if everything below `name` is a credential, whatever the names of its members
    are, as below `secrets`.
    """
    return _ALL_BELOW.search(name) is not None


def credential_members(value: Mapping[Any, Any]) -> frozenset[Any]:
    """Return the keys in an object under which credentials are stored because of another member.
    With a member `kty` (a JWK): the names of all private members of a JWK, even those it does not
    have. Otherwise the `value` beside a `name` or `key` that names a credential, or the `rawValue`
    beside such a `key`; an empty set if there are none.
    """
    if _OF_PAIRS.isdisjoint(value):
        return _NO_MEMBERS
    if "kty" in value:
        return _KEYS_OF_JWK
    lowered = {key.lower(): key for key in value if type(key) is str and len(key) <= 9}
    members = set()
    for name, member in _PAIRS:
        named = value[lowered[name]] if name in lowered else None
        if type(named) is str and names_credential(named) and member.lower() in lowered:
            members.add(lowered[member.lower()])
    return frozenset(members)


def mask_credentials(text: str) -> str:
    """Return `text` with the parts that look like credentials replaced by `[masked]`; the same
    object if nothing does.
    """
    return _LOOKS.sub(MASKED, text) if _LOOKS.search(text) else text


def may_contain_credentials(text: str) -> bool:
    """Return False if `mask_credentials` certainly finds nothing in `text`; True means that it
    may.
    """
    return (
        "eyJ" in text
        or "-----BEGIN" in text
        or "earer " in text
        or "asic " in text
        or ("@" in text and "://" in text)
    )


def has_credential_names(text: str) -> bool:
    """Return True if `text` contains a JSON member with a credential's name of at most 64
    characters, such as `"password":`, also within a JSON string.
    """
    if "\\u00" in text:
        text = _ESCAPE.sub(_unescape, text)
    return any(names_credential(name) for name in _MEMBER.findall(text))


_ESCAPE: Final = re.compile(r"\\u00([2-7][0-9A-Fa-f])")


def _unescape(match: re.Match[str]) -> str:
    char = chr(int(match[1], 16))
    return match[0] if char in '"\\' else char


# However a text is written: names behind escapes, quotes and markup, before a value.

_WRITTEN: Final = re.compile(
    r"\\u00([0-7]HH)|\\u\{0*([0-7]?HH)\}|\\U000000([0-7]HH)|\\x([0-7]HH)|%([0-7]HH)"
    r"|&#[xX]0*([0-7]HH);?".replace("HH", "[0-9A-Fa-f]")
    + r"|&#0*([0-9]{1,3});?"
)
_LAYERS: Final = 3
"""The most nested encodings that are decoded, such as a form in a query in JSON."""
_QUOTES: Final = str.maketrans(dict.fromkeys("\"'`\\\r", " "))
_INDENT: Final = re.compile(r"^[ \t]*-[ \t-]*", re.MULTILINE)
_A_NAME: Final = (
    rf"(?:(?:{NAMES_WITHIN})[\w. -]{{0,40}}|(?:{NAMES_AT_THE_END})"
    rf"|(?<![^\W_])(?:{NAMES_OF_WORDS}))"
)
_ASSIGNED: Final = re.compile(
    rf"{_A_NAME}[ \t]*(?:"
    # A setting, a member or a line; an element; a part of a form, or a key of YAML on its own line.
    rf"=>?[ \t]*(?!{re.escape(MASKED)})[^\s=&;,]|:[ \t]+(?!{re.escape(MASKED)})\S"
    r"|>\s*[^\s<]|\n[ \t]*\n\s*\S|\n[ \t]*:[ \t]"
    r")",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(rf"(?<!\S)--?[\w-]{{0,64}}{_A_NAME}[ \t]+[^\s-]", re.IGNORECASE)
_GOES_ON: Final = re.compile(
    # A line whose value continues in deeper ones.
    rf"^([ \t]*+)[^:\n]{{0,64}}{_A_NAME}[ \t]*:(?:[ \t][^\n]*)?\n\1[ \t]+\S",
    re.IGNORECASE | re.MULTILINE,
)
_MENTIONED: Final = re.compile(rf"{_A_NAME}(?![\w-])", re.IGNORECASE)


_SEPARATOR: Final = re.compile(r"[=:>\n%\\-]|&#")
"""Matches a separator between a name and its value, in any of its encodings."""


@cache
def _matcher_of_mentions() -> Callable[[bytes], bool]:
    """Return a cached predicate for bytes: False if they certainly contain no credential's name in
    any spelling, True if they may.
    """
    from doorward.rego.golang.regexp import byte_matcher  # it brings RE2

    return byte_matcher(
        # A part of each name above, and what may hide one.
        rf"(?i){NAMES_WITHIN}|auth|token|jwt|key|session|signature|registry|assertion|saml"
        rf"|{NAMES_OF_WORDS}|[\\\\%]|&#".replace("i", "[iİı]").replace("(?[iİı])", "(?i)")
    )


def mentions_credential(text: str) -> bool:
    """Return True if the name of a credential stands anywhere in `text`, however it is written."""
    return _mentions(text) and _MENTIONED.search(_to_plain(text)) is not None


def assigns_credential(text: str) -> bool:
    """Return True if `text` assigns a value to a credential's name, as `password=x`, `--token x` or
    `secret: x` do, also in encoded form.
    """
    if _SEPARATOR.search(text) is None or not _mentions(text):
        return False
    plain = _to_plain(text)
    return _MENTIONED.search(plain) is not None and (
        _ASSIGNED.search(plain) is not None
        or _OPTION.search(plain) is not None
        or _GOES_ON.search(_INDENT.sub(lambda match: " " * len(match[0]), plain)) is not None
    )


def _mentions(text: str) -> bool:
    """Return False if `text` certainly contains no credential's name, True if it may; a cheap
    check.
    """
    return _matcher_of_mentions()(text.encode("utf-8", "surrogatepass"))


def _to_plain(text: str) -> str:
    r"""Return `text` with escaped ASCII characters decoded, up to `_LAYERS` times, a line break for
    `\n`, and blanks for quotes and backslashes.
    """
    # Bounded, since each layer may decode to another one.
    for _ in range(_LAYERS):
        if "\\" not in text and "%" not in text and "&#" not in text:
            break
        before, text = text, _WRITTEN.sub(_to_char, text)
        if text == before:
            break
    return text.replace("\\n", "\n").translate(_QUOTES)


def _to_char(match: re.Match[str]) -> str:
    """Return the character for an escape sequence; the sequence itself if it is not ASCII."""
    decimal = match[match.re.groups]
    code = int(decimal) if decimal else int(next(filter(None, match.groups())), 16)
    return chr(code) if code < 128 else match[0]
