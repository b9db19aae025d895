"""Certificates for a daemon and its users: a private authority, and what it certifies.

The daemon takes the common name of a client's certificate for the user. Keys are readable by their
owner only; nothing that exists is overwritten. Names that two readers could read differently are
refused.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from doorward.base.os_errors import describe_folder_error, describe_os_error

__all__ = ["CertificateError", "issue_client", "issue_server", "make_authority"]

_USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DNS_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z)(?:\*\.)?(?:{_DNS_LABEL}\.)*{_DNS_LABEL}")
_LONGEST_NAME: Final = 64
"""Characters of a common name."""
_AUTHORITY_DAYS: Final = 3650
# A client whose clock is behind would take a new certificate for one of the future.
_SKEW: Final = timedelta(minutes=5)


class CertificateError(Exception):
    """A certificate that cannot be made; the message says why."""


def make_authority(folder: Path) -> None:
    """Write `ca.pem` and `ca-key.pem` of a new authority, valid for `_AUTHORITY_DAYS`, to `folder`,
    which is created if it is missing. Raise CertificateError if one of the files exists or cannot
    be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Doorward Docker authority")
    builder = (
        _builder(name, name, key.public_key(), key.public_key(), _AUTHORITY_DAYS)
        # No authority below it: a user's certificate cannot sign others.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    _write(folder, "ca", builder.sign(key, hashes.SHA256()), key)


def issue_server(folder: Path, hosts: Sequence[str], *, days: int = 365) -> None:
    """Write `server-cert.pem` and `server-key.pem` for a daemon with these names and addresses.

    Raise CertificateError if `hosts` is empty or has one that is neither a name in ASCII nor an
    address, for other `days` than 1 to 3650, if a file exists or cannot be written, or if the
    folder has no authority that can be read.
    """
    if not hosts:
        raise CertificateError("a server needs at least one name or address")
    names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
    # Clients read the names above; this one may be too long for its field.
    common_name = hosts[0] if len(hosts[0]) <= _LONGEST_NAME else "server"
    _issue(folder, "server", common_name, ExtendedKeyUsageOID.SERVER_AUTH, days, names)


def issue_client(folder: Path, user: str, *, days: int = 365) -> None:
    """Write `USER-cert.pem` and `USER-key.pem`, with which a client is `user` to the daemon.

    Raise CertificateError for an invalid name, for other `days` than 1 to 3650, if a file exists or
    cannot be written, or if the folder has no authority that can be read.
    """
    # The files of these two names are those of the authority and the daemon.
    if not _USER.fullmatch(user) or user in ("ca", "server"):
        raise CertificateError(
            "a user's name must be 1 to 64 letters, digits and .-_@, begin with a letter or digit, "
            "and not be ca or server"
        )
    _issue(folder, user, user, ExtendedKeyUsageOID.CLIENT_AUTH, days, None)


def _issue(
    folder: Path,
    stem: str,
    common_name: str,
    usage: x509.ObjectIdentifier,
    days: int,
    names: x509.SubjectAlternativeName | None,
) -> None:
    """Write a new key, and its certificate signed by the folder's authority, as files that begin
    with `stem`.

    Raise CertificateError for other `days` than 1 to 3650, if the authority is missing or cannot be
    read, or if a file exists or cannot be written.
    """
    if not 1 <= days <= _AUTHORITY_DAYS:
        raise CertificateError(f"a certificate must be valid for 1 to {_AUTHORITY_DAYS} days")
    authority, authority_key = _read_authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    issuing = authority_key.public_key()
    builder = (
        _builder(_name(common_name), authority.subject, key.public_key(), issuing, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    _write(folder, f"{stem}", builder.sign(authority_key, hashes.SHA256()), key)


def _read_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the certificate and key of the folder's authority.

    Raise CertificateError if there is none, a file is damaged, or the key is encrypted or not an EC
    key.
    """
    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        key = serialization.load_pem_private_key((folder / "ca-key.pem").read_bytes(), None)
    except OSError as error:
        raise CertificateError(
            f"the authority in {folder} cannot be read: {describe_os_error(error)}; if "
            "there is none, create it with `doorward docker cert ca`"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError for an encrypted key
        raise CertificateError(
            f"the authority in {folder} cannot be read: ca.pem or ca-key.pem is damaged, or the "
            "key is encrypted; restore the files, or use another folder"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(
            f"the key of the authority in {folder} is not an EC key, as this command makes it: "
            "use another folder"
        )
    return certificate, key


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuing: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    """Return a certificate of the key `key`, valid for `days`, that is not signed yet; `issuing` is
    the public key of the authority that will sign it.

    Both key identifiers are in it: RFC 5280 requires them, and strict clients refuse certificates
    without.
    """
    identifier, signing = x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(identifier.from_public_key(key), critical=False)
        .add_extension(signing.from_issuer_public_key(issuing), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Return the key usage of a certificate: signing certificates and revocation lists if `signs`,
    else digital signatures.
    """
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        # Of RSA alone, where a client encrypts the secret to the key: these are EC keys.
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    """Return a host as an alternative name of a certificate: an IP address or a DNS name. Raise
    CertificateError if it is neither.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _DNS_NAME.fullmatch(host):
        raise CertificateError(f"`{host}` is neither an address nor a name in ASCII")
    return x509.DNSName(host)


def _write(
    folder: Path, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    """Write `STEM-key.pem` with mode 0600 and `STEM-cert.pem`, for the stem `ca` `ca.pem`, with
    mode 0644. The folder is created if it is missing.

    Raise CertificateError if one of the files exists, or folder or files cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CertificateError(f"{folder}: {describe_folder_error(error)}") from None
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    _create(folder / f"{stem}-key.pem", private, 0o600)
    _create(folder / ("ca.pem" if stem == "ca" else f"{stem}-cert.pem"), public, 0o644)


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file with `mode`; raise CertificateError if it exists, so that no key is
    overwritten, or cannot be written.
    """
    try:
        # The mode from the first moment on, and O_EXCL follows no link that somebody put there.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
    except FileExistsError:
        raise CertificateError(
            f"{path} exists already: move it away, or choose another name or folder"
        ) from None
    except OSError as error:
        raise CertificateError(f"{path}: {describe_os_error(error)}") from None
