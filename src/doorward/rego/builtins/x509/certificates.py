"""Certificates read from DER as Go's `crypto/x509` reads them: strictly, and with its errors.

    DER ─parse_certificate─▶ Certificate ─┬─objects─▶ what a policy sees
                                          └─chain───▶ what is verified

A certificate is read once. What Go's reader refuses raises ValueError with its text: numbers that
are not minimal, keys that are on no curve, an extension that occurs twice or must not be critical.
Nothing is verified here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from datetime import datetime
from typing import Final

from doorward.base.addresses import is_ip_address
from doorward.base.records import mutable, record
from doorward.rego.builtins.x509 import der
from doorward.rego.builtins.x509.der import Element, Oid, Reader, oid_numbers
from doorward.rego.builtins.x509.names import is_domain, is_host, read_mailbox
from doorward.rego.builtins.x509.public_keys import PublicKey, parse_public_key
from doorward.rego.errors import BuiltinError
from doorward.rego.golang import urls

__all__ = [
    "STRINGS",
    "SUBJECT_ALTERNATIVE_NAME",
    "Certificate",
    "Extension",
    "Name",
    "Names",
    "add_names",
    "parse_algorithm",
    "parse_certificates",
    "parse_extension",
    "parse_name",
    "right_aligned",
    "signature_algorithm",
    "text_of",
]

SUBJECT_ALTERNATIVE_NAME: Final = (2, 5, 29, 17)

_PKCS1: Final = (1, 2, 840, 113549, 1, 1)
_ANSI: Final = (1, 2, 840, 10045, 4)
_ED25519: Final = (1, 3, 101, 112)
_SIGNATURE_ALGORITHMS: Final[dict[Oid, int]] = {
    (*_PKCS1, 4): 2,
    (*_PKCS1, 5): 3,
    (1, 3, 14, 3, 2, 29): 3,
    (*_PKCS1, 11): 4,
    (*_PKCS1, 12): 5,
    (*_PKCS1, 13): 6,
    (1, 2, 840, 10040, 4, 3): 7,
    (2, 16, 840, 1, 101, 3, 4, 3, 2): 8,
    (*_ANSI, 1): 9,
    (*_ANSI, 3, 2): 10,
    (*_ANSI, 3, 3): 11,
    (*_ANSI, 3, 4): 12,
    _ED25519: 16,
}
"""Go's numbers of signature algorithms; 0 is an unknown one."""
_PSS: Final = (*_PKCS1, 10)
_MGF1: Final = (*_PKCS1, 8)
_PSS_HASHES: Final[dict[Oid, tuple[int, int]]] = {
    (2, 16, 840, 1, 101, 3, 4, 2, 1): (13, 32),
    (2, 16, 840, 1, 101, 3, 4, 2, 2): (14, 48),
    (2, 16, 840, 1, 101, 3, 4, 2, 3): (15, 64),
}
"""Go's number of PSS with a hash, and the length of its salt."""
_NULL: Final = b"\x05\x00"
_PURPOSES: Final[dict[Oid, int]] = {
    (2, 5, 29, 37, 0): 0,
    **{(1, 3, 6, 1, 5, 5, 7, 3, n): n for n in range(1, 10)},
    (1, 3, 6, 1, 4, 1, 311, 10, 3, 3): 10,
    (2, 16, 840, 1, 113730, 4, 1): 11,
    (1, 3, 6, 1, 4, 1, 311, 2, 1, 22): 12,
    (1, 3, 6, 1, 4, 1, 311, 61, 1, 1): 13,
}
"""Go's numbers of extended key usages."""


@record
class Name:
    """A distinguished name: its DER, and type and text of each attribute in order."""

    raw: bytes
    attributes: tuple[tuple[Oid, str], ...]


@record
class Extension:
    """An extension of a certificate or of a request for one."""

    oid: Oid
    critical: bool
    value: bytes


@mutable
class Names:
    """Alternative names or name constraints, by kind; of addresses the bytes."""

    dns: list[str] = field(default_factory=list)
    emails: list[str] = field(default_factory=list)
    addresses: list[bytes] = field(default_factory=list)
    uris: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.dns or self.emails or self.addresses or self.uris)


