"""Digests, against the published test vectors and on bytes that are not text."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins import REGISTRY
from doorward.rego.builtins.registry.context import Context, Environment
from doorward.rego.errors import BuiltinError, LimitError


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("crypto.md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("crypto.sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("crypto.sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ],
)
def test_digests_of_abc(name: str, digest: str) -> None:
    assert REGISTRY[name].call("abc") == digest


def test_a_digest_of_bytes_that_are_no_text() -> None:
    octets = REGISTRY["hex.decode"].call("ff")
    assert REGISTRY["crypto.md5"].call(octets) == "00594fd4f42ba43fc1ca0427a0576295"


def test_codes_of_rfc_2202_and_4231() -> None:
    key, text = "Jefe", "what do ya want for nothing?"
    codes = {name: REGISTRY[f"crypto.hmac.{name}"].call(text, key) for name in _CODES}
    assert codes == _CODES
    assert REGISTRY["crypto.hmac.equal"].call(codes["md5"], _CODES["md5"]) is True
    assert REGISTRY["crypto.hmac.equal"].call(codes["md5"], codes["sha1"]) is False


_CODES = {
    "md5": "750c783e6ab0b503eaa86e310a5db738",
    "sha1": "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
    "sha256": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    "sha512": (
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65"
        "f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
    ),
}


def test_a_parent_with_a_key_of_an_unknown_kind_verifies_nothing() -> None:
    parent = _certificate("parent", _KEY, issuer="parent", ca=True)
    leaf = _certificate("leaf", _KEY, issuer="parent", ca=False)
    # 1.2.840.10045.2.1, a key on an elliptic curve, to a kind that nobody knows.
    strange = parent.replace(bytes.fromhex("2a8648ce3d0201"), bytes.fromhex("2a8648ce3d1c01"))
    assert strange != parent
    verify = REGISTRY["crypto.x509.parse_and_verify_certificates"].call
    texts = [
        "".join(
            x509.load_der_x509_certificate(der).public_bytes(serialization.Encoding.PEM).decode()
            for der in chain
        )
        for chain in ((parent, leaf), (strange, leaf))
    ]
    valid, broken = [verify(Context(Environment()), text) for text in texts]
    assert valid[0] is True
    assert broken == [False, []]


def test_a_root_of_version_3_says_that_it_is_an_authority() -> None:
    leaf = _certificate("leaf", _KEY, issuer="parent", ca=False)
    verify = REGISTRY["crypto.x509.parse_and_verify_certificates"].call
    verdicts = [
        verify(Context(Environment()), _pem(_certificate("parent", _KEY, "parent", ca=ca), leaf))[0]
        for ca in (True, False, None)
    ]
    assert verdicts == [True, False, False]


def test_a_certificate_names_one_algorithm() -> None:
    ecdsa = bytes.fromhex("06082a8648ce3d040302")  # with SHA-256
    der = _certificate("parent", _KEY, issuer="parent", ca=True)
    assert der.count(ecdsa) == 2
    at = der.rindex(ecdsa)
    changed = der[:at] + ecdsa[:-1] + b"\x03" + der[at + len(ecdsa) :]
    parse = REGISTRY["crypto.x509.parse_certificates"].call
    assert len(parse(Context(Environment()), _pem(der))) == 1
    with pytest.raises(BuiltinError, match="algorithm identifiers don't match"):
        parse(Context(Environment()), _pem(changed))


def _pem(*certificates: bytes) -> str:
    encoded = [base64.encodebytes(der).decode() for der in certificates]
    return "".join(f"-----BEGIN CERTIFICATE-----\n{e}-----END CERTIFICATE-----\n" for e in encoded)


_KEY = ec.derive_private_key(7, ec.SECP256R1())


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, *, ca: bool | None
) -> bytes:
    """`ca`: None for a certificate without basic constraints."""

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    start = datetime(2020, 1, 1, tzinfo=UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36500))
    )
    if ca is not None:
        constraints = x509.BasicConstraints(ca=ca, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_text_before_private_keys_is_skipped() -> None:
    key = private_pem(ec.generate_private_key(ec.SECP256R1()))
    parse = partial(invoke, "crypto.parse_private_keys")
    assert len(parse(f"x\n{key}{key}")) == 2
    assert parse(f"x {key[5:]}") == []
    assert parse(f"\n{key}") == parse(key) == parse(base64.b64encode(key.encode()).decode())
    assert parse("x") == []
    with pytest.raises(BuiltinError):
        invoke("crypto.x509.parse_rsa_private_key", f"x\n{key}")


def test_all_private_keys_are_read_where_the_first_is_wanted() -> None:
    key = private_pem(ec.generate_private_key(ec.SECP256R1()))
    parse = partial(invoke, "crypto.x509.parse_rsa_private_key")
    assert parse(key + key) == parse(key)
    bad = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"
    with pytest.raises(BuiltinError, match="failed to parse private key"):
        parse(key + bad)


def test_a_pair_needs_its_first_certificate_only() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    key, certificate = private_pem(private), certificate_pem(private)
    parse = partial(invoke, "crypto.x509.parse_keypair")
    other = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
    public = "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n"
    assert len(parse(public + certificate + other, key)["Certificate"]) == 2
    der = base64.b64encode(pem_body(certificate)).decode()
    assert parse(der, base64.b64encode(pem_body(key)).decode()) == parse(certificate, key)
    for wrong in (
        other + certificate,
        public,
        base64.b64encode(pem_body(certificate) * 2).decode(),
        "x",
    ):
        with pytest.raises(BuiltinError):
            parse(wrong, key)
    with pytest.raises(LimitError, match="more than 100 certificates"):
        parse(certificate * 101, key)


def private_pem(key: Any) -> str:
    """The PKCS #8 PEM of a private key."""
    text: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return text.decode()


def certificate_pem(key: Any) -> str:
    """The PEM of a certificate that the key signs for itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    day = datetime(2020, 1, 1, tzinfo=UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + timedelta(1))
    return built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def pem_body(text: str) -> bytes:
    """The bytes of the PEM block of a text."""
    return base64.b64decode("".join(text.splitlines()[1:-1]))
