"""The claims of a verified token for the decision log, which must not hold the token.

An event lists the paths of what was taken out of its input. Where a token was there that
`io.jwt.decode_verify` accepted, its header and its claims are logged under a digest of the token,
so that the decision can be made again (`doorward.replay`) without anything that opens a door. The
key is named by a digest that is slow to compute: a shared secret cannot be guessed from the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.rego import Environment, Value
from doorward.rego.shared import verified_token

__all__ = ["claims_of", "key_name"]

MAX_TOKENS: Final = 4
"""Tokens of one event."""
_SALT: Final = b"doorward custom.claims"


def claims_of(event: Mapping[str, Any], input: Any, environment: Environment) -> dict[str, Any]:
    """The tokens that were taken out of `event`, by their digest; `input` is the one decided by.

    Each has the `path` and the `scheme` (`Bearer`) that it was at and after, its `header` and
    `payload`, and the name of the `key`.
    """
    claims: dict[str, Any] = {}
    for path in (*event.get("erased", ()), *event.get("masked", ())):
        if len(claims) >= MAX_TOKENS:
            break
        text = _text_at(input, path)
        scheme, space, token = text.rpartition(" ")
        verified = verified_token(environment, token) if token and " " not in scheme else None
        if verified is None or bool(scheme) is not bool(space):
            continue
        header, payload, constraints = verified
        document = {"input": {"header": header, "payload": payload}}
        key = key_name(constraints)
        if key and hide_credentials(document) is document:
            digest = hashlib.sha256(token.encode()).hexdigest()
            claims[digest] = {"path": path, "scheme": scheme, "key": key, **document["input"]}
    return claims


def key_name(constraints: Mapping[Any, Value]) -> str:
    """The name under which logs show the key of `io.jwt.decode_verify`; empty if it has none."""
    secret, certificate = constraints.get("secret"), constraints.get("cert")
    if isinstance(secret, str) and certificate is None:
        return _slow_digest(secret)
    if isinstance(certificate, str) and secret is None:
        return hashlib.sha256(certificate.encode("utf-8", "surrogatepass")).hexdigest()
    return ""


@lru_cache(maxsize=64)
def _slow_digest(secret: str) -> str:
    octets = secret.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(octets, salt=_SALT, n=1 << 14, r=8, p=1, dklen=16).hex()


def _text_at(input: Any, path: str) -> str:
    """The text at a path in the input; empty if there is none."""
    value = input
    for name in path.split("/")[2:]:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdecimal():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return ""
    return value if isinstance(value, str) and path.startswith("/input/") else ""
