"""Who is asking: the name in a client's certificate, and nobody on the Unix socket."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.test_chain import Says

from doorward.docker.plugin import Plugin


@pytest.fixture
def watched(daemon: PrivateDaemon, unique: str) -> Iterator[tuple[PrivateDaemon, Says]]:
    says = Says(True)
    daemon.plugin(f"{unique}w", Plugin(says).answer)
    daemon.chain(f"{unique}w")
    yield daemon, says
    daemon.chain()
    daemon.end_plugin(f"{unique}w")


def seen(says: Says) -> list[tuple[object, object, object]]:
    return [(each["User"], each["AuthMethod"], each["identified"]) for each in says.inputs]


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_certificate_names_the_user(watched: tuple[PrivateDaemon, Says], user: str) -> None:
    daemon, says = watched
    assert daemon.docker("ps", user=user).returncode == 0
    assert seen(says) == [(user, "TLS", True)]


def test_unix_socket_names_nobody(watched: tuple[PrivateDaemon, Says]) -> None:
    daemon, says = watched
    assert daemon.docker("ps").returncode == 0
    assert seen(says) == [("", "", False)]


def test_header_names_nobody(watched: tuple[PrivateDaemon, Says]) -> None:
    daemon, says = watched
    answer = daemon.raw("GET", "/v1.41/containers/json", headers=[("Authz-User", "carol")])
    assert answer.status == 200
    assert seen(says) == [("", "", False)]


def certify(folder: Path, stem: str, names: list[str]) -> None:
    """A certificate that our own command would refuse to make."""
    authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca-key.pem").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, each) for each in names]
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "x")
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([organization, *attributes]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(usage, critical=False)
        .sign(signer, hashes.SHA256())
    )
    (folder / f"{stem}-cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / f"{stem}-key.pem").write_bytes(private)


def test_certificate_without_a_name_is_nobody(watched: tuple[PrivateDaemon, Says]) -> None:
    daemon, says = watched
    certify(daemon.folder / "certs", "nameless", [])
    assert daemon.docker("ps", user="nameless").returncode == 0
    [(user, _, identified)] = seen(says)
    assert (user, identified) == ("", False)


def test_last_of_several_names_counts(watched: tuple[PrivateDaemon, Says]) -> None:
    daemon, says = watched
    certify(daemon.folder / "certs", "several", ["alice", "bob"])
    assert daemon.docker("ps", user="several").returncode == 0
    assert seen(says) == [("bob", "TLS", True)]
