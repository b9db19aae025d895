"""PEM, or base64 of PEM or of DER, becomes certificates, requests and pairs of certificate and key.

Bounds: `MAX_TEXT` characters, `MAX_CERTIFICATES` certificates.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from typing import Final

from doorward.rego.builtins.x509 import pem
from doorward.rego.builtins.x509.certificates import Certificate, parse_certificates
from doorward.rego.builtins.x509.objects import certificate_object, request_object
from doorward.rego.builtins.x509.private_keys import load_private, private_object, public_numbers
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang import base64
from doorward.rego.golang.octets import from_bytes
from doorward.rego.values import Key, Value

__all__ = [
    "MAX_CERTIFICATES",
    "MAX_TEXT",
    "bounded",
    "pair_of",
    "pem_blocks",
    "read_certificates",
    "request_of",
]

MAX_TEXT: Final = 4 * 1024 * 1024
MAX_CERTIFICATES: Final = 100

Object = dict[Key, Value]
_BEGIN: Final = "-----BEGIN"


def bounded(text: str) -> str:
    """Return the text unchanged; LimitError if it is longer than `MAX_TEXT`."""
    if len(text) > MAX_TEXT:
        raise LimitError(
            f"the text of the certificates or keys is longer than {MAX_TEXT} characters"
        )
    return text


def read_certificates(text: str) -> list[Certificate]:
    """The certificates in a PEM text, in base64 of one, or in base64 of concatenated DER.
    BuiltinError for a malformed certificate or a block of another kind; LimitError if the text or
    the number of certificates is too large.
    """
    if not bounded(text).startswith(_BEGIN):
        octets = base64.decode(text)
        if not octets.startswith(_BEGIN.encode()):
            return _parse(octets)
        text = from_bytes(octets)
    blocks, _ = pem.decode_all(text)
    for block in blocks:
        if block.label != "CERTIFICATE":
            raise BuiltinError(f"PEM block type is '{block.label}', expected CERTIFICATE")
    return _parse(b"".join([block.octets for block in blocks]))


def _parse(octets: bytes) -> list[Certificate]:
    """Read concatenated DER certificates. BuiltinError if one is malformed, LimitError for more
    than `MAX_CERTIFICATES`.
    """
    try:
        certificates = parse_certificates(octets, MAX_CERTIFICATES)
    except ValueError as error:
        raise BuiltinError(str(error)) from None
    if len(certificates) > MAX_CERTIFICATES:
        raise LimitError(f"text has more than {MAX_CERTIFICATES} certificates")
    return certificates


def request_of(text: str) -> Object:
    """The object of a certificate request in PEM, or in base64 of PEM or DER. BuiltinError if it is
    malformed or another kind of block.
    """
    octets = b""
    if not text.startswith("-----BEGIN CERTIFICATE REQUEST-----"):
        octets = base64.decode(text)
        text = from_bytes(octets)
    block, _ = pem.decode(text)
    if block is not None and block.label != "CERTIFICATE REQUEST":
        raise BuiltinError("invalid PEM-encoded certificate signing request")
    try:
        return request_object(block.octets if block else octets)
    except ValueError as error:
        raise BuiltinError(f"asn1: structure error: {error}") from None


def pair_of(cert: str, pem: str) -> Object:
    """Return the object of a certificate chain and its private key, each in PEM or its base64, as
    Go's `tls.Certificate`; the leaf is its first certificate, and the others are not read.
    BuiltinError if one is missing, if the key or the first certificate is malformed, or if the key
    is of another certificate or of X25519; LimitError above `MAX_TEXT` or `MAX_CERTIFICATES`.
    """
    chain = [each.octets for each in _pair_blocks(cert) if each.label == "CERTIFICATE"]
    if not chain:
        raise BuiltinError("tls: failed to find any PEM data in certificate input")
    if len(chain) > MAX_CERTIFICATES:
        raise LimitError(f"text has more than {MAX_CERTIFICATES} certificates")
    first = _parse(chain[0])
    if len(first) != 1:
        raise BuiltinError("x509: trailing data")
    leaf = certificate_object(first[0], uri_strings=False)
    # As Go's tls.X509KeyPair: `PRIVATE KEY` alone, or as the last words of the label.
    keys = [block for block in _pair_blocks(pem) if f" {block.label}".endswith(" PRIVATE KEY")]
    if not keys:
        raise BuiltinError("tls: failed to find any PEM data in key input")
    # Go's parsePrivateKey tries one form after the other, whatever the label says.
    key = load_private(keys[0], any_form=True)
    private, public = private_object(key), public_numbers(key)
    if private == {}:
        raise BuiltinError("tls: found unknown private key type in PKCS#8 wrapping")
    expected = leaf["PublicKey"]
    if type(public) is not type(expected) or _field_names(public) != _field_names(expected):
        raise BuiltinError("tls: private key type does not match public key type")
    if public != expected:
        raise BuiltinError("tls: private key does not match public key")
    return {
        "Certificate": [b64encode(each).decode() for each in chain],
        "PrivateKey": private,
        "SupportedSignatureAlgorithms": None,
        "OCSPStaple": None,
        "SignedCertificateTimestamps": None,
        "Leaf": leaf,
    }


def _field_names(public: Value) -> list[str]:
    return sorted(map(str, public)) if isinstance(public, dict) else []


def _pair_blocks(text: str) -> list[pem.Block]:
    """The blocks of a PEM text, or of the base64 of one; the base64 of other bytes is that of DER,
    and both a certificate and a key. BuiltinError for invalid base64, LimitError above `MAX_TEXT`
    characters.
    """
    if bounded(text).startswith(f"{_BEGIN} "):
        return pem.decode_all(text)[0]
    octets = base64.decode(text)
    if octets.startswith(f"{_BEGIN} ".encode()):
        return pem.decode_all(from_bytes(octets))[0]
    return [pem.Block("CERTIFICATE", octets), pem.Block("PRIVATE KEY", octets)]


def pem_blocks(text: str) -> list[pem.Block]:
    """The blocks of a PEM text, or of the base64 of one. LimitError above `MAX_TEXT` characters."""
    bounded(text)
    with suppress(BuiltinError):
        text = from_bytes(base64.decode(text))
    return pem.decode_all(text)[0]