@mutable
class Certificate:
    """A certificate. Times are in their own zones; `algorithm` is Go's number of the signature
    algorithm; `max_path` is -1 for no limit; the policy limits are None without one; `unhandled`
    are critical extensions that are not understood.
    """

    raw: bytes
    signed: bytes
    version: int
    serial: int
    algorithm: int
    algorithm_raw: bytes
    signature: bytes
    issuer: Name
    not_before: datetime
    not_after: datetime
    subject: Name
    key: PublicKey
    extensions: list[Extension] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    permitted: Names = field(default_factory=Names)
    excluded: Names = field(default_factory=Names)
    has_constraints: bool = False
    constraints_critical: bool = False
    basic_constraints: bool = False
    is_ca: bool = False
    max_path: int = 0
    key_usage: int = 0
    purposes: list[int] = field(default_factory=list)
    unknown_purposes: list[Oid] = field(default_factory=list)
    subject_key: bytes | None = None
    authority_key: bytes | None = None
    distribution_points: list[str] = field(default_factory=list)
    ocsp_servers: list[str] = field(default_factory=list)
    issuer_urls: list[str] = field(default_factory=list)
    policies: list[Oid] | None = None
    policy_mappings: list[tuple[Oid, Oid]] = field(default_factory=list)
    require_explicit_policy: int | None = None
    inhibit_policy_mapping: int | None = None
    inhibit_any_policy: int | None = None
    unhandled: list[Oid] = field(default_factory=list)

    def alternative_names(self) -> bytes | None:
        """Return the value of the extension with the alternative names; None without one."""
        for extension in self.extensions:
            if extension.oid == SUBJECT_ALTERNATIVE_NAME:
                return extension.value
        return None


def parse_certificates(octets: bytes, limit: int) -> list[Certificate]:
    """Return the certificates that follow each other in DER, at most `limit` and one more.
    ValueError, with Go's text, if one is malformed.
    """
    reader = Reader(octets)
    certificates: list[Certificate] = []
    while not reader.is_empty and len(certificates) <= limit:
        element = reader.element(der.SEQUENCE, "x509: malformed certificate")
        certificates.append(parse_certificate(element))
    return certificates


def parse_certificate(element: Element) -> Certificate:
    """Return the certificate in a DER sequence, which is not verified: its version, serial number,
    names, times, key, signature and extensions. What follows the signature is ignored. ValueError,
    with Go's text, if it is malformed.
    """
    outer = Reader(element.content)
    signed = outer.element(der.SEQUENCE, "x509: malformed tbs certificate")
    inner = Reader(signed.content)
    version = _parse_version(inner)
    serial = inner.integer("x509: malformed serial number")
    if serial < 0:
        raise ValueError("x509: negative serial number")
    fault = "x509: malformed signature algorithm identifier"
    algorithm = inner.element(der.SEQUENCE, fault)
    repeated = outer.element(der.SEQUENCE, "x509: malformed algorithm identifier")
    if algorithm.content != repeated.content:
        raise ValueError("x509: inner and outer signature algorithm identifiers don't match")
    number = signature_algorithm(*parse_algorithm(Reader(algorithm.content)))
    issuer = parse_name(inner.element(der.SEQUENCE, "x509: malformed issuer"))
    validity = inner.inside(der.SEQUENCE, "x509: malformed validity")
    not_before, not_after = _parse_time(validity), _parse_time(validity)
    # For the subject Go's text says "issuer", too.
    subject = parse_name(inner.element(der.SEQUENCE, "x509: malformed issuer"))
    key = parse_public_key(inner.element(der.SEQUENCE, "x509: malformed spki"))
    certificate = Certificate(
        element.raw, signed.raw, version, serial, number, algorithm.raw, b"", issuer,
        not_before, not_after, subject, key,
    )  # fmt: skip
    if version > 1:
        inner.optional(0x81, "x509: malformed issuerUniqueID")
        inner.optional(0x82, "x509: malformed subjectUniqueID")
    if version == 3:
        extensions = inner.optional(0xA3, "x509: malformed extensions")
        if extensions is not None:
            _parse_extensions(certificate, Reader(extensions.content))
    octets, unused = outer.bits("x509: malformed signature")
    certificate.signature = right_aligned(octets, unused)
    return certificate


