"""Digests and message authentication codes in lower-case hexadecimal; certificates and keys.

Certificates are PEM, or base64 of PEM or of DER; the package `x509` reads and verifies them, at the
time of the clock or the one given. Bounds: those of `x509.reading`, and `MAX_KEYS` keys. Long texts
are read under the deadline.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Final

from doorward.rego.builtins.registry import builtin, refuse_as_first
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, array, boolean, object_, string, tuple_
from doorward.rego.builtins.x509.chain import Options, Unverified, verified_chain
from doorward.rego.builtins.x509.objects import certificate_object
from doorward.rego.builtins.x509.options import read_options
from doorward.rego.builtins.x509.private_keys import (
    load_private,
    private_blocks,
    private_jwk,
    private_object,
)
from doorward.rego.builtins.x509.reading import (
    bounded,
    pair_of,
    pem_blocks,
    read_certificates,
    request_of,
)
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang import base64
from doorward.rego.golang.octets import from_bytes, to_bytes
from doorward.rego.values import Key, Value

MAX_KEYS: Final = 100
"""The most private keys in one text; more is a LimitError."""
_USUAL: Final = 16
"""A text is read with deadline checks only if it has at least this many times `LONG` characters:
shorter ones come with each request, and the checks would double their cost.
"""

Object = dict[Key, Value]
_OBJECT: Final = object_(string, any_)


@builtin("crypto.md5", string, returns=string)
def crypto_md5(x: str) -> str:
    """The MD5 digest of `x` in lower-case hexadecimal: for compatibility with others, not for
    security.
    """
    return hashlib.md5(to_bytes(x), usedforsecurity=False).hexdigest()


@builtin("crypto.sha1", string, returns=string)
def crypto_sha1(x: str) -> str:
    """The SHA-1 digest of `x` in lower-case hexadecimal: for compatibility with others, not for
    security.
    """
    return hashlib.sha1(to_bytes(x), usedforsecurity=False).hexdigest()


@builtin("crypto.sha256", string, returns=string)
def crypto_sha256(x: str) -> str:
    """The SHA-256 digest of `x` in lower-case hexadecimal."""
    return hashlib.sha256(to_bytes(x)).hexdigest()


def _mac(x: str, key: str, digest: str) -> str:
    return hmac.digest(to_bytes(key), to_bytes(x), digest).hex()


@builtin("crypto.hmac.md5", string, string, returns=string)
def crypto_hmac_md5(x: str, key: str) -> str:
    """The HMAC-MD5 of `x` with `key`, in lower-case hexadecimal."""
    return _mac(x, key, "md5")


@builtin("crypto.hmac.sha1", string, string, returns=string)
def crypto_hmac_sha1(x: str, key: str) -> str:
    """The HMAC-SHA-1 of `x` with `key`, in lower-case hexadecimal."""
    return _mac(x, key, "sha1")


@builtin("crypto.hmac.sha256", string, string, returns=string)
def crypto_hmac_sha256(x: str, key: str) -> str:
    """The HMAC-SHA-256 of `x` with `key`, in lower-case hexadecimal."""
    return _mac(x, key, "sha256")


@builtin("crypto.hmac.sha512", string, string, returns=string)
def crypto_hmac_sha512(x: str, key: str) -> str:
    """The HMAC-SHA-512 of `x` with `key`, in lower-case hexadecimal."""
    return _mac(x, key, "sha512")


@builtin("crypto.hmac.equal", string, string, returns=boolean)
def crypto_hmac_equal(mac1: str, mac2: str) -> bool:
    """Return true if two codes are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(to_bytes(mac1), to_bytes(mac2))


