"""The `.signatures.json` of a bundle: each file with its hash, in a JWT; `signatures` reads it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from doorward.bundles.signatures import ALGORITHMS, SignatureError, hashed_content
from doorward.rego.golang import ordered_text

__all__ = ["compact_token", "fixed_signature", "sign", "signing_input"]

_HASHES: Final = {"256": "sha256", "384": "sha384", "512": "sha512"}
_LISTED: Final = "SHA-256"
_CURVES: Final = frozenset({"secp224r1", "secp256r1", "secp384r1", "secp521r1"})
"""The curves of Go's standard library, by their names in SEC 2."""


def sign(
    files: Iterable[tuple[str, bytes]], key: str, algorithm: str, claims: Mapping[str, Any]
) -> bytes:
    """Return the bytes of `.signatures.json` for `files` (names and contents); `claims` are added
    to the payload, but a claim `files` is replaced. `key` is a private key in PEM, or a secret for
    HS algorithms. Raise `SignatureError` if the algorithm is unknown or the key does not fit it,
    and LoadError for a data file or manifest that is not valid.
    """
    if algorithm not in ALGORITHMS:
        raise SignatureError(f"unknown signature algorithm: {algorithm}")
    listed = [
        {
            "name": name,
            "hash": hashlib.sha256(hashed_content(name, content)).hexdigest(),
            "algorithm": _LISTED,
        }
        for name, content in sorted(files)
    ]
    token = compact_token({**claims, "files": listed}, key, algorithm)
    return (json.dumps({"signatures": [token]}, indent=" ") + "\n").encode()


def compact_token(
    claims: Mapping[str, Any], key: str, algorithm: str, header: Mapping[str, str] | None = None
) -> str:
    """Return a signed JWT of `claims`; `header` adds members to its header. `algorithm` must be one
    of ALGORITHMS. Raise SignatureError if the key does not fit it.
    """
    text = signing_input(claims, algorithm, header)
    return b".".join([text, _encode(_signature(text, key, algorithm))]).decode()


def signing_input(
    claims: Mapping[str, Any], algorithm: str, header: Mapping[str, str] | None = None
) -> bytes:
    """Return the part of a JWT that its signature covers: `HEADER.PAYLOAD`, each in base64url."""
    head = ordered_text({"alg": algorithm, "typ": "JWT", **(header or {})})
    return b".".join([_encode(part.encode()) for part in (head, ordered_text(dict(claims)))])


def fixed_signature(signature: bytes, length: int) -> bytes:
    """Convert an ECDSA signature from DER to the form of JWTs: two numbers of `length` bytes. Raise
    ValueError or OverflowError if it is not DER or too long.
    """
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    r, s = decode_dss_signature(signature)
    return r.to_bytes(length, "big") + s.to_bytes(length, "big")


def _encode(octets: bytes) -> bytes:
    return base64.urlsafe_b64encode(octets).rstrip(b"=")


def _signature(text: bytes, key: str, algorithm: str) -> bytes:
    """Return the signature of `text`, for an algorithm of `ALGORITHMS`: those with HS take the key
    as a secret, others as a private key in PEM. Raise SignatureError if the key is not valid, of
    another kind (RSA or EC), too small for RSA, or on a curve that no verifier reads.

    As in OPA, a key of another curve of NIST than the algorithm's is accepted (RFC 7518 refuses
    it), because OPA and `signatures` verify what it signs.
    """
    family, size = algorithm[:2], algorithm[2:]
    if family == "HS":
        return hmac.digest(key.encode(), text, _HASHES[size])
    # What only signing with a private key needs.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    hashes: Mapping[str, HashAlgorithm] = {"256": SHA256(), "384": SHA384(), "512": SHA512()}
    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SignatureError("failed to parse PEM block containing the key") from None
    chosen = hashes[size]
    if family == "ES" and isinstance(private, ec.EllipticCurvePrivateKey):
        if private.curve.name not in _CURVES:
            raise SignatureError(
                f"the curve {private.curve.name} of the key is not supported: use P-256, P-384 or "
                "P-521"
            )
        # RFC 7518, 3.4: both numbers in full length, which DER does not keep.
        length = (private.curve.key_size + 7) // 8
        return fixed_signature(private.sign(text, ec.ECDSA(chosen)), length)
    if family in ("RS", "PS") and isinstance(private, rsa.RSAPrivateKey):
        # RFC 7518, 3.5: the salt is as long as the hash.
        probabilistic = padding.PSS(padding.MGF1(chosen), padding.PSS.DIGEST_LENGTH)
        scheme = padding.PKCS1v15() if family == "RS" else probabilistic
        try:
            return private.sign(text, scheme, chosen)
        except ValueError:
            # The key has fewer bits than the hash and its padding need.
            raise SignatureError(
                f"the RSA key is too small for {algorithm}: use one of 2048 bits or more"
            ) from None
    kind = "EC" if family == "ES" else "RSA"
    raise SignatureError(f"the key cannot sign with {algorithm}: a private {kind} key is needed")
