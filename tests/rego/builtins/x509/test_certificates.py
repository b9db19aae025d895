"""Chains of certificates made for the purpose: what holds, and everything that must not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.builtins.x509.der import read
from doorward.rego.errors import BuiltinError, LimitError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000
KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "middle", "leaf")}
Change = Callable[[x509.CertificateBuilder], x509.CertificateBuilder]


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def same(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    return builder


def certificate(
    name: str,
    issuer: str,
    change: Change = same,
    *,
    ca: bool = True,
    path: int | None = None,
    days: tuple[int, int] = (-1, 1),
    signer: str = "",
) -> str:
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(KEYS[name].public_key())
        .serial_number(7)
        .not_valid_before(NOW + timedelta(days=days[0]))
        .not_valid_after(NOW + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path), critical=True)
    )
    created = change(builder).sign(KEYS[signer or issuer], hashes.SHA256())
    return created.public_bytes(Encoding.PEM).decode()


def leaf(change: Change = same, issuer: str = "middle", **options: Any) -> str:
    names = [
        x509.DNSName("a.example"),
        x509.DNSName("*.b.example"),
        x509.IPAddress(ip_address("10.0.0.1")),
        x509.UniformResourceIdentifier("spiffe://a.example/x"),
        x509.RFC822Name("a@a.example"),
    ]

    def with_names(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
        return change(builder.add_extension(x509.SubjectAlternativeName(names), critical=False))

    return certificate("leaf", issuer, with_names, ca=False, **options)


def adding(extension: x509.ExtensionType, *, critical: bool = True) -> Change:
    return lambda builder: builder.add_extension(extension, critical=critical)


ROOT = certificate("root", "root")
MIDDLE = certificate("middle", "root")


def verify(*certificates: str, at: datetime = NOW, **options: Any) -> Any:
    nanoseconds = int(at.timestamp()) * SECOND
    context = Context(Environment(clock=lambda: nanoseconds))
    name = "crypto.x509.parse_and_verify_certificates_with_options"
    return REGISTRY[name].call(context, "".join(certificates), options)


def test_a_chain_holds_from_the_leaf_to_the_root() -> None:
    valid, chain = verify(ROOT, MIDDLE, leaf())
    assert valid is True
    assert [c["Subject"]["CommonName"] for c in chain] == ["leaf", "middle", "root"]
    leaf_ = chain[0]
    assert leaf_["SerialNumber"] == 7
    assert leaf_["DNSNames"] == ["a.example", "*.b.example"]
    assert leaf_["IPAddresses"] == ["10.0.0.1"]
    assert leaf_["URIs"][0]["Host"] == "a.example"


def test_what_is_trusted_need_not_have_signed_itself() -> None:
    assert verify(MIDDLE, leaf())[0] is True


@pytest.mark.parametrize(
    "certificates",
    [
        (ROOT,),
        (ROOT, leaf()),
        (ROOT, certificate("middle", "root", signer="leaf"), leaf()),
        (ROOT, certificate("middle", "root", ca=False), leaf()),
        (certificate("root", "root", path=0), MIDDLE, leaf()),
        (ROOT, certificate("middle", "root", days=(-3, -2)), leaf()),
        (ROOT, MIDDLE, leaf(days=(2, 3))),
        (certificate("root", "root", days=(-3, -2)), MIDDLE, leaf()),
        (ROOT, MIDDLE, leaf(adding(x509.OCSPNoCheck()))),
        (ROOT, MIDDLE, leaf(signer="root")),
        (certificate("root", "root", ca=False), leaf(issuer="root")),
    ],
)
def test_a_chain_with_a_broken_link_does_not_hold(certificates: tuple[str, ...]) -> None:
    assert verify(*certificates) == [False, []]


def test_so_many_signatures_are_looked_at_and_no_more() -> None:
    wrong = [certificate("middle", "root", signer="leaf", days=(-n, n)) for n in range(2, 62)]
    assert verify(ROOT, MIDDLE, *wrong, leaf())[0] is True
    assert verify(ROOT, *wrong, MIDDLE, leaf())[0] is False


def test_no_certificate_stands_twice_in_a_chain() -> None:
    client = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    only_client = leaf(adding(client), issuer="root")
    assert verify(ROOT, ROOT, only_client) == [False, []]
    valid, chain = verify(ROOT, ROOT, only_client, KeyUsages=["KeyUsageClientAuth"])
    assert (valid, len(chain)) == (True, 2)


def test_a_host_that_python_does_not_read_is_within_no_constraint() -> None:
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier("http://[a]/")])
    constraints = x509.NameConstraints([x509.UniformResourceIdentifier("")], None)
    odd = certificate("leaf", "middle", adding(names), ca=False)
    assert verify(ROOT, certificate("middle", "root", adding(constraints)), odd) == [False, []]


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("a.example", True),
        ("A.EXAMPLE", True),
        ("x.b.example", True),
        ("b.example", False),
        ("x.y.b.example", False),
        ("leaf", False),
        ("10.0.0.1", True),
        ("[10.0.0.1]", True),
        ("10.0.0.2", False),
        ("a.example\0.evil", False),
    ],
)
def test_a_name_is_one_of_the_leaf(name: str, holds: bool) -> None:
    assert verify(ROOT, MIDDLE, leaf(), DNSName=name)[0] is holds


@pytest.mark.parametrize(
    ("permitted", "excluded", "holds"),
    [
        ([x509.DNSName("example")], None, True),
        ([x509.DNSName("a.example")], None, False),
        (None, [x509.DNSName("b.example")], False),
        ([x509.IPAddress(ip_network("10.0.0.0/8"))], None, True),
        (None, [x509.IPAddress(ip_network("10.0.0.0/24"))], False),
        ([x509.IPAddress(ip_network("::/0"))], None, False),
        ([x509.DNSName("")], None, True),
        (None, [x509.DNSName("")], False),
        ([x509.DNSName(".example")], None, True),
        ([x509.DNSName(".a.example")], None, False),
        ([x509.UniformResourceIdentifier("")], None, True),
        ([x509.RFC822Name("a.example")], None, True),
        (None, [x509.RFC822Name("a@a.example")], False),
        ([x509.UniformResourceIdentifier(".example")], None, True),
        ([x509.UniformResourceIdentifier("b.example")], None, False),
    ],
)
def test_names_are_within_the_constraints(permitted: Any, excluded: Any, holds: bool) -> None:
    constraints = x509.NameConstraints(permitted, excluded)
    middle = certificate("middle", "root", adding(constraints))
    assert verify(ROOT, middle, leaf())[0] is holds


def test_the_purpose_holds_all_the_way() -> None:
    client = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    middle = certificate("middle", "root", adding(client, critical=False))
    assert verify(ROOT, middle, leaf())[0] is False
    assert verify(ROOT, middle, leaf(), KeyUsages=["KeyUsageClientAuth"])[0] is True
    assert verify(ROOT, middle, leaf(), KeyUsages=["KeyUsageAny"])[0] is True


def test_an_issuer_that_may_not_sign_certificates_does_not() -> None:
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    middle = certificate("middle", "root", adding(usage))
    assert verify(ROOT, middle, leaf())[0] is False


def test_the_moment_can_be_given() -> None:
    later = NOW + timedelta(days=400)
    chain = (ROOT, MIDDLE, leaf())
    assert verify(*chain, at=later)[0] is False
    assert verify(*chain, at=later, CurrentTime=int(NOW.timestamp()) * SECOND)[0] is True


def test_too_many_certificates_are_refused() -> None:
    with pytest.raises(LimitError, match="more than 100"):
        invoke("crypto.x509.parse_certificates", ROOT * 101)
    with pytest.raises(LimitError, match="more than 100"):
        verify(*[ROOT] * 101)


def private_pem(name: str) -> str:
    key = KEYS[name]
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


def test_a_key_belongs_to_its_certificate_or_is_refused() -> None:
    parse = partial(invoke, "crypto.x509.parse_keypair")
    assert parse(leaf(), private_pem("leaf"))["Leaf"]["DNSNames"] == ["a.example", "*.b.example"]
    with pytest.raises(BuiltinError, match="private key does not match public key"):
        parse(leaf(), private_pem("root"))
    for pair in [("", private_pem("leaf")), (leaf(), ""), (leaf(), leaf())]:
        with pytest.raises(BuiltinError):
            parse(*pair)


@pytest.mark.parametrize("octets", ["", "30", "3005", "308000", "3002", "1f0100", "30010030"])
def test_what_is_no_der_is_no_certificate(octets: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(bytes.fromhex(octets))


def test_extensions_become_fields() -> None:
    url = x509.UniformResourceIdentifier
    point = x509.DistributionPoint([url("http://crl.example/a")], None, None, None)
    oid = x509.ObjectIdentifier
    access = x509.AuthorityInformationAccess(
        [
            x509.AccessDescription(oid("1.3.6.1.5.5.7.48.1"), url("http://ocsp.example")),
            x509.AccessDescription(oid("1.3.6.1.5.5.7.48.2"), url("http://ca.example")),
        ]
    )
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.CRLDistributionPoints([point]), False),
        (access, False),
        (x509.CertificatePolicies([x509.PolicyInformation(oid("1.2.3.4"), None)]), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, oid("1.2.3")]), False),
        (
            x509.NameConstraints(
                [x509.DNSName("a.example"), x509.IPAddress(ip_network("10.0.0.0/8"))],
                [x509.RFC822Name("b.example"), url(".c.example")],
            ),
            True,
        ),
        (x509.UnrecognizedExtension(oid("1.2.3.5"), b"\5\0"), True),
    ]

    def change(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder

    text = certificate("root", "root", change)
    [answer] = invoke("crypto.x509.parse_certificates", text)
    expected = {
        "CRLDistributionPoints": ["http://crl.example/a"],
        "OCSPServer": ["http://ocsp.example"],
        "IssuingCertificateURL": ["http://ca.example"],
        "PolicyIdentifiers": [[1, 2, 3, 4]],
        "Policies": ["1.2.3.4"],
        "ExtKeyUsage": [1],
        "UnknownExtKeyUsage": [[1, 2, 3]],
        "PermittedDNSDomainsCritical": True,
        "PermittedDNSDomains": ["a.example"],
        "PermittedIPRanges": [{"IP": "10.0.0.0", "Mask": "/wAAAA=="}],
        "ExcludedEmailAddresses": ["b.example"],
        "ExcludedURIDomains": [".c.example"],
        "UnhandledCriticalExtensions": [[1, 2, 3, 5]],
        "IsCA": True,
        "MaxPathLen": -1,
    }
    assert {name: answer[name] for name in expected} == expected


@pytest.mark.parametrize("octets", ["3000", "300630003000", "30093000300003010030"])
def test_der_that_is_no_certificate_is_refused(octets: str) -> None:
    text = REGISTRY["base64.encode"].call(REGISTRY["hex.decode"].call(octets))
    with pytest.raises(BuiltinError):
        invoke("crypto.x509.parse_certificates", text)
    with pytest.raises(BuiltinError):
        invoke("crypto.x509.parse_certificate_request", text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"CurrentTime": 1.5}, "'CurrentTime' should be a valid int64 number"),
        ({"CurrentTime": True}, "'CurrentTime' should be a number"),
        ({"DNSName": 1}, "'DNSName' should be a string"),
        ({"KeyUsages": ["x", "y"]}, r"found: \[x y\]"),
        ({"Roots": ""}, "invalid key option"),
    ],
)
def test_an_option_that_is_none_is_an_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(BuiltinError, match=text):
        verify(ROOT, MIDDLE, leaf(), **options)


def test_an_identifier_of_a_key_must_not_be_critical() -> None:
    for extension in (
        x509.SubjectKeyIdentifier(b"a"),
        x509.AuthorityKeyIdentifier(b"a", None, None),
        x509.AuthorityInformationAccess(
            [
                x509.AccessDescription(
                    x509.ObjectIdentifier("1.3.6.1.5.5.7.48.1"),
                    x509.UniformResourceIdentifier("http://a"),
                )
            ]
        ),
    ):
        text = leaf(adding(extension))
        assert verify(ROOT, MIDDLE, text) == [False, []]
        with pytest.raises(BuiltinError, match="incorrectly marked critical"):
            invoke("crypto.x509.parse_certificates", text)
        assert verify(ROOT, MIDDLE, leaf(adding(extension, critical=False)))[0] is True


def test_a_hash_that_go_does_not_know_signs_nothing() -> None:
    builder = x509.CertificateBuilder().subject_name(named("leaf")).issuer_name(named("root"))
    builder = builder.public_key(KEYS["leaf"].public_key()).serial_number(7)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW)
    for digest, valid in ((hashes.SHA224(), False), (hashes.SHA384(), True)):
        text = builder.sign(KEYS["root"], digest).public_bytes(Encoding.PEM).decode()
        assert verify(ROOT, text)[0] is valid


@pytest.mark.parametrize("critical", [True, False])
def test_a_chain_without_the_policies_that_it_demands_does_not_hold(critical: bool) -> None:
    policy = x509.CertificatePolicies(
        [x509.PolicyInformation(x509.ObjectIdentifier("1.2.3"), None)]
    )
    demand = x509.PolicyConstraints(0, None)

    def demanding(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
        return builder.add_extension(policy, False).add_extension(demand, critical)

    middle = certificate("middle", "root", demanding)
    assert verify(ROOT, middle, leaf()) == [False, []]
    valid, chain = verify(ROOT, middle, leaf(adding(policy, critical=False)))
    assert valid is True
    assert chain[1]["RequireExplicitPolicyZero"] is True


@pytest.mark.parametrize(
    ("pattern", "name", "holds"),
    [
        ("a.example.", "a.example", False),
        ("a.example.", "a.example.", True),
        ("a.example", "a.example.", True),
        ("*", "a", False),
        ("*.example", "a.example.", True),
        ("*.example", "-a.example", False),
        ("a*.example", "ab.example", False),
        ("a*.example", "A*.example", True),
        ("-a", "-a", True),
        ("a..b", "a..b", True),
        (".", ".", False),
    ],
)
def test_names_that_are_no_host_names_must_be_equal(pattern: str, name: str, holds: bool) -> None:
    names = x509.SubjectAlternativeName([x509.DNSName(pattern)])
    text = certificate("leaf", "root", adding(names, critical=False), ca=False)
    assert verify(ROOT, text, DNSName=name)[0] is holds


def test_addresses_in_another_form_are_the_same_for_a_name() -> None:
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("::ffff:10.0.0.1"))])
    text = certificate("leaf", "root", adding(names, critical=False), ca=False)
    for name in ("10.0.0.1", "::ffff:10.0.0.1", "[10.0.0.1]"):
        assert verify(ROOT, text, DNSName=name)[0] is True
    assert verify(ROOT, text, DNSName="::1")[0] is False
    [answer] = invoke("crypto.x509.parse_certificates", text)
    assert answer["IPAddresses"] == ["10.0.0.1"]


def test_a_certificate_ends_with_its_last_second() -> None:
    end = int((NOW + timedelta(days=1)).timestamp()) * SECOND
    chain = ROOT, MIDDLE, leaf()
    assert verify(*chain, CurrentTime=end)[0] is True
    assert verify(*chain, CurrentTime=end + 1)[0] is False


@pytest.mark.parametrize(
    "name",
    [
        x509.UniformResourceIdentifier("urn:x"),
        x509.UniformResourceIdentifier("http://1.2.3.4/"),
        x509.UniformResourceIdentifier("http://[::1]:80/"),
        x509.RFC822Name("a"),
        x509.DNSName("a..b"),
    ],
)
def test_a_name_that_cannot_be_read_is_within_no_constraint(name: x509.GeneralName) -> None:
    constraints = x509.NameConstraints([x509.IPAddress(ip_network("10.0.0.0/8"))], None)
    middle = certificate("middle", "root", adding(constraints))
    names = adding(x509.SubjectAlternativeName([name]), critical=False)
    text = certificate("leaf", "middle", names, ca=False)
    assert verify(ROOT, middle, text) == [False, []]
    assert verify(ROOT, MIDDLE, text)[0] is True


def test_a_wildcard_is_excluded_with_a_name_that_it_stands_for() -> None:
    constraints = x509.NameConstraints(None, [x509.DNSName("a.b.example")])
    middle = certificate("middle", "root", adding(constraints))
    assert verify(ROOT, middle, leaf()) == [False, []]


def test_issuers_with_the_named_key_come_first() -> None:
    by_key = [
        certificate("middle", "root", adding(x509.SubjectKeyIdentifier(each), critical=False))
        for each in (b"x", b"id")
    ]
    authority = x509.AuthorityKeyIdentifier(b"id", None, None)
    text = leaf(adding(authority, critical=False))
    for order in ([0, 1], [1, 0]):
        _, chain = verify(ROOT, *[by_key[n] for n in order], MIDDLE, text)
        assert chain[1]["SubjectKeyId"] == "aWQ="
