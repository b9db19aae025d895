"""The text of a token to its three parts, its header and its claims (RFC 7515, compact form).

Nothing is verified here. Headers are cached, since the tokens of an issuer all begin with the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from doorward.base.records import record
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang import base64
from doorward.rego.golang.json import unmarshal
from doorward.rego.golang.octets import from_bytes, to_bytes
from doorward.rego.values import Key, Value

__all__ = [
    "MAX_TOKEN",
    "Header",
    "Object",
    "decode_header",
    "decode_payload",
    "json_object",
    "signed_text",
    "split_token",
    "understand_header",
]

MAX_TOKEN: Final = 1024 * 1024
"""The most characters of a token; more is a LimitError."""
MAX_HEADER_CACHED: Final = 1024
"""The most characters of an encoded header that is cached."""

Object = dict[Key, Value]


def signed_text(header: str, payload: str) -> bytes:
    """The text that the signature of a token is computed over; both parts are encoded."""
    return to_bytes(f"{header}.{payload}")


def decode_header(encoded: str) -> Object:
    """Return the header of a token, still in base64, as an object; short ones come from a cache, so
    the caller must not modify it. BuiltinError if it is invalid or that of a JWE, LimitError if its
    JSON nests too deeply or has a number that is too large.
    """
    if len(encoded) <= MAX_HEADER_CACHED:
        return _cached_header(encoded)
    return _decode_header(encoded)


def understand_header(encoded: str) -> Header:
    """Return a header, still in base64, with the fields that verification reads; short ones come
    from a cache. BuiltinError if the header, or the type of one of these fields, is
    invalid, or if it is that of a JWE; LimitError if its JSON nests too deeply or has a number that
    is too large.
    """
    if len(encoded) <= MAX_HEADER_CACHED:
        return _cached_understood(encoded)
    return _header(_decode_header(encoded))


def decode_payload(encoded: str) -> str:
    """Return the payload of a token, decoded from base64, as text that need not be JSON; bytes that
    are not UTF-8 become lone surrogates. BuiltinError if its base64 is invalid.
    """
    try:
        return from_bytes(base64.url_decode(encoded))
    except BuiltinError as error:
        raise BuiltinError(f"JWT payload had invalid encoding: {error}") from None


def _decode_header(encoded: str) -> Object:
    """Decode a header to an object. BuiltinError, in OPA's words, for invalid base64, invalid JSON,
    another value than an object, or an encrypted token (JWE); LimitError for JSON that nests too
    deeply or has a number that is too large.
    """
    try:
        text = from_bytes(base64.url_decode(encoded))
    except BuiltinError as error:
        raise BuiltinError(f"JWT header had invalid encoding: {error}") from None
    try:
        header = json_object(text)
    except BuiltinError as error:
        raise BuiltinError(f"bad JWT header: {error}") from None
    if "enc" in header:
        raise BuiltinError("JWT is a JWE object, which is not supported")
    return header


@lru_cache(maxsize=256)
def _cached_header(encoded: str) -> Object:
    """Decode a header to an object, which the caller must not modify. BuiltinError for invalid
    base64 or JSON, for JSON that is not an object, and for the header of a JWE; LimitError for JSON
    that nests too deeply or has a number that is too large. Cached: an issuer's tokens all begin
    with the same header.
    """
    return _decode_header(encoded)


def split_token(text: str) -> tuple[str, str, str]:
    """Split a compact token at its dots into header, payload and signature, all still encoded.
    BuiltinError unless it has three parts, LimitError above `MAX_TOKEN` characters.
    """
    if len(text) > MAX_TOKEN:
        raise LimitError(f"encoded JWT is longer than {MAX_TOKEN} characters")
    # Four parts at most: a text of a million dots is not cut into a million.
    parts = text.split(".", 3)
    if len(parts) == 1:
        raise BuiltinError("encoded JWT had no period separators")
    if len(parts) != 3:
        count = text.count(".") + 1
        raise BuiltinError(f"encoded JWT must have 3 sections, found {count}")
    header, payload, signature = parts
    return header, payload, signature


def json_object(text: str) -> Object:
    """Parse a JSON text that must be an object. BuiltinError if it is another value or invalid,
    LimitError if it nests too deeply or has a number that is too large.
    """
    try:
        value = unmarshal(text)
    except BuiltinError as error:
        raise BuiltinError(f"invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BuiltinError("decoded JSON type was not an Object")
    return value


def _text(header: Object, name: str) -> str:
    """The string in field `name`, "" if absent; BuiltinError if it is not a string."""
    value = header.get(name, "")
    if not isinstance(value, str):
        raise BuiltinError(f"{name}: must be a string")
    return value


@record
class Header:
    """A token's header, and its fields that verification needs. `fields` are all; the header may
    come from a cache, so nobody may modify them. `is_nested`: the payload is a token again.
    `is_usable` is False without `alg`, or with a `crit` field that is not understood; such a token
    never verifies.
    """

    fields: Object
    alg: str
    kid: str
    is_nested: bool
    is_usable: bool


_UNDERSTOOD: Final = frozenset({"alg", "crit", "cty", "kid", "typ"})


def _header(fields: Object) -> Header:
    """Return the fields of a token's header that verification reads. A header without `alg`, or
    whose `crit` names a field that is here and not understood, is returned as one that nothing
    verifies. BuiltinError for a field of the wrong type.
    """
    alg = _text(fields, "alg")
    # RFC 7515 4.1.11: a field that must be understood and is not makes a token invalid.
    critical = _critical(fields["crit"]) if "crit" in fields else ()
    understood = all(name in _UNDERSTOOD or name not in fields for name in critical)
    cty, kid = _text(fields, "cty"), _text(fields, "kid")
    _text(fields, "typ")
    return Header(fields, alg, kid, cty.upper() == "JWT", bool(alg) and understood)


@lru_cache(maxsize=256)
def _cached_understood(encoded: str) -> Header:
    return _header(_cached_header(encoded))


def _critical(value: Value) -> tuple[str, ...]:
    """Return the names in the header `crit`, which need not be known here; BuiltinError unless it
    is a list of strings with at least one.
    """
    if not isinstance(value, list):
        raise BuiltinError("crit: must be a list")
    if not value:
        raise BuiltinError("crit: must be a nonempty list")
    names = [name for name in value if isinstance(name, str)]
    if len(names) != len(value):
        raise BuiltinError("crit: must be a list of strings")
    return tuple(names)
