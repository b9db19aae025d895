"""Certificates and requests as objects: rare fields, and what must not be read."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, padding, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import AttributeOID, NameOID
from tests.rego.builtins.calls import invoke
from tests.rego.builtins.x509.test_certificates import (
    KEYS,
    NOW,
    ROOT,
    adding,
    certificate,
    leaf,
    named,
    verify,
)

from doorward.rego.builtins.x509.certificates import text_of
from doorward.rego.builtins.x509.der import Element, read
from doorward.rego.builtins.x509.private_keys import MAX_KEY
from doorward.rego.errors import BuiltinError, LimitError


def tlv(tag: int, *content: bytes) -> bytes:
    octets = b"".join(content)
    size = len(octets)
    wide = size.to_bytes((size.bit_length() + 7) // 8, "big")
    length = bytes([size]) if size < 0x80 else bytes([0x80 + len(wide)]) + wide
    return bytes([tag]) + length + octets


def der(pem: str) -> bytes:
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)


def parsed(octets: bytes) -> Any:
    [answer] = invoke("crypto.x509.parse_certificates", b64encode(octets).decode())
    return answer


def changed(pem: str, position: int, *octets: bytes) -> bytes:
    """The certificate with one part of what is signed replaced; its signature is wrong then."""
    signed, *rest = read(der(pem)).children()
    parts = [part.raw for part in signed.children()]
    parts[position : position + 1] = octets
    return tlv(0x30, tlv(0x30, *parts), *[part.raw for part in rest])


def pem(octets: bytes) -> str:
    text = b64encode(octets).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("number", [-1, 3, 7])
def test_a_version_that_is_none_is_refused(number: int) -> None:
    octets = changed(ROOT, 0, tlv(0xA0, tlv(0x02, number.to_bytes(1, "big", signed=True))))
    with pytest.raises(BuiltinError, match=r"(malformed|invalid) version"):
        parsed(octets)
    assert verify(pem(octets), leaf(issuer="root")) == [False, []]


def test_a_certificate_without_content_is_malformed() -> None:
    empty = tlv(0x30, tlv(0x30), tlv(0x30))
    with pytest.raises(BuiltinError, match="malformed serial number"):
        parsed(empty)


def test_a_version_that_nobody_uses_verifies_nothing() -> None:
    octets = changed(certificate("middle", "root"), 0, tlv(0xA0, tlv(0x02, b"\1")))
    assert parsed(octets)["Version"] == 2
    assert verify(ROOT, pem(octets), leaf()) == [False, []]
    with pytest.raises(BuiltinError, match="failed to parse a PEM certificate"):
        invoke("io.jwt.verify_es256", "e30.e30.e30", pem(octets))


def test_signatures_with_sha1_hold_nowhere() -> None:
    ecdsa_with_sha1 = tlv(0x30, tlv(0x06, bytes.fromhex("2a8648ce3d0401")))
    octets = changed(certificate("middle", "root"), 2, ecdsa_with_sha1)
    signed, _, signature = read(octets).children()
    weak = tlv(0x30, signed.raw, ecdsa_with_sha1, signature.raw)
    assert parsed(weak)["SignatureAlgorithm"] == 9
    assert verify(ROOT, pem(weak), leaf()) == [False, []]


def test_unique_identifiers_are_passed_over() -> None:
    extensions = read(der(ROOT)).children()[0].children()[-1].raw
    actual = parsed(changed(ROOT, -1, tlv(0x81, b"\0\1"), extensions))
    assert actual["IsCA"] is True
    assert parsed(der(ROOT))["IsCA"] is True


def test_what_extensions_hold_besides_is_passed_over() -> None:
    oid, url = x509.ObjectIdentifier, x509.UniformResourceIdentifier
    key_id = x509.AuthorityKeyIdentifier(b"id", [x509.DirectoryName(named("root"))], 7)
    access = x509.AuthorityInformationAccess(
        [
            x509.AccessDescription(oid("1.3.6.1.5.5.7.48.1"), x509.DirectoryName(named("x"))),
            x509.AccessDescription(oid("1.3.6.1.5.5.7.48.9"), url("http://x.example")),
        ]
    )
    strange = x509.UnrecognizedExtension(oid("2.5.29.19"), tlv(0x30, tlv(0x01, b"\xff"), b"\5\0"))

    def change(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
        return builder.add_extension(key_id, critical=False).add_extension(access, critical=False)

    actual = parsed(der(certificate("root", "root", change)))
    assert (actual["OCSPServer"], actual["IssuingCertificateURL"]) == (None, None)
    assert actual["AuthorityKeyId"] == b64encode(b"id").decode()
    builder = x509.CertificateBuilder().subject_name(named("root")).issuer_name(named("root"))
    builder = builder.public_key(KEYS["root"].public_key()).serial_number(7)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW).add_extension(strange, False)
    actual = parsed(builder.sign(KEYS["root"], hashes.SHA256()).public_bytes(Encoding.DER))
    assert (actual["IsCA"], actual["MaxPathLen"]) == (True, -1)


def test_the_hash_of_a_pss_signature_is_named() -> None:
    key = rsa.generate_private_key(65537, 2048)
    builder = x509.CertificateBuilder().subject_name(named("root")).issuer_name(named("root"))
    builder = builder.public_key(key.public_key()).serial_number(7)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW)
    pss = padding.PSS(padding.MGF1(hashes.SHA384()), 48)
    octets = builder.sign(key, hashes.SHA384(), rsa_padding=pss).public_bytes(Encoding.DER)
    assert parsed(octets)["SignatureAlgorithm"] == 14
    signed, algorithm, signature = read(octets).children()
    salt = algorithm.children()[1].children()[-1].raw
    bare = tlv(0x30, algorithm.children()[0].raw, tlv(0x30, salt))
    inner = tlv(0x30, signed.content.replace(algorithm.raw, bare))
    assert parsed(tlv(0x30, inner, bare, signature.raw))["SignatureAlgorithm"] == 0


def test_every_attribute_of_a_name_is_listed() -> None:
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "a"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.example"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "c"),
        ]
    )
    actual = parsed(changed(ROOT, 5, name.public_bytes()))["Subject"]
    assert [item["Value"] for item in actual["Names"]] == ["a", "a@b.example", "b", "c"]
    assert (actual["CommonName"], actual["Organization"]) == ("a", ["b", "c"])


def test_a_name_that_is_no_url_makes_a_certificate_malformed() -> None:
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier("http://[a")])
    with pytest.raises(BuiltinError, match="cannot parse URI"):
        parsed(der(certificate("root", "root", adding(names))))


@pytest.mark.parametrize(
    ("tag", "octets", "text"),
    [
        (0x0C, "é".encode(), "é"),
        (0x12, b"1 2", "1 2"),
        (0x13, b"a*&", "a*&"),
        (0x14, b"\xe9", "é"),
        (0x16, b"a@b", "a@b"),
        (0x1E, b"\0\xe9\0\0", "é"),
    ],
)
def test_texts_of_every_kind(tag: int, octets: bytes, text: str) -> None:
    assert text_of(Element(tag, octets, b"")) == text


@pytest.mark.parametrize(
    ("tag", "octets", "fault"),
    [
        (0x0C, b"\xff", "invalid UTF-8 string"),
        (0x12, b"a", "invalid NumericString"),
        (0x13, b"a@b", "invalid PrintableString"),
        (0x16, b"\xe9", "invalid IA5String"),
        (0x1C, b"\0\0\0a", "unsupported string type: 28"),
        (0x1E, b"\0", "invalid BMPString"),
        (0x1E, b"\xd8\0", "invalid BMPString"),
        (0x1E, b"\xff\xfe", "invalid BMPString"),
    ],
)
def test_a_text_has_only_the_characters_of_its_kind(tag: int, octets: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        text_of(Element(tag, octets, b""))


@pytest.mark.parametrize(
    "octets", [b"", b"\x2a\x86", b"\x2a\x80\x01", b"\x2a" + b"\xff" * 5 + b"\1"]
)
def test_an_object_identifier_must_be_whole_minimal_and_small(octets: bytes) -> None:
    with pytest.raises(ValueError, match="malformed object identifier"):
        Element(0x06, octets, b"").oid()


@pytest.mark.parametrize(
    ("tag", "text", "moment"),
    [
        (0x17, "300101000000Z", "2030-01-01T00:00:00Z"),
        (0x17, "500101000000Z", "1950-01-01T00:00:00Z"),
        (0x17, "3001010000Z", "2030-01-01T00:00:00Z"),
        (0x17, "300101000000+0130", "2030-01-01T00:00:00+01:30"),
        (0x18, "20300101000000-0500", "2030-01-01T00:00:00-05:00"),
        (0x17, "300101000000+0000", None),
        (0x17, "301301000000Z", None),
        (0x17, "300101000000", None),
        (0x17, "300101000000+0160", None),
        (0x18, "203001010000Z", None),
        (0x18, "20300101000000.5Z", None),
    ],
)
def test_times_are_read_as_they_would_be_written(tag: int, text: str, moment: str | None) -> None:
    end = read(der(ROOT)).children()[0].children()[4].children()[1].raw
    octets = changed(ROOT, 4, tlv(0x30, tlv(tag, text.encode()), end))
    if moment is not None:
        assert parsed(octets)["NotBefore"] == moment
    else:
        with pytest.raises(BuiltinError, match="x509: malformed"):
            parsed(octets)


def request(*attributes: tuple[x509.ObjectIdentifier, bytes], names: bool = True) -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(named("leaf"))
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
    if names:
        names_ = x509.SubjectAlternativeName([x509.DNSName("a.example")])
        builder = builder.add_extension(names_, critical=False)
    for oid, value in attributes:
        builder = builder.add_attribute(oid, value)
    return builder.sign(KEYS["leaf"], hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def test_of_a_request_names_are_read_and_other_attributes_passed_over() -> None:
    answer = invoke(
        "crypto.x509.parse_certificate_request",
        request((AttributeOID.CHALLENGE_PASSWORD, b"geheim")),
    )
    assert answer["DNSNames"] == ["a.example"]
    assert [attribute["Type"][-1] for attribute in answer["Attributes"]] == [14]
    assert len(answer["Extensions"]) == 2
    bare = invoke("crypto.x509.parse_certificate_request", request(names=False))
    assert bare["DNSNames"] is None


def test_a_certificate_is_no_request() -> None:
    with pytest.raises(BuiltinError, match="invalid PEM-encoded certificate signing request"):
        invoke("crypto.x509.parse_certificate_request", b64encode(ROOT.encode()).decode())


TRADITIONAL: Final = PrivateFormat.TraditionalOpenSSL
PRIVATE_KEYS: Final = ("crypto.parse_private_keys", "crypto.x509.parse_rsa_private_key")


def private_pem(key: Any, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    octets: bytes = key.private_bytes(Encoding.PEM, form, NoEncryption())
    return octets.decode()


RSA_PSS: Final = bytes.fromhex("06092a864886f70d01010a")
EC: Final = bytes.fromhex("06072a8648ce3d0201")


def key_block(octets: bytes) -> str:
    lines = b64encode(octets).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


def pkcs8(*algorithm: bytes) -> str:
    return key_block(tlv(0x30, tlv(0x02, b"\0"), tlv(0x30, *algorithm), tlv(0x04)))


def relabeled(text: str, label: str) -> str:
    return re.sub("(BEGIN|END) .*?-----", rf"\1 {label}-----", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (private_pem(ed448.Ed448PrivateKey.generate()), "unknown algorithm: 1.3.101.113"),
        (private_pem(dsa.generate_private_key(1024)), "unknown algorithm: 1.2.840.10040.4.1"),
        (private_pem(ec.derive_private_key(7, ec.SECP256K1())), "unknown elliptic curve"),
        (
            private_pem(ec.derive_private_key(7, ec.BrainpoolP256R1()), TRADITIONAL),
            "unknown elliptic curve",
        ),
        (pkcs8(RSA_PSS), "unknown algorithm: 1.2.840.113549.1.1.10"),
        (pkcs8(EC, tlv(0x30)), "unknown elliptic curve"),
        (pkcs8(EC), "failed to parse private key"),
    ],
)
def test_keys_of_kinds_that_go_does_not_know_are_refused(text: str, reason: str) -> None:
    for name in PRIVATE_KEYS:
        with pytest.raises(BuiltinError, match=reason):
            invoke(name, text)
    with pytest.raises(BuiltinError, match=reason):
        invoke("crypto.x509.parse_keypair", leaf(), text)


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, TRADITIONAL])
def test_the_form_of_a_key_must_be_that_of_its_label(form: PrivateFormat) -> None:
    text = private_pem(ec.derive_private_key(7, ec.SECP256R1()), form)
    for label in {"PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"} - {text[11:].split("--")[0]}:
        for name in PRIVATE_KEYS:
            with pytest.raises(BuiltinError, match="failed to parse private key"):
                invoke(name, relabeled(text, label))


def test_keys_in_blocks_of_other_labels_are_left_out() -> None:
    dsa_text = private_pem(dsa.generate_private_key(1024), TRADITIONAL)
    key = ed25519.Ed25519PrivateKey.generate()
    for text in (dsa_text, relabeled(private_pem(key), "ENCRYPTED PRIVATE KEY")):
        assert [invoke(name, text) for name in PRIVATE_KEYS] == [[], None]
        pair = text + private_pem(key)
        assert [invoke(name, pair) for name in PRIVATE_KEYS] == [
            invoke(name, private_pem(key)) for name in PRIVATE_KEYS
        ]


def test_an_x25519_key_has_no_fields_and_is_a_jwk() -> None:
    text = private_pem(x25519.X25519PrivateKey.from_private_bytes(b"\1" * 32))
    assert invoke("crypto.parse_private_keys", text) == [{}]
    jwk = invoke("crypto.x509.parse_rsa_private_key", text)
    assert (jwk["kty"], jwk["crv"]) == ("OKP", "X25519")
    assert (jwk["d"], jwk["x"][:6]) == (urlsafe_b64encode(b"\1" * 32).decode()[:-1], "pOCSkr")


def test_a_key_of_p224_is_an_object_but_no_jwk() -> None:
    text = private_pem(ec.derive_private_key(7, ec.SECP224R1()))
    assert invoke("crypto.parse_private_keys", text)[0]["D"] == 7
    with pytest.raises(BuiltinError, match="unknown elliptic curve"):
        invoke("crypto.x509.parse_rsa_private_key", text)


@pytest.mark.parametrize("octets", [b"", tlv(0x02, b"\0"), tlv(0x02, b"\0") + tlv(0x05, b"")])
def test_what_is_no_key_is_refused(octets: bytes) -> None:
    with pytest.raises(BuiltinError, match="failed to parse private key"):
        invoke(PRIVATE_KEYS[0], key_block(tlv(0x30, octets)))


def test_a_key_for_exchange_is_none_for_signatures_even_with_the_same_octets() -> None:
    key = x25519.X25519PrivateKey.generate()
    public = ed25519.Ed25519PublicKey.from_public_bytes(key.public_key().public_bytes_raw())
    builder = x509.CertificateBuilder().subject_name(named("x")).issuer_name(named("x"))
    builder = builder.public_key(public).serial_number(7)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW)
    signer = ec.generate_private_key(ec.SECP256R1())
    text = builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    with pytest.raises(BuiltinError, match="found unknown private key type"):
        invoke("crypto.x509.parse_keypair", text, private_pem(key))


def test_private_keys_too_long_or_of_numbers_that_do_not_fit_are_refused() -> None:
    numbers = rsa.generate_private_key(65537, 2048).private_numbers()
    wrong = rsa.RSAPrivateNumbers(
        numbers.p,
        numbers.q,
        numbers.d + 2,
        numbers.dmp1,
        numbers.dmq1,
        numbers.iqmp,
        numbers.public_numbers,
    )
    long = key_block(tlv(0x30, b"\0" * MAX_KEY))
    with pytest.raises(BuiltinError, match="tls: failed to parse private key"):
        invoke(
            "crypto.parse_private_keys",
            private_pem(wrong.private_key(unsafe_skip_rsa_key_validation=True)),
        )
    with pytest.raises(LimitError, match="longer than 16384 bytes"):
        invoke("crypto.parse_private_keys", long)


def test_texts_too_long_are_refused() -> None:
    for name in ("crypto.x509.parse_certificates", "crypto.x509.parse_certificate_request"):
        with pytest.raises(LimitError, match="longer than"):
            invoke(name, "a" * (8 << 20))


def test_attributes_of_requests_are_shown_as_go_reads_them() -> None:
    critical = x509.CertificateSigningRequestBuilder().subject_name(named("leaf"))
    critical = critical.add_extension(x509.BasicConstraints(False, None), critical=True)
    text = critical.sign(KEYS["leaf"], hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    [attribute] = invoke("crypto.x509.parse_certificate_request", text)["Attributes"]
    # The value of a critical extension follows a boolean, which Go takes for it.
    assert attribute["Value"] == [[{"Type": [2, 5, 29, 19], "Value": True}]]


@pytest.mark.parametrize(
    ("extensions", "fault"),
    [
        ([(14, b"\4\1a", True)], "subject key identifier incorrectly marked critical"),
        ([(14, b"\5\0", False)], "invalid subject key identifier"),
        ([(14, b"\4\1a", False)] * 2, "duplicate extension with OID"),
        ([(15, b"\3\2\1\1", False)], "invalid key usage"),
        ([(17, b"\5\0", False)], "invalid subject alternative names"),
        ([(17, tlv(0x30, tlv(0x87, b"12345")), False)], "cannot parse IP address of length 5"),
        ([(17, tlv(0x30, tlv(0x82, b"\xff")), False)], "dNSName is malformed"),
        ([(17, tlv(0x30, tlv(0x86, b"http://a./")), False)], "invalid domain"),
        ([(19, tlv(0x30, b"\1\1\1"), False)], "invalid basic constraints"),
        ([(19, tlv(0x30, b"\2\1\xff"), False)], "invalid basic constraints"),
        ([(30, tlv(0x30), False)], "empty name constraints extension"),
        ([(30, tlv(0x30, tlv(0xA0)), False)], "empty name constraints subtree"),
        ([(30, tlv(0x30, tlv(0xA0, tlv(0x30, tlv(0x82, b"a.")))), False)], "dnsName constraint"),
        ([(30, tlv(0x30, tlv(0xA0, tlv(0x30, tlv(0x86, b"1.2.3.4")))), False)], "be IP address"),
        ([(30, tlv(0x30, tlv(0xA0, tlv(0x30, tlv(0x81, b"a b@c")))), False)], "rfc822Name"),
        ([(30, tlv(0x30, tlv(0xA0, tlv(0x30, tlv(0x82, b"\xff")))), False)], "IA5String"),
        ([(30, tlv(0x30, tlv(0xA1, tlv(0x30, tlv(0x87, b"1234")))), False)], "of length 4"),
        (
            [(30, tlv(0x30, tlv(0xA1, tlv(0x30, tlv(0x87, b"1234\0\1\0\0")))), False)],
            "invalid mask",
        ),
        ([(32, tlv(0x30, *[tlv(0x30, tlv(6, b"\x2a\3"))] * 2), False)], "certificate policies"),
        ([(36, tlv(0x30, tlv(0x80)), False)], "invalid policy constraints"),
        ([(54, b"\2\0", False)], "invalid inhibit any policy"),
    ],
)
def test_extensions_that_are_malformed_are_refused(
    extensions: list[tuple[int, bytes, bool]], fault: str
) -> None:
    parts = []
    for number, value, critical in extensions:
        oid = tlv(6, bytes([0x55, 0x1D, number]))
        flag = tlv(1, b"\xff") if critical else b""
        parts.append(tlv(0x30, oid, flag, tlv(4, value)))
    octets = changed(ROOT, -1, tlv(0xA3, tlv(0x30, *parts)))
    with pytest.raises(BuiltinError, match=fault):
        parsed(octets)
