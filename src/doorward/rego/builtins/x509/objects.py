"""Certificates and requests as the objects that OPA's policies know: Go's structures as JSON.

Bytes are base64, times RFC 3339, object identifiers lists of numbers, algorithms and usages Go's
numbers for them. Everything is read from the DER itself, so raw parts are the certificate's own
bytes. ValueError for what is malformed. Nothing is verified here.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import field
from ipaddress import ip_address
from typing import Any, Final

from doorward.base.records import mutable, record
from doorward.rego.builtins.x509.der import Element, read
from doorward.rego.errors import BuiltinError
from doorward.rego.golang import urls as go_url
from doorward.rego.values import Key, Value

__all__ = [
    "CertificateFields",
    "certificate_fields",
    "certificate_object",
    "public_key_object",
    "request_object",
]

Object = dict[Key, Value]
Oid = tuple[int, ...]

_RSA: Final = (1, 2, 840, 113549, 1, 1, 1)
_ECDSA: Final = (1, 2, 840, 10045, 2, 1)
_ED25519: Final = (1, 3, 101, 112)
_KEY_ALGORITHMS: Final[dict[Oid, int]] = {
    _RSA: 1,
    (1, 2, 840, 10040, 4, 1): 2,
    _ECDSA: 3,
    _ED25519: 4,
}
_PKCS1: Final = (1, 2, 840, 113549, 1, 1)
_ANSI: Final = (1, 2, 840, 10045, 4)
_SIGNATURE_ALGORITHMS: Final[dict[Oid, int]] = {
    (*_PKCS1, 2): 1,
    (*_PKCS1, 4): 2,
    (*_PKCS1, 5): 3,
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
_PSS: Final = (*_PKCS1, 10)
_PSS_HASHES: Final[dict[Oid, int]] = {
    (2, 16, 840, 1, 101, 3, 4, 2, 1): 13,
    (2, 16, 840, 1, 101, 3, 4, 2, 2): 14,
    (2, 16, 840, 1, 101, 3, 4, 2, 3): 15,
}
_NAME_FIELDS: Final[dict[Oid, str]] = {
    (2, 5, 4, 3): "CommonName",
    (2, 5, 4, 5): "SerialNumber",
    (2, 5, 4, 6): "Country",
    (2, 5, 4, 7): "Locality",
    (2, 5, 4, 8): "Province",
    (2, 5, 4, 9): "StreetAddress",
    (2, 5, 4, 10): "Organization",
    (2, 5, 4, 11): "OrganizationalUnit",
    (2, 5, 4, 17): "PostalCode",
}
_ONE_OF: Final = frozenset({"CommonName", "SerialNumber"})
_PURPOSES: Final[dict[Oid, int]] = {
    (2, 5, 29, 37, 0): 0,
    **{(1, 3, 6, 1, 5, 5, 7, 3, n): n for n in range(1, 10)},
    (1, 3, 6, 1, 4, 1, 311, 10, 3, 3): 10,
    (2, 16, 840, 1, 113730, 4, 1): 11,
    (1, 3, 6, 1, 4, 1, 311, 2, 1, 22): 12,
    (1, 3, 6, 1, 4, 1, 311, 61, 1, 1): 13,
}


def _base64(octets: bytes) -> str:
    return b64encode(octets).decode()


def _or_null(items: list[Value]) -> Value:
    return items or None


@mutable
class _Names:
    """The alternative names or name constraints of a certificate, by kind."""

    dns: list[str] = field(default_factory=list)
    emails: list[str] = field(default_factory=list)
    addresses: list[bytes] = field(default_factory=list)
    uris: list[str] = field(default_factory=list)

    def add(self, element: Element) -> None:
        """Add a GeneralName to the list of its kind; other kinds are ignored. UnicodeDecodeError
        for a name that is not ASCII.
        """
        kind = element.tag & 0x1F
        if kind == 1:
            self.emails.append(element.content.decode("ascii"))
        elif kind == 2:
            self.dns.append(element.content.decode("ascii"))
        elif kind == 6:
            self.uris.append(element.content.decode("ascii"))
        elif kind == 7:
            self.addresses.append(element.content)


@mutable
class CertificateFields:
    """The fields of a certificate that chain building needs, and its extensions for the result.
    Times are in seconds since the epoch; `max_path` is -1 for no limit; `unhandled` are critical
    extensions that are not understood.
    """

    raw: bytes
    issuer: bytes
    subject: bytes
    not_before: int
    not_after: int
    version: int = 3
    names: _Names = field(default_factory=_Names)
    permitted: _Names = field(default_factory=_Names)
    excluded: _Names = field(default_factory=_Names)
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
    policies: list[Oid] = field(default_factory=list)
    unhandled: list[Oid] = field(default_factory=list)


@record
class _Extension:
    oid: Oid
    critical: bool
    value: bytes

    def to_object(self) -> Object:
        return {"Id": list(self.oid), "Critical": self.critical, "Value": _base64(self.value)}


def _extensions(sequence: Element) -> list[_Extension]:
    """The extensions in a DER sequence: identifier, criticality and value."""
    extensions = []
    for element in sequence.children():
        parts = element.children()
        critical = len(parts) == 3 and parts[1].content != b"\x00"
        extensions.append(_Extension(parts[0].oid(), critical, parts[-1].content))
    return extensions


@record
class _Parts:
    """The parts of the to-be-signed sequence of a certificate."""

    version: int
    serial: int
    issuer: Element
    not_before: Element
    not_after: Element
    subject: Element
    key: Element
    extensions: list[_Extension]


def _parts(certificate: Element) -> _Parts:
    """Split a certificate into the parts of its signed sequence. ValueError or IndexError if it is
    malformed, ValueError if its two signature algorithms differ.
    """
    signed, outer, *_ = certificate.children()
    items = signed.children()
    version = 1
    if items[0].tag == 0xA0:
        version = read(items.pop(0).content).integer() + 1
        if not 1 <= version <= 3:
            raise ValueError("invalid version")
    serial, inner, issuer, validity, subject, key, *rest = items
    if inner.raw != outer.raw:
        raise ValueError("inner and outer signature algorithm identifiers don't match")
    extensions: list[_Extension] = []
    for element in rest:
        if element.tag == 0xA3:
            extensions = _extensions(read(element.content))
    start, end = validity.children()
    return _Parts(version, serial.integer(), issuer, start, end, subject, key, extensions)


def certificate_fields(octets: bytes) -> CertificateFields:
    """The fields of the certificate in these DER bytes; ValueError if it is malformed."""
    return _fields(read(octets))


def _fields(certificate: Element) -> CertificateFields:
    """The fields that chain building needs; critical extensions that are not understood are in
    `unhandled`. ValueError for a malformed certificate.
    """
    try:
        parts = _parts(certificate)
        fields = CertificateFields(
            raw=certificate.raw,
            issuer=parts.issuer.raw,
            subject=parts.subject.raw,
            not_before=int(parts.not_before.time().timestamp()),
            not_after=int(parts.not_after.time().timestamp()),
            version=parts.version,
        )
        for extension in parts.extensions:
            handle = _HANDLED.get(extension.oid)
            handled = handle is not None and handle(fields, extension)
            if extension.critical and not handled:
                fields.unhandled.append(extension.oid)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("malformed certificate") from error
    return fields


def _basic_constraints(fields: CertificateFields, extension: _Extension) -> bool:
    """Store if the certificate is an authority, and its path length (-1 for none). Return True: the
    extension is understood.
    """
    fields.basic_constraints, fields.max_path = True, -1
    for element in read(extension.value).children():
        if element.tag == 0x01:
            fields.is_ca = element.content != b"\x00"
        elif element.tag == 0x02:
            fields.max_path = element.integer()
    return True


def _key_usage(fields: CertificateFields, extension: _Extension) -> bool:
    """Store the key usage with Go's bits. Return True: the extension is understood."""
    octets = read(extension.value).bits()
    for bit in range(9):
        if bit // 8 < len(octets) and octets[bit // 8] & (0x80 >> bit % 8):
            fields.key_usage |= 1 << bit
    return True


