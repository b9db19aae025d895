"""Cases of the people policy whose requests have a token of their own each, HS256 or RS256.

A token that was verified before is answered from a cache, which is not what the requests of many
users find: each of them has a token that the server has not seen. RS256 needs another policy, which
has the certificate of the key that signs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from benchmarks.case import Case, signed_token
from benchmarks.cases import CASES, SECRET, checkrequest_input

__all__ = ["hs256_cases", "rs256_cases"]

CONSTRAINTS: Final = '{"secret": secret, "alg": "HS256"}'
"""The part of the people policy that says how its tokens are signed."""

Sign = Callable[[dict[str, Any]], str]


def hs256_cases(count: int) -> list[Case]:
    """So many cases of the people policy as it is."""
    return list(
        islice(_cases(CASES["people"](), lambda claims: signed_token(claims, SECRET)), count)
    )


def rs256_cases(count: int) -> list[Case]:
    """So many cases of the people policy with the certificate of a key of 2,048 bits."""
    key = generate_private_key(65537, 2048)
    case = CASES["people"]()
    assert CONSTRAINTS in case.source
    constraints = f'{{"cert": {json.dumps(_certificate(key))}, "alg": "RS256"}}'
    case = replace(case, source=case.source.replace(CONSTRAINTS, constraints))
    return list(islice(_cases(case, lambda claims: _rs256_token(claims, key)), count))


def _cases(case: Case, sign: Sign) -> Iterator[Case]:
    """The case again and again, its request with another token and another new person."""
    now = int(case.input["attributes"]["request"]["time"]["seconds"])
    number = 0
    while True:
        number += 1
        subject = base64.urlsafe_b64encode(f"user{number}".encode()).rstrip(b"=").decode()
        claims = {"nbf": now - 3600, "exp": now + 86400, "role": "admin", "sub": subject}
        body = {"firstname": f"Bob{number}", "lastname": "Rego"}
        yield replace(case, input=checkrequest_input(sign(claims), body))


def _rs256_token(claims: dict[str, Any], key: RSAPrivateKey) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "RS256", "typ": "JWT"}, claims)
    ]
    signature = key.sign(b".".join(parts), PKCS1v15(), SHA256())
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def _certificate(key: RSAPrivateKey) -> str:
    """A certificate of the key, signed by itself, as PEM."""
    name = x509.Name([])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()
