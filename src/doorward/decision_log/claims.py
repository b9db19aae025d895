"""The claims of a verified token for the decision log, which must not contain the token.

An event lists the paths of values that were removed from its input. If a removed value was a token
that `io.jwt.decode_verify` accepted, its header and claims are logged under a digest of the token,
so that the decision can be evaluated again (`doorward.replay`) without a usable token. The key is
named by a digest that is slow to compute, so that a shared secret cannot be guessed from the log.
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
"""The largest number of tokens in one event."""
_SALT: Final = b"doorward custom.claims"


def claims_of(event: Mapping[str, Any], input: Any, environment: Environment) -> dict[str, Any]:
    """Return the verified tokens that were removed from `event`, by their SHA-256; {} if there are
    none. `input` is the unmasked input of the decision. At most `MAX_TOKENS`.

    Each has the `path` and the `scheme` (`Bearer`) of the token, its `header` and `payload`, and
    the name of its `key`. A token whose claims contain a credential is left out.
    """
    claims: dict[str, Any] = {}
    for path in (*event.get("erased", ()), *event.get("masked", ())):
        if len(claims) >= MAX_TOKENS:
            break
        text = _text_at(input, path)
        scheme, space, token = text.rpartition(" ")
        verified = verified_token(environment, token) if token and " " not in scheme else None
        # Exactly `TOKEN` or `SCHEME TOKEN`, of which the header can be put together again.
        if verified is None or bool(scheme) is not bool(space):
            continue
        header, payload, constraints = verified
        document = {"input": {"header": header, "payload": payload}}
        key = key_name(constraints)
        # Claims may hold secrets of their own: then a log must not have them either.
        if key and hide_credentials(document) is document:
            digest = hashlib.sha256(token.encode()).hexdigest()
            claims[digest] = {"path": path, "scheme": scheme, "key": key, **document["input"]}
    return claims


def key_name(constraints: Mapping[Any, Value]) -> str:
    """Return the name of the key in the constraints of `io.jwt.decode_verify`: a digest of the
    secret or the certificate. "" if there is none, or both.
    """
    secret, certificate = constraints.get("secret"), constraints.get("cert")
    if isinstance(secret, str) and certificate is None:
        return _slow_digest(secret)
    if isinstance(certificate, str) and secret is None:
        return hashlib.sha256(certificate.encode("utf-8", "surrogatepass")).hexdigest()
    return ""


@lru_cache(maxsize=64)
def _slow_digest(secret: str) -> str:
    """Return a digest of a secret with scrypt, which takes too long to try many secrets."""
    octets = secret.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(octets, salt=_SALT, n=1 << 14, r=8, p=1, dklen=16).hex()


def _text_at(input: Any, path: str) -> str:
    """Return the text at a path such as `/input/a/0`; "" if there is none, or it is not below
    `/input/`.
    """
    value = input
    for name in path.split("/")[2:]:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdecimal():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return ""
    return value if isinstance(value, str) and path.startswith("/input/") else ""