def _purposes(fields: CertificateFields, extension: _Extension) -> bool:
    """Store the extended key usages, known ones as Go's numbers. Return True: the extension is
    understood.
    """
    for element in read(extension.value).children():
        purpose = _PURPOSES.get(element.oid())
        if purpose is None:
            fields.unknown_purposes.append(element.oid())
        else:
            fields.purposes.append(purpose)
    return True


def _alternative_names(fields: CertificateFields, extension: _Extension) -> bool:
    """Store the alternative names. Return False (not understood) if none of them is of a known
    kind.
    """
    for element in read(extension.value).children():
        fields.names.add(element)
    names = fields.names
    return bool(names.dns or names.emails or names.addresses or names.uris)


def _name_constraints(fields: CertificateFields, extension: _Extension) -> bool:
    """Store the permitted and excluded names. Return False (not understood) if one of them is of an
    unknown kind.
    """
    fields.has_constraints, fields.constraints_critical = True, extension.critical
    understood = True
    for part in read(extension.value).children():
        into = fields.permitted if part.tag == 0xA0 else fields.excluded
        for subtree in part.children():
            base = subtree.children()[0]
            into.add(base)
            understood &= base.tag & 0x1F in {1, 2, 6, 7}
    return understood


def _subject_key(fields: CertificateFields, extension: _Extension) -> bool:
    fields.subject_key = read(extension.value).content
    return True