@builtin("crypto.x509.parse_certificates", string, returns=array(_OBJECT), context=True)
def crypto_x509_parse_certificates(context: Context, certs: str) -> list[Value]:
    """The certificates in PEM or base64 text as an array of objects. Nothing is verified. A
    malformed certificate, or a PEM block of another kind, is an error; LimitError for too long a
    text or too many certificates.
    """
    with context.enforce_deadline(len(certs) // _USUAL):
        return [certificate_object(each) for each in read_certificates(certs)]


_VERIFIED: Final = tuple_(boolean, array(_OBJECT))


@builtin(
    "crypto.x509.parse_and_verify_certificates",
    string,
    returns=_VERIFIED,
    context=True,
    pure=False,
)
def crypto_x509_parse_and_verify_certificates(context: Context, certs: str) -> list[Value]:
    """`[true, chain]` if the last certificate in the text (the leaf) is valid now for servers and
    leads to the first one (the trusted root), with the chain from leaf to root. Otherwise `[false,
    []]`, also for text that cannot be read or has fewer than two certificates. LimitError for too
    long a text or too many certificates.
    """
    return _verify_chain(context, certs, lambda: Options(_now_ns(context)), uri_strings=True)


@builtin(
    "crypto.x509.parse_and_verify_certificates_with_options",
    string,
    _OBJECT,
    returns=_VERIFIED,
    context=True,
    pure=False,
)
def crypto_x509_parse_and_verify_certificates_with_options(
    context: Context, certs: str, options: Object
) -> list[Value]:
    """`[true, chain]` if the certificates form a chain that is valid under the options CurrentTime
    (nanoseconds), DNSName and KeyUsages, else `[false, []]`. The first certificate is trusted, the
    last one verified. An unknown or invalid option is an error; LimitError for too long a text or
    too many certificates.
    """
    return _verify_chain(
        context, certs, lambda: read_options(options, _now_ns(context)), uri_strings=False
    )


def _now_ns(context: Context) -> int:
    """The nanoseconds since the epoch by the environment's clock. A time that the caller of the
    policy sets (`context.now_ns`) is not used, since it must not make an expired certificate valid.
    """
    return context.environment.clock()


def _verify_chain(
    context: Context, certs: str, options: Callable[[], Options], *, uri_strings: bool
) -> list[Value]:
    """Return `[true, chain]` if the last certificate in the text is verified under the options,
    with the first one as root and those between as intermediates; the chain holds certificate
    objects. Otherwise `[false, []]`, also if the text cannot be read or has fewer than two
    certificates. A BuiltinError of `options()` is raised; LimitError for too long a text or too
    many certificates. `uri_strings`: the objects have the field `URIStrings` too. Stops at the
    decision's deadline.
    """
    with context.enforce_deadline(len(certs) // _USUAL):
        try:
            certificates = read_certificates(certs)
        except BuiltinError:
            return [False, []]
        # Only now: as in OPA, certificates that cannot be read hide an invalid option.
        verify_options = options()
        if len(certificates) < 2:
            return [False, []]
        try:
            chain = verified_chain(certificates, verify_options, context.check_deadline)
        except Unverified:
            return [False, []]
        return [True, [certificate_object(each, uri_strings=uri_strings) for each in chain]]


@builtin("crypto.x509.parse_certificate_request", string, returns=_OBJECT, context=True)
def crypto_x509_parse_certificate_request(context: Context, csr: str) -> Object:
    """The fields of a PEM or base64 certificate request as an object. A malformed request, or a PEM
    block of another kind, is an error; LimitError for too long a text.
    """
    with context.enforce_deadline(len(csr) // _USUAL):
        return request_of(bounded(csr))


@builtin(
    "crypto.x509.parse_keypair",
    string,
    string,
    returns=_OBJECT,
    context=True,
    refuse=refuse_as_first,
)
def crypto_x509_parse_keypair(context: Context, cert: str, pem: str) -> Object:
    """An object with a PEM certificate chain and the private key of its first certificate, the only
    one that is read. It is an error if one of them is missing or malformed, or if the key belongs
    to another certificate or is of X25519; LimitError for too long a text or too many certificates.
    """
    with context.enforce_deadline((len(cert) + len(pem)) // _USUAL):
        return pair_of(cert, pem)


@builtin("crypto.x509.parse_rsa_private_key", string, returns=_OBJECT)
def crypto_x509_parse_rsa_private_key(pem: str) -> Value:
    """The first private key in a PEM text, or the base64 of one (RSA, EC, Ed25519 or X25519,
    despite the name), as a JWK; null for text without one. Keys in blocks of another label, such as
    encrypted ones, are left out. Empty text, invalid base64, and any key that is malformed or of
    another kind or curve, are errors; LimitError for too long a text, or more than `MAX_KEYS`.
    """
    if not pem:
        raise BuiltinError("input PEM data was empty")
    if not bounded(pem).startswith("-----BEGIN"):
        pem = from_bytes(base64.decode(pem))
    keys = _private_keys(pem)
    return private_jwk(keys[0]) if keys else None


@builtin("crypto.parse_private_keys", string, returns=array(_OBJECT))
def crypto_parse_private_keys(keys: str) -> Value:
    """The private keys in PEM, or base64 of PEM, as objects; other text, and blocks such as
    encrypted keys, are left out. Null for empty text, [] for text without keys. A key that is
    malformed or not RSA, EC, Ed25519 or X25519 is an error; LimitError for more than `MAX_KEYS`, or
    too long a text.
    """
    return [private_object(key) for key in _private_keys(keys)] if keys else None


def _private_keys(text: str) -> list[Any]:
    """The private keys in PEM, or base64 of PEM, as cryptography's objects. BuiltinError for one
    that is malformed or of another kind, LimitError for more than `MAX_KEYS`.
    """
    blocks = private_blocks(pem_blocks(text))
    if len(blocks) > MAX_KEYS:
        raise LimitError(f"text has more than {MAX_KEYS} private keys")
    return [load_private(block) for block in blocks]
