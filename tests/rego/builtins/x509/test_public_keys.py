"""Public keys in certificates: each kind, and those that are not valid."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.rego.builtins.x509.test_objects import tlv

from doorward.rego.builtins.x509.der import read
from doorward.rego.builtins.x509.public_keys import DSA, ECDSA, ED25519, RSA, parse_public_key

RSA_OID = bytes.fromhex("06092a864886f70d010101")
EC_OID = bytes.fromhex("06072a8648ce3d0201")
P256 = bytes.fromhex("06082a8648ce3d030107")
ED_OID = bytes.fromhex("06032b6570")
DSA_OID = bytes.fromhex("06072a8648ce380401")
NULL = b"\5\0"
ONE, ZERO = tlv(2, b"\1"), tlv(2, b"\0")


def info(key: Any) -> bytes:
    octets: bytes = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return octets


@pytest.mark.parametrize("curve", [ec.SECP224R1, ec.SECP256R1, ec.SECP384R1, ec.SECP521R1])
def test_points_on_each_curve(curve: Any) -> None:
    key = ec.generate_private_key(curve())
    numbers = key.public_key().public_numbers()
    parsed = parse_public_key(read(info(key)))
    assert (parsed.algorithm, parsed.value) == (
        ECDSA,
        {"Curve": {}, "X": numbers.x, "Y": numbers.y},
    )
    with pytest.raises(ValueError, match="point not on curve"):
        parse_public_key(read(info(key)[:-1] + bytes([info(key)[-1] ^ 1])))


def test_keys_of_other_kinds() -> None:
    key = rsa.generate_private_key(65537, 1024)
    assert parse_public_key(read(info(key))).value == {
        "E": 65537,
        "N": key.public_key().public_numbers().n,
    }
    parsed = parse_public_key(read(info(dsa.generate_private_key(1024))))
    assert parsed.algorithm == DSA
    assert isinstance(parsed.value, dict)
    assert sorted(map(str, parsed.value)) == ["G", "P", "Q", "Y"]
    assert parse_public_key(read(info(ed25519.Ed25519PrivateKey.generate()))).algorithm == ED25519
    unknown = parse_public_key(read(info(ed448.Ed448PrivateKey.generate())))
    assert (unknown.algorithm, unknown.value) == (0, None)
    assert RSA == 1


@pytest.mark.parametrize(
    ("algorithm", "data", "fault"),
    [
        (RSA_OID, b"", "RSA key missing NULL"),
        (RSA_OID + NULL, b"", "invalid RSA public key"),
        (RSA_OID + NULL, tlv(0x30), "invalid RSA modulus"),
        (RSA_OID + NULL, tlv(0x30, tlv(2, b"\0\1"), ONE), "invalid RSA modulus"),
        (RSA_OID + NULL, tlv(0x30, ONE, tlv(2, b"\1" * 9)), "invalid RSA public exponent"),
        (RSA_OID + NULL, tlv(0x30, ZERO, ONE), "modulus is not a positive"),
        (RSA_OID + NULL, tlv(0x30, ONE, tlv(2, b"\xff")), "exponent is not a positive"),
        (EC_OID, b"", "invalid ECDSA parameters"),
        (EC_OID + NULL, b"", "invalid ECDSA parameters"),
        (EC_OID + tlv(6, b"\x2a"), b"", "unsupported elliptic curve"),
        (EC_OID + P256, b"\2" + b"\1" * 32, "invalid uncompressed public key"),
        (EC_OID + P256, b"\4" + b"\1" * 63, "invalid P256 point encoding"),
        (EC_OID + P256, b"\4" + b"\xff" * 64, "invalid P256 element encoding"),
        (ED_OID + NULL, b"\1" * 32, "illegal parameters"),
        (ED_OID, b"\1" * 31, "wrong Ed25519 public key size"),
        (DSA_OID, b"", "invalid DSA public key"),
        (DSA_OID, ONE, "invalid DSA parameters"),
        (DSA_OID + tlv(0x30, ONE, ONE, ZERO), ONE, "zero or negative DSA parameter"),
        (b"", b"", "malformed OID"),
        (ED_OID + b"\5", b"", "malformed parameters"),
    ],
)
def test_keys_that_are_not_valid_are_refused(algorithm: bytes, data: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_public_key(read(tlv(0x30, tlv(0x30, algorithm), tlv(3, b"\0", data))))
