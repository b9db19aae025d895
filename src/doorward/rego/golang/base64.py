"""Base64 as Go's `encoding/base64` reads it: line ends do not count, and where it gives up."""

from __future__ import annotations

import binascii
import re
from typing import Final

from doorward.rego.errors import BuiltinError
from doorward.rego.golang.octets import to_bytes

__all__ = ["decode", "encode", "is_valid", "url_decode", "url_encode"]

_STANDARD: Final = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
_URL: Final = re.compile(rb"[A-Za-z0-9_-]*={0,2}")
_NO_STANDARD: Final = re.compile(rb"[^A-Za-z0-9+/\r\n]")
_NO_URL: Final = re.compile(rb"[^A-Za-z0-9_\-\r\n]")
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
# `+` and `/` become bytes that no alphabet has: unchanged, `+` would pass for `-`.
_ONLY_URL: Final = bytes.maketrans(b"-_+/", b"+/\0\0")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
_FROM_URL_ONLY: Final = bytes.maketrans(b"-_+/", b"+/!!")


def encode(octets: bytes) -> str:
    """Standard base64, padded."""
    return binascii.b2a_base64(octets, newline=False).decode()


def url_encode(octets: bytes) -> str:
    """Return bytes as URL-safe base64, padded with `=` and without line ends."""
    return binascii.b2a_base64(octets, newline=False).translate(_TO_URL).decode()


def is_valid(x: str) -> bool:
    """Return True if `decode` can decode `x`, standard base64 with padding and perhaps line ends,
    as Go does.
    """
    octets = to_bytes(x).translate(None, b"\r\n")
    return len(octets) % 4 == 0 and _STANDARD.fullmatch(octets) is not None


def decode(x: str) -> bytes:
    """Decode standard base64 with padding; line ends are ignored. BuiltinError, with the position
    at which Go stops, if it is invalid.
    """
    return _decode(to_bytes(x), _STANDARD)


def url_decode(x: str) -> bytes:
    """Decode URL-safe base64, with or without padding, line ends ignored, and return the bytes.
    BuiltinError, in Go's words, if it is invalid.
    """
    if "=" not in x:
        # Digits alone, as tokens have them, at half the price; whatever else comes out below.
        try:
            octets = x.encode()
            padded = octets + b"==="[: -len(octets) % 4]
            return binascii.a2b_base64(padded.translate(_FROM_URL_ONLY), strict_mode=True)
        except ValueError:
            pass
    octets = to_bytes(x)
    if not octets.endswith(b"="):
        rest = len(octets) % 4
        if rest == 1:
            raise BuiltinError(f"illegal base64url string: {x}")
        octets += b"=" * (-rest % 4)
    return _decode(octets, _URL)


def _decode(octets: bytes, alphabet: re.Pattern[bytes]) -> bytes:
    """Decode base64 in an alphabet, `_STANDARD` or `_URL`. The fast decoder is tried first,
    whatever the characters. Texts that it refuses, or whose length or padding it would misjudge, go
    to `_decode_lines`, which skips line ends and raises BuiltinError for invalid texts.
    """
    plain = octets.translate(_ONLY_URL) if alphabet is _URL else octets
    # Strict mode lets padding pass that pads nothing.
    if len(plain) % 4 or plain.endswith(b"==="):
        return _decode_lines(octets, alphabet)
    try:
        return binascii.a2b_base64(plain, strict_mode=True)
    except binascii.Error:
        return _decode_lines(octets, alphabet)


def _decode_lines(octets: bytes, alphabet: re.Pattern[bytes]) -> bytes:
    """Decode base64 in an alphabet, `_STANDARD` or `_URL`, without its line ends; BuiltinError,
    with the position at which Go's decoder stops, if it is invalid.
    """
    digits = octets.translate(None, b"\r\n")
    if len(digits) % 4 or not alphabet.fullmatch(digits):
        offset = _corrupt_at(octets, alphabet)
        raise BuiltinError(f"illegal base64 data at input byte {offset}")
    return binascii.a2b_base64(digits.translate(_FROM_URL) if alphabet is _URL else digits)


def _corrupt_at(octets: bytes, alphabet: re.Pattern[bytes]) -> int:
    """Return the byte position at which Go's decoder stops in invalid base64; it reads four digits
    at a time, line ends aside.
    """
    other = (_NO_URL if alphabet is _URL else _NO_STANDARD).search(octets)
    end = other.start() if other else len(octets)
    rest = (end - octets.count(b"\r", 0, end) - octets.count(b"\n", 0, end)) % 4
    if other:
        padding = octets[end] == 0x3D and rest >= 2
        return _corrupt_padding(octets, end, rest) if padding else end
    # Go's decodeQuantum says `si - j`: a byte back for each digit, be it a line end.
    return end - rest


def _corrupt_padding(octets: bytes, offset: int, digits: int) -> int:
    """Return the byte position at which Go's decoder stops, for a `=` at `offset` that comes after
    `digits` digits (2 or 3) of a group of four.
    """
    following = [n for n in range(offset + 1, len(octets)) if octets[n] not in b"\r\n"]
    if digits == 3:
        return following[0] if following else len(octets)
    if not following:
        return len(octets)
    if octets[following[0]] != 0x3D:
        # Go's decodeQuantum says `si - 1`: the byte before the wrong one, be it a line end.
        return following[0] - 1
    return following[1] if len(following) > 1 else len(octets)