def right_aligned(octets: bytes, unused: int) -> bytes:
    """Return the bits of a bit string as a number of as many bytes, without its unused bits."""
    return (int.from_bytes(octets, "big") >> unused).to_bytes(len(octets), "big")


def _parse_version(reader: Reader) -> int:
    """Read the optional version of a certificate from `reader` and return it as people count it: 1
    (also if it is absent), 2 or 3. ValueError, in Go's words, if it is malformed or larger.
    """
    fault = "x509: malformed version"
    explicit = reader.optional(0xA0, fault)
    if explicit is None:
        return 1
    inside = Reader(explicit.content)
    number = inside.small_integer(fault)
    if not inside.is_empty or not 0 <= number <= 3:
        raise ValueError(fault)
    if number == 3:
        raise ValueError("x509: invalid version")
    return number + 1


def parse_algorithm(reader: Reader) -> tuple[Oid, bytes]:
    """Return the identifier of an algorithm and the DER of its parameters, b"" without any."""
    oid = reader.oid("x509: malformed OID")
    return oid, b"" if reader.is_empty else reader.any("x509: malformed parameters").raw


def signature_algorithm(oid: Oid, parameters: bytes) -> int:
    """Return Go's number of a signature algorithm; 0 for an unknown one, for Ed25519 with
    parameters, and for PSS with others than those of one of its three hashes.
    """
    if oid == _ED25519 and parameters:
        return 0
    if oid != _PSS:
        return _SIGNATURE_ALGORITHMS.get(oid, 0)
    try:
        return _pss_algorithm(Reader(parameters).inside(der.SEQUENCE, ""))
    except ValueError:
        return 0


def _pss_algorithm(reader: Reader) -> int:
    """Return Go's number of PSS with these parameters; 0 if the hashes differ, or if salt or
    trailer are unusual. ValueError if the parameters are malformed.
    """
    hash_, hash_parameters = parse_algorithm(
        Reader(reader.inside(0xA0, "").element(der.SEQUENCE, "").content)
    )
    mask, inner = parse_algorithm(Reader(reader.inside(0xA1, "").element(der.SEQUENCE, "").content))
    mask_hash, mask_parameters = parse_algorithm(Reader(inner).inside(der.SEQUENCE, ""))
    salt = reader.inside(0xA2, "").integer("")
    trailer = reader.inside(0xA3, "").integer("") if reader.peek(0xA3) else 1
    number, length = _PSS_HASHES.get(hash_, (0, 0))
    are_usual = {hash_parameters, mask_parameters} <= {b"", _NULL}
    if not are_usual or mask != _MGF1 or mask_hash != hash_ or (salt, trailer) != (length, 1):
        return 0
    return number


def _parse_time(reader: Reader) -> datetime:
    """Read a time in one of the two forms of DER; ValueError if it is malformed or missing."""
    if reader.peek(der.UTC_TIME):
        return reader.time("x509: malformed UTCTime")
    if reader.peek(der.GENERALIZED_TIME):
        return reader.time("x509: malformed GeneralizedTime")
    raise ValueError("x509: unsupported time format")


# Names


def parse_name(element: Element) -> Name:
    """Return the distinguished name in a DER sequence: its attributes in order, the sets of the
    sequence joined, and its bytes. ValueError, with Go's text, if it is malformed or an attribute
    is not text.
    """
    reader = Reader(element.content)
    attributes: list[tuple[Oid, str]] = []
    fault = "x509: invalid RDNSequence"
    while not reader.is_empty:
        part = reader.inside(der.SET, fault)
        while not part.is_empty:
            attribute = part.inside(der.SEQUENCE, f"{fault}: invalid attribute")
            oid = attribute.oid(f"{fault}: invalid attribute type")
            value = attribute.any(f"{fault}: invalid attribute value")
            try:
                text = text_of(value)
            except ValueError as error:
                raise ValueError(f"{fault}: invalid attribute value: {error}") from None
            attributes.append((oid, text))
    return Name(element.raw, tuple(attributes))


