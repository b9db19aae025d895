"""Strings as the bytes they are in Go, and back.

A Go string is any bytes at all, a Python `str` is not. Bytes that are not UTF-8 live in a `str` as
lone surrogates (PEP 383), one for each byte, so that `base64.encode(base64.decode(x))` gives `x`
back. Wherever text leaves the engine such a character is U+FFFD, as it is for Go.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["SURROGATES", "combine", "from_bytes", "scrub", "to_bytes", "to_text"]

SURROGATES: Final = re.compile("[\ud800-\udfff]")


def to_bytes(text: str) -> bytes:
    """Return the bytes of a Rego string; a lone surrogate that stands for no byte becomes
    U+FFFD.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        # All but the 128 that `surrogateescape` has bytes for; it raises for the others.
        escaped = re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text)
        return escaped.encode("utf-8", "surrogateescape")


def from_bytes(octets: bytes) -> str:
    """Return the Rego string of any bytes; one that is not UTF-8 becomes a lone surrogate, from
    which `to_bytes` gets it back.
    """
    return octets.decode("utf-8", "surrogateescape")


def combine(text: str) -> str:
    """Return a text that was joined from several with each sequence of bytes that is UTF-8 now as
    its character: bytes of the parts may have become one.
    """
    if text.isascii() or not SURROGATES.search(text):
        return text
    return from_bytes(to_bytes(text))


def scrub(text: str) -> str:
    """Return `text` as it leaves the engine: with U+FFFD for each lone surrogate, that is, for each
    byte that is not UTF-8.
    """
    return text if text.isascii() else SURROGATES.sub("\ufffd", text)


def to_text(octets: bytes) -> str:
    """Decode UTF-8; each invalid byte becomes U+FFFD, as in Go."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return scrub(from_bytes(octets))
