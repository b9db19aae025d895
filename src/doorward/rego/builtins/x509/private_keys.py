"""Private keys in PEM become keys, the objects of Go's structures, and JWKs.

At most `MAX_KEY` bytes: what a key costs to read grows faster than its length.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Any, Final

from doorward.rego.builtins.jose.jwk import is_rsa_key
from doorward.rego.builtins.x509 import pem
from doorward.rego.builtins.x509.der import Element, read
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.values import Key, Value

__all__ = [
    "MAX_KEY",
    "load_private",
    "private_blocks",
    "private_jwk",
    "private_object",
    "public_numbers",
]

MAX_KEY: Final = 16 * 1024
"""The most bytes of a private key in DER; a longer one is a LimitError."""

Object = dict[Key, Value]


_PKCS8: Final = "PRIVATE KEY"
_PKCS1: Final = "RSA PRIVATE KEY"
_SEC1: Final = "EC PRIVATE KEY"
_RSA: Final = (1, 2, 840, 113549, 1, 1, 1)
_EC: Final = (1, 2, 840, 10045, 2, 1)
_X25519: Final = (1, 3, 101, 110)
_ED25519: Final = (1, 3, 101, 112)
_CURVES: Final = frozenset(
    {(1, 3, 132, 0, 33), (1, 2, 840, 10045, 3, 1, 7), (1, 3, 132, 0, 34), (1, 3, 132, 0, 35)}
)
"""The NIST curves P-224, P-256, P-384 and P-521; Go reads EC keys of no others."""
_JWK_CURVES: Final = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


def private_blocks(blocks: Iterable[pem.Block]) -> list[pem.Block]:
    """The PEM blocks that hold a private key in a form that OPA reads; not those of encrypted keys,
    of DSA keys, or of OpenSSH.
    """
    return [block for block in blocks if block.label in {_PKCS8, _PKCS1, _SEC1}]


def load_private(block: pem.Block, *, any_form: bool = False) -> Any:
    """The private key in a PEM block, RSA, EC, Ed25519 or X25519, as cryptography's object.
    BuiltinError if it is encrypted, malformed, of another kind or curve, or, unless `any_form` is
    True, if its form is not that of the block's label. LimitError if it is longer than `MAX_KEY`.
    """
    # only policies that handle private keys need it
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    if len(block.octets) > MAX_KEY:
        raise LimitError(f"private key is longer than {MAX_KEY} bytes")
    try:
        form = _find_form(read(block.octets).children())
        if form != block.label and not any_form:
            raise ValueError("the private key does not have the form that its PEM label names")
        # The check of primality would take minutes at this size; `is_rsa_key` makes the cheap
        # ones.
        key = load_der_private_key(block.octets, None, unsafe_skip_rsa_key_validation=True)
        if isinstance(key, RSAPrivateKey) and not is_rsa_key(key.private_numbers()):
            raise ValueError("the numbers of the RSA private key are inconsistent")
    except (ValueError, IndexError, TypeError, UnsupportedAlgorithm):
        raise BuiltinError("tls: failed to parse private key") from None
    return key


def _find_form(parts: list[Element]) -> str:
    """Return the label of the form (PKCS#1, SEC 1 or PKCS#8) whose elements these are. BuiltinError
    for an algorithm or curve that Go does not know; ValueError or IndexError for another form.
    """
    match parts[1].tag:
        case 0x02 if len(parts) >= _PKCS1_PARTS:
            return _PKCS1
        case 0x04:
            _check_curve([n for part in parts if part.tag == 0xA0 for n in part.children()])
            return _SEC1
        case 0x30:
            name, *parameters = parts[1].children()
            algorithm = name.oid()
            if algorithm == _EC:
                _check_curve(parameters)
            elif algorithm not in {_RSA, _ED25519, _X25519}:
                number = ".".join(map(str, algorithm))
                raise BuiltinError(
                    f"x509: PKCS#8 wrapping contained private key with unknown algorithm: {number}"
                )
            return _PKCS8
    raise ValueError("unknown form")


_PKCS1_PARTS: Final = 9
"""The least elements of an RSA key: its version and eight numbers."""


def _check_curve(parameters: list[Element]) -> None:
    """Raise BuiltinError unless the first parameter names a curve in `_CURVES`; IndexError if there
    is none.
    """
    if parameters[0].tag != 0x06 or parameters[0].oid() not in _CURVES:
        raise BuiltinError("x509: unknown elliptic curve")


def public_numbers(key: Any) -> Value:
    """The public part of a private key, as the object (for Ed25519 and X25519, the base64 text) of
    Go's types.
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
    """Return the object of a private key, with the fields of Go's types (RSA and EC); for Ed25519
    the base64 text of private and public key, and {} for X25519.
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
    return {}


def private_jwk(key: Any) -> Value:
    """Return a private key (RSA, EC, Ed25519 or X25519) as a JWK object with its private parts.
    BuiltinError for a key on a curve that JWK does not have, such as P-224.
    """
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
        curve = _JWK_CURVES.get(key.curve.name)
        if curve is None:
            raise BuiltinError("failed to initialize *jwk.ecdsaPrivateKey: unknown elliptic curve")
        parts = {name: _number(value, size) for name, value in coordinates.items()}
        return {"kty": "EC", "crv": curve, "x": parts["x"], "y": parts["y"], "d": parts["d"]}
    name = "Ed25519" if isinstance(key, ed25519.Ed25519PrivateKey) else "X25519"
    d, x = key.private_bytes_raw(), key.public_key().public_bytes_raw()
    return {"kty": "OKP", "crv": name, "d": _base64url(d), "x": _base64url(x)}


def _number(value: int, size: int = 0) -> str:
    """A number as base64url of its bytes, big-endian, padded with zeros to `size` bytes."""
    return _base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def _base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
