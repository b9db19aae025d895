"""Digests and message authentication codes, all in lower-case hexadecimal.

Standard library only. Keys and certificates are the business of `certificates`.
"""

from __future__ import annotations

import hashlib
import hmac

from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.signature import boolean, string
from doorward.rego.golang.octets import to_bytes


@builtin("crypto.md5", string, returns=string)
def crypto_md5(x: str) -> str:
    """The MD5 digest of `x`: for compatibility with others, not for security."""
    return hashlib.md5(to_bytes(x), usedforsecurity=False).hexdigest()


@builtin("crypto.sha1", string, returns=string)
def crypto_sha1(x: str) -> str:
    """The SHA-1 digest of `x`: for compatibility with others, not for security."""
    return hashlib.sha1(to_bytes(x), usedforsecurity=False).hexdigest()


@builtin("crypto.sha256", string, returns=string)
def crypto_sha256(x: str) -> str:
    """The SHA-256 digest of `x`."""
    return hashlib.sha256(to_bytes(x)).hexdigest()


def _mac(x: str, key: str, digest: str) -> str:
    return hmac.digest(to_bytes(key), to_bytes(x), digest).hex()


@builtin("crypto.hmac.md5", string, string, returns=string)
def crypto_hmac_md5(x: str, key: str) -> str:
    """The HMAC-MD5 of `x` with `key`."""
    return _mac(x, key, "md5")


@builtin("crypto.hmac.sha1", string, string, returns=string)
def crypto_hmac_sha1(x: str, key: str) -> str:
    """The HMAC-SHA-1 of `x` with `key`."""
    return _mac(x, key, "sha1")


@builtin("crypto.hmac.sha256", string, string, returns=string)
def crypto_hmac_sha256(x: str, key: str) -> str:
    """The HMAC-SHA-256 of `x` with `key`."""
    return _mac(x, key, "sha256")


@builtin("crypto.hmac.sha512", string, string, returns=string)
def crypto_hmac_sha512(x: str, key: str) -> str:
    """The HMAC-SHA-512 of `x` with `key`."""
    return _mac(x, key, "sha512")


@builtin("crypto.hmac.equal", string, string, returns=boolean)
def crypto_hmac_equal(mac1: str, mac2: str) -> bool:
    """Whether two codes are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(to_bytes(mac1), to_bytes(mac2))
