"""The public keys of certificates and requests, read and checked as Go reads them."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from doorward.base.records import record
from doorward.rego.builtins.x509 import der
from doorward.rego.builtins.x509.der import Element, Oid, Reader
from doorward.rego.values import Value

__all__ = ["DSA", "ECDSA", "ED25519", "RSA", "PublicKey", "parse_public_key"]

RSA: Final = 1
DSA: Final = 2
ECDSA: Final = 3
ED25519: Final = 4
_ALGORITHMS: Final[dict[Oid, int]] = {
    (1, 2, 840, 113549, 1, 1, 1): RSA,
    (1, 2, 840, 10040, 4, 1): DSA,
    (1, 2, 840, 10045, 2, 1): ECDSA,
    (1, 3, 101, 112): ED25519,
}
"""Go's numbers of the algorithms of keys; 0 is an unknown one."""


@record
class _Curve:
    """A curve y² = x³ - 3x + b over the numbers below the prime p, with Go's name."""

    name: str
    p: int
    b: int

    @property
    def size(self) -> int:
        """The bytes of a coordinate."""
        return (self.p.bit_length() + 7) // 8

    def has(self, x: int, y: int) -> bool:
        return (y * y - (x * x * x - 3 * x + self.b)) % self.p == 0


# The primes and constants of FIPS 186-4, D.1.2.
_CURVES: Final[dict[Oid, _Curve]] = {
    (1, 3, 132, 0, 33): _Curve(
        "P224", 2**224 - 2**96 + 1,
        0xB4050A850C04B3ABF54132565044B0B7D7BFD8BA270B39432355FFB4,
    ),
    (1, 2, 840, 10045, 3, 1, 7): _Curve(
        "P256", 2**256 - 2**224 + 2**192 + 2**96 - 1,
        0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    ),
    (1, 3, 132, 0, 34): _Curve(
        "P384", 2**384 - 2**128 - 2**96 + 2**32 - 1,
        0xB3312FA7E23EE7E4988E056BE3F82D19181D9C6EFE8141120314088F5013875AC656398D8A2ED19D2A85C8EDD3EC2AEF,
    ),
    (1, 3, 132, 0, 35): _Curve(
        "P521", 2**521 - 1,
        0x051953EB9618E1C9A1F929A21A0B68540EEA2DA725B99B315F3B8B489918EF109E156193951EC7E937B1652C0BD3BB1BF073573DF883D2C34F1EF451FD46B503F00,
    ),
}  # fmt: skip


@record
class PublicKey:
    """A public key: its DER, Go's number of its algorithm, and its fields as an object with the
    names of Go's types, None for an unknown algorithm.
    """

    raw: bytes
    algorithm: int
    value: Value


def parse_public_key(element: Element) -> PublicKey:
    """Return the key in a DER sequence, its algorithm by Go's number; one of an unknown algorithm
    has number 0 and no value. ValueError, with Go's text, if it is malformed, or if one of a known
    algorithm is not valid.
    """
    reader = Reader(element.content)
    identifier = reader.inside(der.SEQUENCE, "x509: malformed public key algorithm identifier")
    oid = identifier.oid("x509: malformed OID")
    parameters = b"" if identifier.is_empty else identifier.any("x509: malformed parameters").raw
    octets, unused = reader.bits("x509: malformed subjectPublicKey")
    data = (int.from_bytes(octets, "big") >> unused).to_bytes(len(octets), "big")
    algorithm = _ALGORITHMS.get(oid, 0)
    value: Value = None
    if algorithm == RSA:
        value = _rsa(parameters, data)
    elif algorithm == DSA:
        value = _dsa(parameters, data)
    elif algorithm == ECDSA:
        value = _ecdsa(parameters, data)
    elif algorithm == ED25519:
        value = _ed25519(parameters, data)
    return PublicKey(element.raw, algorithm, value)


def _rsa(parameters: bytes, data: bytes) -> Value:
    """Return modulus and exponent as an object with `N` and `E`; ValueError if the key is
    malformed, one of them is not above 0, or the parameters are not NULL.
    """
    if parameters != b"\x05\x00":
        raise ValueError("x509: RSA key missing NULL parameters")
    reader = Reader(data).inside(der.SEQUENCE, "x509: invalid RSA public key")
    modulus = reader.integer("x509: invalid RSA modulus")
    exponent = reader.small_integer("x509: invalid RSA public exponent")
    if modulus <= 0:
        raise ValueError("x509: RSA modulus is not a positive number")
    if exponent <= 0:
        raise ValueError("x509: RSA public exponent is not a positive number")
    return {"N": modulus, "E": exponent}


def _dsa(parameters: bytes, data: bytes) -> Value:
    """Return the parameters and the public number; ValueError if the key is malformed or one of
    them is not above 0.
    """
    y = Reader(data).integer("x509: invalid DSA public key")
    fault = "x509: invalid DSA parameters"
    reader = Reader(parameters).inside(der.SEQUENCE, fault)
    p, q, g = reader.integer(fault), reader.integer(fault), reader.integer(fault)
    if min(y, p, q, g) <= 0:
        raise ValueError("x509: zero or negative DSA parameter")
    return {"P": p, "Q": q, "G": g, "Y": y}


def _ecdsa(parameters: bytes, data: bytes) -> Value:
    """Return the point of the key as an object with `X`, `Y` and an empty `Curve`; it must be
    uncompressed. ValueError if it is malformed or not on the curve, or for another curve than those
    in `_CURVES`.
    """
    curve = _CURVES.get(Reader(parameters).oid("x509: invalid ECDSA parameters"))
    if curve is None:
        raise ValueError("x509: unsupported elliptic curve")
    if data[:1] != b"\x04":
        raise ValueError("ecdsa: invalid uncompressed public key")
    if len(data) != 1 + 2 * curve.size:
        raise ValueError(f"invalid {curve.name} point encoding")
    x = int.from_bytes(data[1 : 1 + curve.size], "big")
    y = int.from_bytes(data[1 + curve.size :], "big")
    if max(x, y) >= curve.p:
        raise ValueError(f"invalid {curve.name} element encoding")
    if not curve.has(x, y):
        raise ValueError(f"{curve.name} point not on curve")
    return {"Curve": {}, "X": x, "Y": y}


def _ed25519(parameters: bytes, data: bytes) -> Value:
    """Return the key in base64; ValueError unless it has 32 bytes and no parameters."""
    if parameters:
        raise ValueError("x509: Ed25519 key encoded with illegal parameters")
    if len(data) != 32:
        raise ValueError("x509: wrong Ed25519 public key size")
    return b64encode(data).decode()
