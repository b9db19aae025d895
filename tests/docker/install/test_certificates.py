"""Certificates that can be made, and the reasons for others."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from doorward.docker.install.certificates import (
    CertificateError,
    issue_client,
    issue_server,
    make_authority,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "certs"
    make_authority(folder)
    return folder


def test_names_and_addresses_of_a_server_are_in_its_certificate(folder: Path) -> None:
    long = ".".join(["a" * 60] * 2)
    issue_server(folder, [long, "*.example", "a_b", "127.0.0.1", "::1"])
    content = (folder / "server-cert.pem").read_bytes()
    certificate = x509.load_pem_x509_certificate(content)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [long, "*.example", "a_b"]
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "::1"]


@pytest.mark.parametrize(
    "host", ["", "b\u00fccher", "a..b", ".a", "a.", "a b", "a" * 64, "a.*", "\udcff", "a\n"]
)
def test_host_that_is_not_a_name_is_an_error(host: str, folder: Path) -> None:
    with pytest.raises(CertificateError, match="neither an address nor a name"):
        issue_server(folder, ["localhost", host])


@pytest.mark.parametrize("days", [0, -1, 3651, 10**12])
def test_days_out_of_range_are_an_error(days: int, folder: Path) -> None:
    with pytest.raises(CertificateError, match="1 to 3650 days"):
        issue_client(folder, "alice", days=days)


def test_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "certs").touch()
    with pytest.raises(CertificateError, match="a file is in the way of the folder: move it"):
        make_authority(tmp_path / "certs")
    with pytest.raises(
        CertificateError, match=r"cannot be read: .*create it with `doorward docker cert ca`"
    ):
        issue_client(tmp_path / "certs", "alice")


def test_encrypted_key_of_an_authority_is_an_error(folder: Path) -> None:
    path = folder / "ca-key.pem"
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(CertificateError, match="cannot be read"):
        issue_client(folder, "alice")
