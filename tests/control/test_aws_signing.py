"""Requests are signed for AWS and AWS, with the same keys, finds the signature right."""

from __future__ import annotations

import hashlib
import re

import httpx
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.hashes import SHA256

from doorward.control.aws_signing import AwsKeys, sign_request

# The example that AWS's own libraries test their derivation with.
KEYS = AwsKeys("AKISORANDOMAASORANDOM", "q+jcrXGc+0zWN6uzclKVhvMmUsIfRPa4rlRandom", "r", "token")
PUBLIC = (
    0x15D242CEEBF8D8169FD6A8B5A746C41140414C3B07579038DA06AF89190FFFCB,
    0x0515242CEDD82E94799482E4C0514B505AFCCF2C0C98D6A553BF539F424C5EC0,
)


def public_key() -> EllipticCurvePublicKey:
    return EllipticCurvePublicNumbers(*PUBLIC, SECP256R1()).public_key()


def test_a_signature_of_4a_verifies_by_the_public_key_of_aws() -> None:
    url = "https://bucket.example/a%20b/c?z=1&a=x%20y"
    request = httpx.Request("PUT", url, headers={"content-type": "text/plain"}, content=b"body")
    signed = sign_request(request, KEYS, "s3", "4a")
    stamp, digest = signed["x-amz-date"], hashlib.sha256(b"body").hexdigest()
    assert signed["x-amz-region-set"] == "*"
    names = "content-length;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-region-set"
    match = re.fullmatch(
        f"AWS4-ECDSA-P256-SHA256 Credential={KEYS.access_key}/{stamp[:8]}/s3/aws4_request, "
        f"SignedHeaders={names};x-amz-security-token, Signature=([0-9a-f]+)",
        signed["authorization"],
    )
    assert match is not None
    canonical = (
        "PUT\n/a%20b/c\na=x%20y&z=1\n"
        "content-length:4\ncontent-type:text/plain\nhost:bucket.example\n"
        f"x-amz-content-sha256:{digest}\nx-amz-date:{stamp}\nx-amz-region-set:*\n"
        f"x-amz-security-token:token\n\n{names};x-amz-security-token\n{digest}"
    )
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-ECDSA-P256-SHA256\n{stamp}\n{stamp[:8]}/s3/aws4_request\n{hashed}"
    public_key().verify(bytes.fromhex(match[1]), text.encode(), ECDSA(SHA256()))
    with pytest.raises(InvalidSignature):
        public_key().verify(bytes.fromhex(match[1]), text.encode() + b" ", ECDSA(SHA256()))


def test_a_request_without_a_body_has_no_length() -> None:
    signed = sign_request(httpx.Request("GET", "http://h:8080/"), KEYS, "s3", "4a")
    assert "SignedHeaders=host;x-amz-content-sha256;" in signed["authorization"]


def test_version_4_names_the_region() -> None:
    signed = sign_request(httpx.Request("GET", "http://h/"), KEYS, "s3")
    assert "/r/s3/aws4_request" in signed["Authorization"]


def test_keys_are_in_no_representation() -> None:
    assert "Random" not in repr(KEYS)
