"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

_NOW = datetime.now(UTC)
_SIGNING = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Signs certificates and writes them as files into `folder`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.file = folder / f"{name}.pem"
        certificate = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        certificate = certificate.add_extension(_SIGNING, critical=True)
        signed = certificate.sign(self._key, hashes.SHA256())
        self.file.write_bytes(signed.public_bytes(Encoding.PEM))

    def issue(self, name: str, file: str = "") -> tuple[str, str]:
        """The files of a certificate for `name` at 127.0.0.1, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        builder = self._builder(_named(name), key.public_key()).add_extension(addresses, False)
        certificate = self._folder / f"{file or name}.crt"
        private = self._folder / f"{file or name}.key"
        signed = builder.sign(self._key, hashes.SHA256())
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        private.write_bytes(encoded)
        return str(certificate), str(private)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_NOW - timedelta(days=1))
            .not_valid_after(_NOW + timedelta(days=2))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )


def _named(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Doorward"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
