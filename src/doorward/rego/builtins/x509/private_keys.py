"""Private keys in PEM become keys, the objects of Go's structures, and JWKs.

At most `MAX_KEY` bytes: what a key costs to read grows faster than its length.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from typing import Any, Final

from doorward.rego.builtins.jose.jwk import is_rsa_key
from doorward.rego.builtins.x509 import pem
from doorward.rego.builtins.x509.der import read
from doorward.rego.errors import BuiltinError
from doorward.rego.values import Key, Value

__all__ = ["MAX_KEY", "load_private", "private_jwk", "private_object", "public_numbers"]

MAX_KEY: Final = 16 * 1024
"""The most bytes of a private key in DER; a longer one cannot be read (BuiltinError)."""

Object = dict[Key, Value]


def load_private(block: pem.Block) -> Any:
    """The private key in a PEM block, of any kind, as cryptography's object. BuiltinError if it is
    encrypted, malformed, longer than `MAX_KEY`, or of an unknown kind.
    """
    # only policies that handle private keys need it
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        if len(block.octets) > MAX_KEY:
            raise ValueError("too long")
        read(block.octets)
        # The check of primality would take minutes at this size; `is_rsa_key` makes the cheap
        # ones.
        key = load_der_private_key(block.octets, None, unsafe_skip_rsa_key_validation=True)
        if isinstance(key, RSAPrivateKey) and not is_rsa_key(key.private_numbers()):
            raise ValueError("the numbers of the RSA key do not fit together")
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BuiltinError("tls: failed to parse private key") from None
    return key


def public_numbers(key: Any) -> Value:
    """The public part of a private key, as the object (for Ed25519, the base64 text) of Go's
    types.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # loaded by now

    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        return {"N": numbers.n, "E": numbers.e}
    if isinstance(public, ec.EllipticCurvePublicKey):
        point = public.public_numbers()
        return {"Curve": {}, "X": point.x, "Y": point.y}
    return b64encode(public.public_bytes_raw()).decode()


def private_object(key: Any) -> Value:
    """The object of a private key, with the fields of Go's types; for Ed25519, the base64 text of
    private and public key. BuiltinError for an unknown kind.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # loaded by now

    public = public_numbers(key)
    if isinstance(key, rsa.RSAPrivateKey) and isinstance(public, dict):
        n = key.private_numbers()
        return {
            **public,
            "D": n.d,
            "Primes": [n.p, n.q],
            "Precomputed": {"Dp": n.dmp1, "Dq": n.dmq1, "Qinv": n.iqmp, "CRTValues": []},
        }
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(public, dict):
        return {**public, "D": key.private_numbers().private_value}
    if isinstance(key, ed25519.Ed25519PrivateKey):
        raw = key.private_bytes_raw() + key.public_key().public_bytes_raw()
        return b64encode(raw).decode()
    raise BuiltinError("tls: found unknown private key type")


def private_jwk(key: Any) -> Value:
    """A private key as a JWK object; BuiltinError for a kind other than RSA, EC and Ed25519."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # loaded by now

    if isinstance(key, rsa.RSAPrivateKey):
        n = key.private_numbers()
        public = n.public_numbers
        numbers = {"n": public.n, "e": public.e, "d": n.d, "p": n.p, "q": n.q}
        numbers |= {"dp": n.dmp1, "dq": n.dmq1, "qi": n.iqmp}
        jwk: Object = {"kty": "RSA"}
        jwk.update({name: _number(value) for name, value in numbers.items()})
        return jwk
    if isinstance(key, ec.EllipticCurvePrivateKey):
        private = key.private_numbers()
        point = private.public_numbers
        size = (key.curve.key_size + 7) // 8
        coordinates = {"x": point.x, "y": point.y, "d": private.private_value}
        curve = f"P-{key.curve.key_size}"
        parts = {name: _number(value, size) for name, value in coordinates.items()}
        return {"kty": "EC", "crv": curve, "x": parts["x"], "y": parts["y"], "d": parts["d"]}
    if isinstance(key, ed25519.Ed25519PrivateKey):
        d, x = key.private_bytes_raw(), key.public_key().public_bytes_raw()
        return {"kty": "OKP", "crv": "Ed25519", "d": _base64url(d), "x": _base64url(x)}
    raise BuiltinError("unknown private key type")


def _number(value: int, size: int = 0) -> str:
    """A number as base64url of its bytes, big-endian, padded with zeros to `size` bytes."""
    return _base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def _base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