def _authority_key(fields: CertificateFields, extension: _Extension) -> bool:
    """Store the identifier of the issuer's key, if there is one. Return True: the extension is
    understood.
    """
    for element in read(extension.value).children():
        if element.tag == 0x80:
            fields.authority_key = element.content
    return True


def _distribution_points(fields: CertificateFields, extension: _Extension) -> bool:
    """Store the URLs of revocation lists, which are never fetched. Return True: the extension is
    understood.
    """
    for point in read(extension.value).children():
        for part in point.children():
            for name in part.children() if part.tag == 0xA0 else ():
                uris = name.children() if name.tag == 0xA0 else []
                fields.distribution_points += [
                    u.content.decode("ascii") for u in uris if u.tag == 0x86
                ]
    return True


def _authority_access(fields: CertificateFields, extension: _Extension) -> bool:
    """Store the URLs of OCSP servers and of issuer certificates, which are never fetched. Return
    True: the extension is understood.
    """
    for description in read(extension.value).children():
        method, location = description.children()
        if location.tag == 0x86:
            kind = method.oid()[-1]
            into = {1: fields.ocsp_servers, 2: fields.issuer_urls}.get(kind)
            if into is not None:
                into.append(location.content.decode("ascii"))
    return True


def _policies(fields: CertificateFields, extension: _Extension) -> bool:
    fields.policies = [info.children()[0].oid() for info in read(extension.value).children()]
    return True


_HANDLED: Final[dict[Oid, Any]] = {
    (2, 5, 29, 14): _subject_key,
    (2, 5, 29, 15): _key_usage,
    (2, 5, 29, 17): _alternative_names,
    (2, 5, 29, 19): _basic_constraints,
    (2, 5, 29, 30): _name_constraints,
    (2, 5, 29, 31): _distribution_points,
    (2, 5, 29, 32): _policies,
    (2, 5, 29, 35): _authority_key,
    (2, 5, 29, 37): _purposes,
    (1, 3, 6, 1, 5, 5, 7, 1, 1): _authority_access,
}


