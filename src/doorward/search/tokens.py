"""Tokens of candidates: what they claim can be read and changed, since candidates sign them."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Any, Final, NamedTuple

from doorward.rego import Value, from_json, to_json
from doorward.rego.shared import Key

__all__ = ["Token", "read_token"]

_HEADER: Final[dict[Key, Value]] = {"alg": "HS256", "typ": "JWT"}


class Token(NamedTuple):
    """A token in an input. `scheme` is the word before it with its space, such as `Bearer `; "" if
    there is none.
    """

    scheme: str
    claims: Value

    def signed(self, secret: str) -> str:
        """Return the token as text, after its scheme: a JWT signed with the secret by HS256."""
        text = ".".join([_encode(to_json(part).encode()) for part in (_HEADER, self.claims)])
        signature = hmac.digest(secret.encode(), text.encode(), "sha256")
        return f"{self.scheme}{text}.{_encode(signature)}"


def _encode(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def read_token(value: Any) -> Token | None:
    """Return the token that is the last word of a text, with all text before it, including the
    space, as its scheme; the signature is not checked. None for another value or a text whose last
    word is not a JWT with a JSON payload.
    """
    if not isinstance(value, str):
        return None
    scheme, space, token = value.rpartition(" ")
    if token.count(".") != 2:
        return None
    payload = token.split(".")[1]
    try:
        # Tokens have no padding (RFC 7515, section 2), which Python's decoder requires.
        claims = from_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        return None
    return Token(f"{scheme}{space}", claims)
