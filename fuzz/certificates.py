"""Random chains of certificates, read and verified by Doorward and by OPA 1.20.2.

    python fuzz/certificates.py [--seconds 60 | --calls N] [--seed 1]

A root, intermediates and a leaf, of which each may be expired, no authority, constrained in names,
purposes and path, signed by another or with an old hash, or have an extension that nobody knows;
in another order, twice, or with bytes changed. Prints every difference between the answers of the
`crypto.x509.*` built-ins; the exit code is 1 if there was one.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import sys
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from fuzz.calls import campaign
from fuzz.pools import Choices

__all__ = ["call_of"]

NOW: Final = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
HOSTS: Final = (
    "a.example", "b.a.example", "*.a.example", "example", "a.example.", "*", "*.*.a", "a..b", "",
    "A.EXAMPLE", "a_b.example", "xn--a.example", "1.2.3.4", "a*.example", "b.*.example",
    ".a.example",
)  # fmt: skip
ADDRESSES: Final = ("1.2.3.4", "1.2.9.9", "10.0.0.1", "::1", "fe80::1")
"""Not `::ffff:1.2.3.4`, which Go 1.26 does not exclude where it excludes `1.2.3.4`."""
NETWORKS: Final = ("1.2.0.0/16", "1.2.3.4/32", "0.0.0.0/0", "10.0.0.0/8", "::/0", "fe80::/10")
MAILS: Final = ("a@a.example", "b@b.a.example", "A@A.example", "a@1.2.3.4", '"a b"@a.example')
MAIL_LIMITS: Final = ("a@a.example", "a.example", ".a.example", "example", "A.example")
LINKS: Final = (
    "https://a.example/x", "https://b.a.example:8080", "https://1.2.3.4/", "spiffe://a.example/w",
    "https://[::1]/", "urn:x", "https://", "https://A.example",
)  # fmt: skip
NAMES: Final = (
    "a.example", "b.a.example", "c.b.a.example", "a.example.", "A.example", "1.2.3.4", "[1.2.3.4]",
    "::1", "[::1]", "x.example", "*.a.example", "example", "a..b", "xn--a.example", "fe80::1",
)  # fmt: skip
PURPOSES: Final = (
    ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH,
    ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.EMAIL_PROTECTION,
    ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.OCSP_SIGNING,
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    ObjectIdentifier("2.16.840.1.113730.4.1"), ObjectIdentifier("1.2.3.4"),
)  # fmt: skip
USAGES: Final = (
    "KeyUsageAny", "KeyUsageServerAuth", "KeyUsageClientAuth", "KeyUsageCodeSigning",
    "KeyUsageEmailProtection", "KeyUsageTimeStamping", "KeyUsageOCSPSigning",
    "KeyUsageMicrosoftServerGatedCrypto", "KeyUsageNetscapeServerGatedCrypto",
)  # fmt: skip


@cache
def key(name: str) -> Any:
    """The private key of a name; it is generated once in a run."""
    if name.startswith("rsa"):
        return rsa.generate_private_key(
            public_exponent=65537, key_size=1024 if "short" in name else 2048
        )
    if name.startswith("ed"):
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1())


class _Writer(Choices):
    """Writes one call."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.has_policies = self.chance() < 0.25

    def call(self) -> tuple[str, list[Any]]:
        """The name of a built-in and its operands."""
        chosen = self.chance()
        if chosen < 0.05:
            return "crypto.x509.parse_certificate_request", [self._changed(self._request())]
        if chosen < 0.25:
            content = self._certificate(
                "leaf", "root", "ec0", "ec1", is_authority=self.chance() < 0.3
            )
            return "crypto.x509.parse_certificates", [self._changed(content)]
        chain = self._chain()
        text = "".join(map(_pem, chain))
        if self.chance() < 0.02:
            text = self._text(text)
        if chosen < 0.3:
            return "crypto.x509.parse_and_verify_certificates", [text]
        return "crypto.x509.parse_and_verify_certificates_with_options", [text, self._options()]

    def _changed(self, content: bytes) -> str:
        """A certificate in base64, in most cases with bytes changed."""
        raw = bytearray(content)
        for _ in range(self.pick([0, 1, 1, 1, 2, 3])):
            at = self.pick(range(len(raw)))
            chosen = self.chance()
            if chosen < 0.7:
                raw[at] = self.pick(
                    [raw[at] ^ (1 << self.pick(range(8))), 0, 255, raw[at] + 1 & 255]
                )
            elif chosen < 0.85:
                del raw[at : at + self.pick([1, 2, 4])]
            else:
                raw[at:at] = self.pick([b"\0", b"\x05\0", b"\x30\0", b"\xff"])
        if self.chance() < 0.05:
            raw += self.pick([b"\0", b"\x30\0", content])
        return base64.b64encode(raw).decode() if self.chance() < 0.8 else _pem(bytes(raw))

    def _text(self, text: str) -> str:
        return self.pick(
            [f"x\n{text}", f"{text}x", text.replace("\n", "\r\n"), text[:-40], text[40:], "",
             text.replace("CERTIFICATE", "X509 CRL", 2),
             text.replace("-----\nM", "-----\nA: b\n\nM"),
             text.replace("\n", ""), text + _pem(b"\x30\0")]
        )  # fmt: skip

    # Chains

    def _chain(self) -> list[bytes]:
        """Certificates, the root first and the leaf last."""
        signers = ["ec0", "ec1", "ec2", "ec3"]
        if self.chance() < 0.15:
            signers[self.pick(range(4))] = self.pick(["rsa", "ed", "rsa-short"])
        count = self.pick([0, 0, 1, 1, 1, 2, 2])
        names = ["root", *[f"m{n}" for n in range(count)], "leaf"]
        if self.chance() < 0.05:
            names[-1] = self.pick(names)
        chain = [self._certificate("root", "root", signers[0], signers[0], is_authority=True)]
        for n in range(1, len(names)):
            issuer, signer = names[n - 1], signers[(n - 1) % 4]
            if self.chance() < 0.03:
                issuer = self.pick(names)
            if self.chance() < 0.03:
                signer = self.pick(signers)
            is_authority = n < len(names) - 1 or self.chance() < 0.1
            own = signers[n % 4]
            chain.append(
                self._certificate(names[n], issuer, own, signer, is_authority=is_authority)
            )
        if self.chance() < 0.06:
            extra = self._certificate("m0", "root", "ec1", signers[0], is_authority=True)
            chain.insert(self.pick(range(1, len(chain) + 1)), extra)
        if self.chance() < 0.06:
            chain[1:-1] = chain[1:-1][::-1]
        if self.chance() < 0.04:
            chain.insert(self.pick(range(len(chain))), self.pick(chain))
        if self.chance() < 0.03:
            chain.pop(self.pick(range(len(chain))))
        if self.chance() < 0.02:
            chain = chain[::-1]
        return chain

    def _name(self, name: str) -> x509.Name:
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if self.chance() < 0.03:
            attributes.append(
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, self.pick(["o", "ä", " "]))
            )
        if self.chance() < 0.02:
            attributes.reverse()
        return x509.Name(attributes)

    def _certificate(
        self, name: str, issuer: str, own: str, signer: str, *, is_authority: bool
    ) -> bytes:
        start, end = self.pick([(-9, 9)] * 12 + [(-9, -1), (1, 9), (-9, 0), (0, 9), (-900, 900)])
        if self.chance() < 0.02:
            end = 365 * self.pick([20, 25, 900])
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name(name))
            .issuer_name(self._name(issuer))
            .public_key(key(own).public_key())
            .serial_number(self.pick([1, 7, 255, 1 << 100, (1 << 158) - 1]))
            .not_valid_before(NOW + datetime.timedelta(days=start))
            .not_valid_after(NOW + datetime.timedelta(days=end))
        )
        for extension in self._extensions(is_authority=is_authority):
            critical = self.chance() < 0.3
            if isinstance(extension, x509.BasicConstraints | x509.NameConstraints):
                critical = self.chance() < 0.8
            builder = builder.add_extension(extension, critical=critical)
        digest: Any = hashes.SHA256()
        if self.chance() < 0.05:
            digest = self.pick([hashes.SHA384(), hashes.SHA512(), hashes.SHA224()])
        built = builder.sign(key(signer), None if signer == "ed" else digest)
        return built.public_bytes(serialization.Encoding.DER)

    def _request(self) -> bytes:
        """A certificate request."""
        own = self.pick(["ec0", "ec1", "rsa", "ed"])
        builder = x509.CertificateSigningRequestBuilder().subject_name(self._name("leaf"))
        for extension in self._extensions(is_authority=self.chance() < 0.2):
            builder = builder.add_extension(extension, critical=self.chance() < 0.3)
        built = builder.sign(key(own), None if own == "ed" else hashes.SHA256())
        return built.public_bytes(serialization.Encoding.DER)

    def _extensions(self, *, is_authority: bool) -> list[Any]:
        built: list[Any] = []
        if is_authority or self.chance() < 0.3:
            if self.chance() < 0.05:
                is_authority = not is_authority
            length = self.pick([None, None, None, 0, 1, 2]) if is_authority else None
            built.append(x509.BasicConstraints(ca=is_authority, path_length=length))
        if self.chance() < 0.3:
            built.append(self._usage(is_authority=is_authority))
        if self.chance() < 0.3:
            count = self.pick([1, 1, 2, 3])
            built.append(
                x509.ExtendedKeyUsage(
                    [self.pick(PURPOSES[: self.pick([2, 10])]) for _ in range(count)]
                )
            )
        if self.chance() < (0.1 if is_authority else 0.7):
            built.append(x509.SubjectAlternativeName(self._alternatives()))
        if self.chance() < (0.3 if is_authority else 0.02):
            permitted, excluded = self._limits(), self._limits()
            if self.chance() < 0.7:
                excluded = []
            if permitted or excluded:
                built.append(x509.NameConstraints(permitted or None, excluded or None))
        if self.chance() < 0.1:
            built.append(x509.SubjectKeyIdentifier(self.pick([b"a", b"b" * 20])))
        if self.chance() < 0.1:
            built.append(x509.AuthorityKeyIdentifier(self.pick([b"a", b"b" * 20]), None, None))
        if self.chance() < 0.05:
            kind = ObjectIdentifier(
                self.pick(["1.2.3.4", "2.5.29.99", "2.5.29.20", "1.3.6.1.5.5.7.1.3"])
            )
            built.append(
                x509.UnrecognizedExtension(kind, self.pick([b"\x05\0", b"", b"\x02\x01\x01"]))
            )
        return [*built, *self._policies()]

    def _policies(self) -> list[Any]:
        """Extensions about policies: many in some chains, few in others."""
        built: list[Any] = []
        if self.chance() < (0.9 if self.has_policies else 0.03):
            names = {self.pick(POLICIES) for _ in range(self.pick([1, 1, 2, 3]))}
            infos = [x509.PolicyInformation(ObjectIdentifier(each), None) for each in sorted(names)]
            built.append(x509.CertificatePolicies(infos))
        if self.chance() < (0.4 if self.has_policies else 0.03):
            explicit, mapping = self.pick([None, 0, 0, 1, 2]), self.pick([None, None, 0, 1])
            if explicit is not None or mapping is not None:
                built.append(x509.PolicyConstraints(explicit, mapping))
        if self.chance() < (0.3 if self.has_policies else 0.02):
            built.append(x509.InhibitAnyPolicy(self.pick([0, 1, 2])))
        if self.chance() < (0.3 if self.has_policies else 0.01):
            pairs = [self._mapping() for _ in range(self.pick([1, 1, 2]))]
            value = _tlv(0x30, *pairs)
            built.append(x509.UnrecognizedExtension(ObjectIdentifier("2.5.29.33"), value))
        return built

    def _mapping(self) -> bytes:
        """A policy of the issuer and one of the subject, in DER."""
        known = [POLICY_DER[each] for each in (*POLICIES[:2], *POLICIES)]
        return _tlv(0x30, self.pick(known), self.pick(known))

    def _usage(self, *, is_authority: bool) -> x509.KeyUsage:
        flags = [self.chance() < 0.4 for _ in range(9)]
        flags[5] = is_authority if self.chance() < 0.9 else not is_authority
        if not flags[4]:
            flags[7:] = False, False
        return x509.KeyUsage(*flags)

    def _alternatives(self) -> list[Any]:
        built: list[Any] = []
        for _ in range(self.pick([1, 1, 2, 3])):
            chosen = self.chance()
            if chosen < 0.6:
                built.append(x509.DNSName(self.pick(HOSTS[:3] if self.chance() < 0.6 else HOSTS)))
            elif chosen < 0.75:
                built.append(x509.IPAddress(ipaddress.ip_address(self.pick(ADDRESSES))))
            elif chosen < 0.85:
                built.append(x509.RFC822Name(self.pick(MAILS)))
            elif chosen < 0.95:
                built.append(x509.UniformResourceIdentifier(self.pick(LINKS)))
            else:
                built.append(x509.RegisteredID(ObjectIdentifier("1.2.3")))
        return built

    def _limits(self) -> list[Any]:
        built: list[Any] = []
        for _ in range(self.pick([0, 1, 1, 2])):
            chosen = self.chance()
            if chosen < 0.5:
                hosts = (
                    "a.example",
                    "example",
                    ".example",
                    "",
                    "b.a.example",
                    "A.example",
                    "1.2.3.4",
                )
                built.append(x509.DNSName(self.pick(hosts)))
            elif chosen < 0.7:
                built.append(x509.IPAddress(ipaddress.ip_network(self.pick(NETWORKS))))
            elif chosen < 0.85:
                built.append(x509.RFC822Name(self.pick(MAIL_LIMITS)))
            elif chosen < 0.97:
                domains = ("a.example", ".a.example", "example", "1.2.3.4", "A.example")
                built.append(x509.UniformResourceIdentifier(self.pick(domains)))
            else:
                built.append(x509.DirectoryName(self._name("root")))
        return built

    def _options(self) -> dict[str, Any]:
        now = int(NOW.timestamp()) * 10**9
        built: dict[str, Any] = {"CurrentTime": now}
        if self.chance() < 0.05:
            built["CurrentTime"] = self.pick(
                [now - 1, now + 1, 0, now * 2, -1, 1.5, "1", now + 8 * 10**14]
            )
        if self.chance() < 0.5:
            built["DNSName"] = self.pick(NAMES[:3] if self.chance() < 0.6 else NAMES)
        if self.chance() < 0.5:
            built["KeyUsages"] = [self.pick(USAGES) for _ in range(self.pick([0, 1, 1, 2]))]
        if self.chance() < 0.02:
            built[self.pick(["MaxConstraintComparisons", "x", "KeyUsages"])] = self.pick(
                [1, 0, "a", ["x"]]
            )
        return built


def _tlv(tag: int, *parts: bytes) -> bytes:
    """An element in DER whose content is shorter than 128 bytes."""
    content = b"".join(parts)
    return bytes([tag, len(content)]) + content


POLICIES: Final = ("1.2.3", "1.2.4", "1.2.5", "2.5.29.32.0")
POLICY_DER: Final = {
    "1.2.3": _tlv(6, b"\x2a\x03"), "1.2.4": _tlv(6, b"\x2a\x04"), "1.2.5": _tlv(6, b"\x2a\x05"),
    "2.5.29.32.0": _tlv(6, b"\x55\x1d\x20\x00"),
}  # fmt: skip


def _pem(content: bytes) -> str:
    text = base64.encodebytes(content).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"


def call_of(seed: int | str) -> tuple[str, list[Any]]:
    """The call of a seed: the name of a built-in and its operands."""
    return _Writer(Random(seed)).call()


if __name__ == "__main__":
    sys.exit(campaign(__doc__, call_of))
