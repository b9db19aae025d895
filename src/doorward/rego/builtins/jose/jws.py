"""JSON Web Signatures: the algorithms of RFC 7518, each verifying and signing with its own keys.

INVARIANT: an algorithm never works with another one's kind of key. A public key is not an HMAC
secret and a secret no public key, whatever a token's header says; `none` does not exist.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from doorward.base.records import record
from doorward.rego.errors import BuiltinError

if TYPE_CHECKING:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

__all__ = ["ALGORITHMS", "LENIENT", "Algorithm"]


@record
class Algorithm:
    """One JWS algorithm with `verify(key, signed, signature)` and `sign(key, signed)`. For a key of
    another kind `verify` returns False and `sign` raises BuiltinError. A private key verifies
    nothing.
    """

    name: str
    verify: Callable[[Any, bytes, bytes], bool]
    sign: Callable[[Any, bytes], bytes]


def _hmac(name: str, digest: str) -> Algorithm:
    """Return the HMAC algorithm `name` with this digest: its keys are bytes, for verifying and for
    signing alike. Verifying with another key gives False, signing BuiltinError; signatures are
    compared in constant time.
    """

    def compute(key: bytes, signed: bytes) -> bytes:
        """Return the HMAC of `signed` under `key`, from copies of the cached keyed states."""
        start, end = _start_hmac(key, digest)
        inner, outer = start.copy(), end.copy()
        inner.update(signed)
        outer.update(inner.digest())
        return outer.digest()

    def verify(key: Any, signed: bytes, signature: bytes) -> bool:
        """Return True if the signature is right; False also for a key that is not bytes."""
        return isinstance(key, bytes) and hmac.compare_digest(compute(key, signed), signature)

    def sign(key: Any, signed: bytes) -> bytes:
        """Return the HMAC; BuiltinError for a key that is not bytes."""
        if not isinstance(key, bytes):
            raise BuiltinError(f"{name} needs a key of type oct")
        return compute(key, signed)

    return Algorithm(name, verify, sign)


@lru_cache(maxsize=64)
def _start_hmac(key: bytes, digest: str) -> tuple[hashlib._Hash, hashlib._Hash]:
    """Return the inner and the outer hash of an HMAC (RFC 2104), each after the key and before any
    text.

    Callers copy them: for the short text of a token, setting up the key costs more than the rest,
    and the objects of `hmac`, which wrap one hash more, cost half as much again.
    """
    size = hashlib.new(digest).block_size
    if len(key) > size:
        key = hashlib.new(digest, key).digest()
    block = key.ljust(size, b"\0")
    return hashlib.new(digest, block.translate(_INNER)), hashlib.new(
        digest, block.translate(_OUTER)
    )


_INNER: Final = bytes(octet ^ 0x36 for octet in range(256))
_OUTER: Final = bytes(octet ^ 0x5C for octet in range(256))


def _rsa(name: str, digest: str, *, pss: bool, any_salt: bool = False) -> Algorithm:
    """Return the RSA algorithm `name` with this digest, with PSS padding if `pss`, otherwise PKCS
    #1 v1.5: it verifies with public RSA keys (False for other keys and wrong signatures) and signs
    with private ones (BuiltinError for others). `any_salt` (default False) accepts a PSS salt of
    any length when verifying, not only that of the digest.
    """

    @cache
    def scheme(*, verifying: bool) -> tuple[Any, Any]:
        """Return the padding and hash for verifying or signing, which have no state; cached. The
        salt of PSS may have any length only when verifying, with `any_salt`.
        """
        from cryptography.hazmat.primitives import hashes  # loaded by those who use it
        from cryptography.hazmat.primitives.asymmetric import padding

        hash_ = getattr(hashes, digest.upper())()
        if not pss:
            return padding.PKCS1v15(), hash_
        salt = padding.PSS.AUTO if verifying and any_salt else padding.PSS.DIGEST_LENGTH
        return padding.PSS(padding.MGF1(hash_), salt), hash_

    def verify(key: Any, signed: bytes, signature: bytes) -> bool:
        """Return True if the signature is right; False also for one that is not as long as the
        modulus, or a key that is not a public RSA key.
        """
        invalid_signature, public_key = _rsa_classes()
        # As long as the modulus (RFC 8017, 8.1.2): OpenSSL takes one without leading zeros, too.
        if not isinstance(key, public_key) or len(signature) != (key.key_size + 7) // 8:
            return False
        try:
            key.verify(signature, signed, *scheme(verifying=True))
        except (invalid_signature, ValueError):
            return False
        return True

    def sign(key: Any, signed: bytes) -> bytes:
        """Return the signature of `signed` under an RSA private key; BuiltinError for a key of
        another type, or one that is too short for the digest.
        """
        from cryptography.hazmat.primitives.asymmetric.rsa import (  # loaded by those who use it
            RSAPrivateKey,
        )

        if not isinstance(key, RSAPrivateKey):
            raise BuiltinError(f"{name} needs a private key of type RSA")
        try:
            return key.sign(signed, *scheme(verifying=False))
        except ValueError:
            raise BuiltinError(f"RSA key is too short for {name}") from None

    return Algorithm(name, verify, sign)


@cache
def _rsa_classes() -> tuple[type[InvalidSignature], type[RSAPublicKey]]:
    """The error of a wrong signature, and the class of public RSA keys.

    Cached: two statements of import take a microsecond for each token.
    """
    from cryptography.exceptions import InvalidSignature  # loaded by those who use it
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    return InvalidSignature, RSAPublicKey


def _ecdsa(name: str, digest: str, *, any_length: bool = False) -> Algorithm:
    """Return the ECDSA algorithm `name` with this digest, for keys of any curve: it verifies with
    public EC keys (False for other keys and wrong signatures) and signs with private ones
    (BuiltinError for others). A signature is two numbers of the curve's length; `any_length`
    (default False) accepts one of any length when verifying, whose halves are the numbers.
    """

    @cache
    def scheme() -> Any:
        """The signature algorithm with the digest, which has no state."""
        from cryptography.hazmat.primitives import hashes  # loaded by those who use it
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.ECDSA(getattr(hashes, digest.upper())())

    def verify(key: Any, signed: bytes, signature: bytes) -> bool:
        """Return True if the signature `r || s` is right; False also for one of the wrong length,
        or a key that is not a public EC key.
        """
        from cryptography.exceptions import InvalidSignature  # loaded by those who use it
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        half = len(signature) // 2
        if not any_length and len(signature) != 2 * ((key.curve.key_size + 7) // 8):
            return False
        r = int.from_bytes(signature[:half], "big")
        s = int.from_bytes(signature[half:], "big")
        try:
            key.verify(utils.encode_dss_signature(r, s), signed, scheme())
        except (InvalidSignature, ValueError):
            return False
        return True

    def sign(key: Any, signed: bytes) -> bytes:
        """Return the signature of `signed` under a private EC key, as `r || s` in the curve's
        length; BuiltinError for a key of another type.
        """
        from cryptography.hazmat.primitives.asymmetric import (
            ec,
            utils,
        )  # loaded by those who use it

        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise BuiltinError(f"{name} needs a private key of type EC")
        size = (key.curve.key_size + 7) // 8
        r, s = utils.decode_dss_signature(key.sign(signed, scheme()))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")

    return Algorithm(name, verify, sign)


def _verify_eddsa(key: Any, signed: bytes, signature: bytes) -> bool:
    """Return True if the signature is right; False also for a key that is not Ed25519."""
    from cryptography.exceptions import InvalidSignature  # loaded by those who use it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not isinstance(key, Ed25519PublicKey):
        return False
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _sign_eddsa(key: Any, signed: bytes) -> bytes:
    """Return the Ed25519 signature; BuiltinError for a key of another type."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # loaded by those who use it
        Ed25519PrivateKey,
    )

    if not isinstance(key, Ed25519PrivateKey):
        raise BuiltinError("EdDSA needs a private key of type OKP")
    return key.sign(signed)


ALGORITHMS: Final[dict[str, Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in [
        *[_hmac(f"HS{size}", f"sha{size}") for size in (256, 384, 512)],
        *[_rsa(f"RS{size}", f"sha{size}", pss=False) for size in (256, 384, 512)],
        *[_rsa(f"PS{size}", f"sha{size}", pss=True) for size in (256, 384, 512)],
        *[_ecdsa(f"ES{size}", f"sha{size}") for size in (256, 384, 512)],
        Algorithm("EdDSA", _verify_eddsa, _sign_eddsa),
    ]
}

LENIENT: Final[dict[str, Algorithm]] = {
    algorithm.name: algorithm
    for size in (256, 384, 512)
    for algorithm in (
        _rsa(f"PS{size}", f"sha{size}", pss=True, any_salt=True),
        _ecdsa(f"ES{size}", f"sha{size}", any_length=True),
    )
}
"""The PS algorithms with a salt of any length, and the ES algorithms with numbers of any length.
OPA's `io.jwt.verify_ps256` and `verify_es256` accept those; `io.jwt.decode_verify` requires a salt
as long as the hash, and numbers as long as the curve, as RFC 7518 does.
"""