def certificate_object(octets: bytes, *, uri_strings: bool = True) -> Object:
    """The object that OPA shows for a certificate in DER, with the field `URIStrings` only if
    `uri_strings`. ValueError or IndexError if it is malformed.
    """
    certificate = read(octets)
    fields = _fields(certificate)
    signed, algorithm, signature = certificate.children()
    parts = _parts(certificate)
    names = fields.names
    certificate_: Object = {
        **_signed_fields(certificate, algorithm, signature, parts.key, parts.subject),
        "RawTBSCertificate": _base64(signed.raw),
        "RawIssuer": _base64(parts.issuer.raw),
        "Version": parts.version,
        "SerialNumber": parts.serial,
        "Issuer": _name(parts.issuer),
        "NotBefore": parts.not_before.time().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "NotAfter": parts.not_after.time().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "KeyUsage": fields.key_usage,
        "Extensions": _or_null([e.to_object() for e in parts.extensions]),
        "ExtraExtensions": None,
        "UnhandledCriticalExtensions": _or_null([list(oid) for oid in fields.unhandled]),
        "ExtKeyUsage": _or_null(list(fields.purposes)),
        "UnknownExtKeyUsage": _or_null([list(oid) for oid in fields.unknown_purposes]),
        "BasicConstraintsValid": fields.basic_constraints,
        "IsCA": fields.is_ca,
        "MaxPathLen": fields.max_path,
        "MaxPathLenZero": fields.basic_constraints and fields.max_path == 0,
        "SubjectKeyId": None if fields.subject_key is None else _base64(fields.subject_key),
        "AuthorityKeyId": None if fields.authority_key is None else _base64(fields.authority_key),
        "OCSPServer": _or_null(list(fields.ocsp_servers)),
        "IssuingCertificateURL": _or_null(list(fields.issuer_urls)),
        **_names_object(names),
        "PermittedDNSDomainsCritical": fields.constraints_critical,
        **_constraints_object("Permitted", fields.permitted),
        **_constraints_object("Excluded", fields.excluded),
        "CRLDistributionPoints": _or_null(list(fields.distribution_points)),
        "PolicyIdentifiers": _or_null([list(oid) for oid in fields.policies]),
        "Policies": _or_null([".".join(map(str, oid)) for oid in fields.policies]),
        "PolicyMappings": None,
        **{name: 0 for name in _POLICY_LIMITS},
        **{f"{name}Zero": False for name in _POLICY_LIMITS},
    }
    if uri_strings:
        certificate_["URIStrings"] = _or_null(list(names.uris))
    return certificate_


_POLICY_LIMITS: Final = ("InhibitAnyPolicy", "InhibitPolicyMapping", "RequireExplicitPolicy")


def _signed_fields(
    whole: Element, algorithm: Element, signature: Element, key: Element, subject: Element
) -> Object:
    """The fields that certificates and certificate requests have in common."""
    return {
        "Raw": _base64(whole.raw),
        "RawSubjectPublicKeyInfo": _base64(key.raw),
        "RawSubject": _base64(subject.raw),
        "RawSignatureAlgorithm": _base64(algorithm.raw),
        "Signature": _base64(signature.bits()),
        "SignatureAlgorithm": _signature_algorithm(algorithm),
        "PublicKeyAlgorithm": _KEY_ALGORITHMS.get(key.children()[0].children()[0].oid(), 0),
        "PublicKey": public_key_object(key),
        "Subject": _name(subject),
    }


def _signature_algorithm(algorithm: Element) -> int:
    """Go's number for the signature algorithm, for PSS by its hash; 0 for an unknown one."""
    oid, *parameters = algorithm.children()
    if oid.oid() != _PSS or not parameters:
        return _SIGNATURE_ALGORITHMS.get(oid.oid(), 0)
    for element in parameters[0].children():
        if element.tag == 0xA0:
            return _PSS_HASHES.get(read(element.content).children()[0].oid(), 0)
    return 0


def public_key_object(key: Element) -> Value:
    """The object of a public key, with the fields of Go's types; null for a kind of key that Go
    does not know. An EC point is read as an uncompressed one, without a check.
    """
    algorithm, bits = key.children()
    oid = algorithm.children()[0].oid()
    if oid == _RSA:
        modulus, exponent = read(bits.bits()).children()
        return {"N": modulus.integer(), "E": exponent.integer()}
    if oid == _ECDSA:
        point = bits.bits()[1:]
        half = len(point) // 2
        x, y = int.from_bytes(point[:half], "big"), int.from_bytes(point[half:], "big")
        return {"Curve": {}, "X": x, "Y": y}
    return _base64(bits.bits()) if oid == _ED25519 else None