def text_of(element: Element) -> str:
    """Return the text of a string element. ValueError for another kind of element, or for a
    character that its kind does not have.
    """
    read = STRINGS.get(element.tag)
    if read is None:
        raise ValueError(f"unsupported string type: {element.tag}")
    return read(element.content)


_PRINTABLE: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 '()+,-./:=?*&"
)
"""With `*` and `&`, which the standard does not have, and certificates do."""


def _printable(content: bytes) -> str:
    """Decode a PrintableString; ValueError for a character that is not in `_PRINTABLE`."""
    if not _PRINTABLE.issuperset(content):
        raise ValueError("invalid PrintableString")
    return content.decode("ascii")


def _utf8(content: bytes) -> str:
    """Decode a UTF8String; ValueError for bytes that are not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("invalid UTF-8 string") from None


def _ascii(content: bytes) -> str:
    """Decode an IA5String; ValueError for bytes that are not ASCII."""
    if not content.isascii():
        raise ValueError("invalid IA5String")
    return content.decode("ascii")


def _numeric(content: bytes) -> str:
    """Decode a NumericString; ValueError for other characters than digits and spaces."""
    if not frozenset(b"0123456789 ").issuperset(content):
        raise ValueError("invalid NumericString")
    return content.decode("ascii")


def _basic_plane(content: bytes) -> str:
    """Decode a BMPString, 16-bit characters, without a zero at its end. ValueError for an odd
    number of bytes, and for surrogates and other reserved characters.
    """
    octets = content.removesuffix(b"\0\0") if len(content) % 2 == 0 else content
    points = [int.from_bytes(octets[n : n + 2], "big") for n in range(0, len(octets), 2)]
    if len(content) % 2 or any(map(_is_reserved, points)):
        raise ValueError("invalid BMPString")
    return "".join(map(chr, points))


def _is_reserved(point: int) -> bool:
    """Return True for surrogates and for code points that are not characters."""
    return 0xD800 <= point <= 0xDFFF or 0xFDD0 <= point <= 0xFDEF or point >= 0xFFFE


STRINGS: Final[dict[int, Callable[[bytes], str]]] = {
    0x0C: _utf8,
    0x12: _numeric,
    0x13: _printable,
    0x14: lambda content: content.decode("latin-1"),
    0x16: _ascii,
    0x1E: _basic_plane,
}


# Extensions


def _parse_extensions(certificate: Certificate, explicit: Reader) -> None:
    """Store the extensions of a certificate, and what the known ones say; critical ones that are
    not understood go to `unhandled`. ValueError for a malformed or repeated extension.
    """
    extensions = explicit.inside(der.SEQUENCE, "x509: malformed extensions")
    seen: set[Oid] = set()
    while not extensions.is_empty:
        content = extensions.inside(der.SEQUENCE, "x509: malformed extension")
        extension = parse_extension(content)
        if extension.oid in seen:
            text = ".".join(map(str, extension.oid))
            raise ValueError(f'x509: certificate contains duplicate extension with OID "{text}"')
        seen.add(extension.oid)
        certificate.extensions.append(extension)
    for extension in certificate.extensions:
        parse = _EXTENSIONS.get(extension.oid)
        is_handled = parse is not None and parse(certificate, extension)
        if extension.critical and not is_handled:
            certificate.unhandled.append(extension.oid)


def parse_extension(reader: Reader) -> Extension:
    """Return the extension in the content of a DER sequence; ValueError if it is malformed."""
    oid = reader.oid("x509: malformed extension OID field")
    critical = False
    if reader.peek(der.BOOLEAN):
        critical = reader.boolean("x509: malformed extension critical field")
    value = reader.element(der.OCTET_STRING, "x509: malformed extension value field")
    return Extension(oid, critical, value.content)


def _key_usage(certificate: Certificate, extension: Extension) -> bool:
    """Store the key usage with Go's bits. Return True: the extension is understood. ValueError if
    it is malformed.
    """
    octets, _ = Reader(extension.value).bits("x509: invalid key usage")
    for bit in range(9):
        if bit // 8 < len(octets) and octets[bit // 8] & (0x80 >> bit % 8):
            certificate.key_usage |= 1 << bit
    return True


def _basic_constraints(certificate: Certificate, extension: Extension) -> bool:
    """Store whether the certificate is an authority, and its path length (-1 for none). Return
    True: the extension is understood. ValueError if it is malformed.
    """
    fault = "x509: invalid basic constraints"
    reader = Reader(extension.value).inside(der.SEQUENCE, fault)
    certificate.basic_constraints, certificate.max_path = True, -1
    if reader.peek(der.BOOLEAN):
        certificate.is_ca = reader.boolean(fault)
    if reader.peek(der.INTEGER):
        certificate.max_path = reader.small_integer(fault)
        if certificate.max_path < 0:
            raise ValueError(fault)
    return True


def _alternative_names(certificate: Certificate, extension: Extension) -> bool:
    """Store the alternative names. Return False (not understood) if none of them is of a known
    kind.
    """
    add_names(certificate.names, extension.value)
    return not certificate.names.is_empty


def add_names(names: Names, value: bytes) -> None:
    """Add the alternative names in the value of an extension (mail addresses, DNS names, URIs, IP
    addresses) to `names`; other kinds are passed over. ValueError, in Go's words, if the value or a
    name is malformed.
    """
    reader = Reader(value).inside(der.SEQUENCE, "x509: invalid subject alternative names")
    while not reader.is_empty:
        element = reader.any("x509: invalid subject alternative name")
        content = element.content
        # A context tag without its class; other tags become numbers that are none of these kinds.
        kind = element.tag ^ 0x80
        if kind == 1:
            names.emails.append(_ia5(content, "x509: SAN rfc822Name is malformed"))
        elif kind == 2:
            names.dns.append(_ia5(content, "x509: SAN dNSName is malformed"))
        elif kind == 6:
            uri = _ia5(content, "x509: SAN uniformResourceIdentifier is malformed")
            _check_uri(uri)
            names.uris.append(uri)
        elif kind == 7:
            if len(content) not in (4, 16):
                raise ValueError(f"x509: cannot parse IP address of length {len(content)}")
            names.addresses.append(content)


def _ia5(content: bytes, fault: str) -> str:
    """Decode ASCII; ValueError with the message `fault` for other bytes."""
    if not content.isascii():
        raise ValueError(fault)
    return content.decode("ascii")


def _check_uri(uri: str) -> None:
    """Raise ValueError, in Go's words, for a URI that cannot be read, or whose host is there and
    not a domain.
    """
    try:
        host = urls.read_url(uri).host
    except BuiltinError as error:
        raise ValueError(f'x509: cannot parse URI "{uri}": {error}') from None
    if host and not is_host(host):
        raise ValueError(f'x509: cannot parse URI "{uri}": invalid domain')


def _name_constraints(certificate: Certificate, extension: Extension) -> bool:
    """Store the permitted and excluded names of the extension, and whether it is critical, in the
    certificate. Return False (not understood) if one of them is of an unknown kind. ValueError if
    the extension is malformed or empty.
    """
    fault = "x509: invalid NameConstraints extension"
    outer = Reader(extension.value)
    reader = outer.inside(der.SEQUENCE, fault)
    permitted, excluded = reader.optional(0xA0, fault), reader.optional(0xA1, fault)
    if not outer.is_empty or not reader.is_empty:
        raise ValueError(fault)
    if permitted is None and excluded is None:
        raise ValueError("x509: empty name constraints extension")
    is_understood = True
    for part, into in ((permitted, certificate.permitted), (excluded, certificate.excluded)):
        if part is not None:
            if not part.content:
                raise ValueError("x509: empty name constraints subtree sequence")
            is_understood &= _add_constraints(into, Reader(part.content))
    certificate.has_constraints = not (
        certificate.permitted.is_empty and certificate.excluded.is_empty
    )
    certificate.constraints_critical = extension.critical
    return is_understood


def _add_constraints(into: Names, reader: Reader) -> bool:
    """Read the rest of `reader`, a list of subtrees, and add their names to `into`. Return False if
    one is of an unknown kind, which is left out. ValueError, in Go's words, if one is malformed.
    """
    is_understood = True
    fault = "x509: invalid NameConstraints extension"
    while not reader.is_empty:
        base = reader.inside(der.SEQUENCE, fault).any(fault)
        if base.tag == 0x87:
            into.addresses.append(_checked_range(base.content))
        elif base.tag in (0x81, 0x82, 0x86):
            text = _ia5(base.content, f"x509: invalid constraint value: {_not_ascii(base.content)}")
            kind, names = {
                0x81: ("rfc822Name", into.emails),
                0x82: ("dnsName", into.dns),
                0x86: ("URI", into.uris),
            }[base.tag]
            if base.tag == 0x86 and is_ip_address(text):
                raise ValueError(
                    f'x509: failed to parse URI constraint "{text}": cannot be IP address'
                )
            is_mailbox = base.tag == 0x81 and "@" in text
            is_valid = read_mailbox(text) is not None if is_mailbox else is_domain(text)
            if not is_valid:
                raise ValueError(f'x509: failed to parse {kind} constraint "{text}"')
            names.append(text)
        else:
            is_understood = False
    return is_understood


def _not_ascii(content: bytes) -> str:
    return f'x509: "{content.decode("utf-8", "replace")}" cannot be encoded as an IA5String'


def _checked_range(content: bytes) -> bytes:
    """Return the address and mask of a range; ValueError for other lengths, and for a mask whose
    ones are not all at its beginning.
    """
    if len(content) not in (8, 32):
        raise ValueError(f"x509: IP constraint contained value of length {len(content)}")
    mask = content[len(content) // 2 :]
    bits = f"{int.from_bytes(mask, 'big'):0{8 * len(mask)}b}"
    if "01" in bits:
        raise ValueError(f"x509: IP constraint contained invalid mask {mask.hex()}")
    return content


def _distribution_points(certificate: Certificate, extension: Extension) -> bool:
    """Store the URLs of revocation lists, which are never fetched. Return True: the extension is
    understood. ValueError if it is malformed.
    """
    reader = Reader(extension.value).inside(der.SEQUENCE, "x509: invalid CRL distribution points")
    fault = "x509: invalid CRL distribution point"
    while not reader.is_empty:
        name = reader.inside(der.SEQUENCE, fault).optional(0xA0, fault)
        if name is None:
            continue
        full = Reader(name.content).inside(0xA0, fault)
        while full.peek(0x86):
            uri = full.any(fault).content
            certificate.distribution_points.append(uri.decode("utf-8", "replace"))
    return True


def _authority_key(certificate: Certificate, extension: Extension) -> bool:
    """Store the identifier of the issuer's key, if there is one. Return True: the extension is
    understood. ValueError if it is malformed or marked critical.
    """
    if extension.critical:
        raise ValueError("x509: authority key identifier incorrectly marked critical")
    fault = "x509: invalid authority key identifier"
    identifier = Reader(extension.value).inside(der.SEQUENCE, fault).optional(0x80, fault)
    certificate.authority_key = None if identifier is None else identifier.content
    return True


def _subject_key(certificate: Certificate, extension: Extension) -> bool:
    """Store the identifier of the own key. Return True: the extension is understood. ValueError if
    it is malformed or marked critical.
    """
    if extension.critical:
        raise ValueError("x509: subject key identifier incorrectly marked critical")
    reader = Reader(extension.value)
    certificate.subject_key = reader.element(
        der.OCTET_STRING, "x509: invalid subject key identifier"
    ).content
    return True


def _purposes(certificate: Certificate, extension: Extension) -> bool:
    """Store the extended key usages, known ones as Go's numbers. Return True: the extension is
    understood. ValueError if it is malformed.
    """
    fault = "x509: invalid extended key usages"
    reader = Reader(extension.value).inside(der.SEQUENCE, fault)
    while not reader.is_empty:
        oid = reader.oid(fault)
        if oid in _PURPOSES:
            certificate.purposes.append(_PURPOSES[oid])
        else:
            certificate.unknown_purposes.append(oid)
    return True


def _policies(certificate: Certificate, extension: Extension) -> bool:
    """Store the policies of the extension in the certificate, in its order. Return True: the
    extension is understood. ValueError if it is malformed or names a policy twice.
    """
    fault = "x509: invalid certificate policies"
    reader = Reader(extension.value).inside(der.SEQUENCE, fault)
    policies: list[Oid] = []
    while not reader.is_empty:
        content = reader.inside(der.SEQUENCE, fault).element(der.OBJECT_IDENTIFIER, fault).content
        oid = oid_numbers(content)
        if oid is None or oid in policies:
            raise ValueError(fault)
        policies.append(oid)
    certificate.policies = policies
    return True


def _policy_mappings(certificate: Certificate, extension: Extension) -> bool:
    """Store the pairs of policies that the extension says are the same, the issuer's first. Return
    True: the extension is understood. ValueError if it is malformed.
    """
    fault = "x509: invalid policy mappings extension"
    reader = Reader(extension.value).inside(der.SEQUENCE, fault)
    while not reader.is_empty:
        pair = reader.inside(der.SEQUENCE, fault)
        contents = [pair.element(der.OBJECT_IDENTIFIER, fault).content for _ in range(2)]
        issuer, subject = map(oid_numbers, contents)
        # Go keeps a malformed identifier, which no policy can equal.
        certificate.policy_mappings.append((issuer or (), subject or ()))
    return True


def _policy_constraints(certificate: Certificate, extension: Extension) -> bool:
    """Store after how many further certificates a policy is required, and after how many policies
    can no longer be mapped. Return True: the extension is understood. ValueError if it is
    malformed.
    """
    fault = "x509: invalid policy constraints extension"
    reader = Reader(extension.value).inside(der.SEQUENCE, fault)
    if reader.peek(0x80):
        certificate.require_explicit_policy = reader.small_integer(fault, 0x80)
    if reader.peek(0x81):
        certificate.inhibit_policy_mapping = reader.small_integer(fault, 0x81)
    return True


def _inhibit_any_policy(certificate: Certificate, extension: Extension) -> bool:
    """Store after how many further certificates "any policy" no longer counts. Return True: the
    extension is understood. ValueError if it is malformed.
    """
    fault = "x509: invalid inhibit any policy extension"
    certificate.inhibit_any_policy = Reader(extension.value).small_integer(fault)
    return True


_ACCESS: Final = (1, 3, 6, 1, 5, 5, 7, 48)


def _authority_access(certificate: Certificate, extension: Extension) -> bool:
    """Store the URLs of OCSP servers and of issuer certificates, which are never fetched, in the
    certificate; others are passed over. Return True: the extension is understood. ValueError if it
    is malformed or critical.
    """
    if extension.critical:
        raise ValueError("x509: authority info access incorrectly marked critical")
    fault = "x509: invalid authority info access"
    reader = Reader(extension.value).inside(der.SEQUENCE, fault)
    into: dict[Oid, list[str]] = {
        (*_ACCESS, 1): certificate.ocsp_servers,
        (*_ACCESS, 2): certificate.issuer_urls,
    }
    while not reader.is_empty:
        description = reader.inside(der.SEQUENCE, fault)
        method = description.oid(fault)
        if description.peek(0x86):
            uri = description.any(fault).content.decode("utf-8", "replace")
            # Those of other methods go into a list that nobody keeps.
            into.get(method, []).append(uri)
    return True


_EXTENSIONS: Final[dict[Oid, Callable[[Certificate, Extension], bool]]] = {
    (2, 5, 29, 14): _subject_key,
    (2, 5, 29, 15): _key_usage,
    SUBJECT_ALTERNATIVE_NAME: _alternative_names,
    (2, 5, 29, 19): _basic_constraints,
    (2, 5, 29, 30): _name_constraints,
    (2, 5, 29, 31): _distribution_points,
    (2, 5, 29, 32): _policies,
    (2, 5, 29, 33): _policy_mappings,
    (2, 5, 29, 35): _authority_key,
    (2, 5, 29, 36): _policy_constraints,
    (2, 5, 29, 37): _purposes,
    (2, 5, 29, 54): _inhibit_any_policy,
    (1, 3, 6, 1, 5, 5, 7, 1, 1): _authority_access,
}
"""Known extensions. Each stores what an extension says and returns whether it understands all of
it; ValueError, with Go's text, if it is malformed.
"""