def _name(name: Element) -> Object:
    """The object of a distinguished name with the fields of Go's `pkix.Name`; `Names` holds all
    attributes in order.
    """
    fields: Object = {
        known: "" if known in _ONE_OF else None for known in sorted(_NAME_FIELDS.values())
    }
    names: list[Value] = []
    fields["ExtraNames"] = None
    for part in name.children():
        for attribute in part.children():
            kind, value = attribute.children()
            text = value.text()
            names.append({"Type": list(kind.oid()), "Value": text})
            known = _NAME_FIELDS.get(kind.oid(), "")
            if known in _ONE_OF:
                fields[known] = text
            elif known:
                before = fields[known]
                fields[known] = [*(before if isinstance(before, list) else []), text]
    fields["Names"] = _or_null(names)
    return fields


def _names_object(names: _Names) -> Object:
    """The alternative names as the fields of Go's certificate; null for kinds without a name.
    ValueError for an invalid URI or address.
    """
    return {
        "DNSNames": _or_null(list(names.dns)),
        "EmailAddresses": _or_null(list(names.emails)),
        "IPAddresses": _or_null([str(ip_address(octets)) for octets in names.addresses]),
        "URIs": _or_null([_uri(uri) for uri in names.uris]),
    }


def _uri(uri: str) -> Object:
    """The object of a URI with the fields of Go's `url.URL`; ValueError for an invalid URI."""
    try:
        parts = go_url.parse(uri)
        url = go_url.split(uri)
    except BuiltinError:
        raise ValueError("malformed certificate") from None
    return {
        "Scheme": parts.get("scheme", ""),
        "Opaque": "",
        "User": None,
        "Host": url.host,
        "Path": parts.get("path", ""),
        "RawPath": "",
        "OmitHost": False,
        "ForceQuery": False,
        "RawQuery": parts.get("raw_query", ""),
        "Fragment": parts.get("fragment", ""),
        "RawFragment": "",
    }


def _constraints_object(prefix: str, names: _Names) -> Object:
    """The name constraints as fields of Go's certificate; `prefix` is "Permitted" or "Excluded"."""
    ranges: list[Value] = []
    for octets in names.addresses:
        half = len(octets) // 2
        address = str(ip_address(octets[:half]))
        ranges.append({"IP": address, "Mask": _base64(octets[half:])})
    return {
        f"{prefix}DNSDomains": _or_null(list(names.dns)),
        f"{prefix}EmailAddresses": _or_null(list(names.emails)),
        f"{prefix}IPRanges": _or_null(ranges),
        f"{prefix}URIDomains": _or_null(list(names.uris)),
    }


_EXTENSION_REQUEST: Final = (1, 2, 840, 113549, 1, 9, 14)


def request_object(octets: bytes) -> Object:
    """The object that OPA shows for a certificate request in DER; of its attributes only requested
    extensions are in it. ValueError or IndexError if it is malformed.
    """
    request = read(octets)
    signed, algorithm, signature = request.children()
    version, subject, key, *rest = signed.children()
    extensions: list[_Extension] = []
    attributes: list[Value] = []
    for attribute in rest[0].children() if rest else ():
        kind, values = attribute.children()
        if kind.oid() == _EXTENSION_REQUEST:
            sets = [value.children() for value in values.children()]
            extensions += [e for value in values.children() for e in _extensions(value)]
            attributes.append({"Type": list(kind.oid()), "Value": [_attributes(s) for s in sets]})
    names = _Names()
    for extension in extensions:
        if extension.oid == (2, 5, 29, 17):
            for element in read(extension.value).children():
                names.add(element)
    return {
        **_signed_fields(request, algorithm, signature, key, subject),
        "RawTBSCertificateRequest": _base64(signed.raw),
        "Version": version.integer(),
        "Attributes": _or_null(attributes),
        "Extensions": _or_null([extension.to_object() for extension in extensions]),
        "ExtraExtensions": None,
        **_names_object(names),
    }


def _attributes(items: list[Element]) -> Value:
    """The attributes of a certificate request: type, and value in base64."""
    pairs: list[Value] = []
    for item in items:
        kind, *_, value = item.children()
        pairs.append({"Type": list(kind.oid()), "Value": _base64(value.content)})
    return pairs
